"""Two racks of slots and real training: who is spread at once, who waits for a rack, and what `why`
says at each moment. The test drives the clock of the loop; the workers are real processes.

    rack r1   n0: 4 of 8 taken   n1: free       a gang of 16 fits in no rack, and across both
    rack r2   n0: 4 of 8 taken   n1: free
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.explain import explain
from scheduler.domain.instants import MINUTE, Duration, after
from scheduler.domain.job import JobPhase
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import TooFewGpus, WaitingForCloserTier
from tests.local.two_racks import (
    INSENSITIVE,
    SENSITIVE,
    Live,
    fill_one_node_each,
    training,
    two_racks,
)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """Two racks whose uplinks carry a sixteenth of what their nodes could send."""
    with two_racks(tmp_path, MemoryStore()) as made:
        yield made


@pytest.mark.slow
def test_the_insensitive_job_is_spread_and_the_sensitive_one_waits_for_a_rack(live: Live) -> None:
    assert PolicyKnobs().policy == "dally"
    in_r1, _ = fill_one_node_each(live)

    # 16 slots are free across the racks: the sensitive job does not want them.
    sensitive = live.submit(training("sensitive", SENSITIVE))
    first = live.why(sensitive)
    assert isinstance(first, WaitingForCloserTier)
    assert first.until is not None
    assert (first.level, first.offered_level) == ("rack", "cluster")
    assert first.step_slowdown > 1.5
    assert "waiting for one rack until" in explain(first)
    assert "16 GPUs are free now across 2 racks, where a step would take" in explain(first)

    # A minute later the insensitive one comes, is spread at once, and trains.
    live.clock.advance(Duration(MINUTE))
    insensitive = live.submit(training("insensitive", INSENSITIVE))
    live.until(insensitive, JobPhase.RUNNING)
    assert live.tier(insensitive) == "cluster"
    assert isinstance(live.why(sensitive), TooFewGpus)
    live.clock.advance(Duration(30 * MINUTE))
    live.until(insensitive, JobPhase.SUCCEEDED)

    # Waiting has cost the sensitive one nothing meanwhile: its clock stood.
    second = live.why(sensitive)
    assert isinstance(second, WaitingForCloserTier)
    assert second.timer == first.timer
    assert second.until is not None
    assert abs(second.until - after(first.until, Duration(30 * MINUTE))) < MINUTE

    # A rack is left: the sensitive one runs inside it, and trains to its end.
    live.cancel(in_r1)
    live.until(sensitive, JobPhase.RUNNING)
    assert live.tier(sensitive) == "rack"
    live.until(sensitive, JobPhase.SUCCEEDED)


@pytest.mark.slow
def test_when_its_timer_expires_the_sensitive_job_takes_what_is_there(live: Live) -> None:
    fill_one_node_each(live)
    sensitive = live.submit(training("sensitive", SENSITIVE))
    answer = live.why(sensitive)
    assert isinstance(answer, WaitingForCloserTier)
    assert answer.until is not None
    live.clock.advance(Duration(answer.until - live.clock.now() - 1))
    assert isinstance(live.why(sensitive), WaitingForCloserTier)
    live.clock.advance(Duration(1))
    live.until(sensitive, JobPhase.RUNNING)
    assert live.tier(sensitive) == "cluster"
