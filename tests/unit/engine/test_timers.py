"""The tuner's table: a row for each demand and level, with what it stands on."""

from collections.abc import Iterable

import pytest

from scheduler.domain.explain import explain_retuned
from scheduler.domain.ids import JobId, LevelName
from scheduler.domain.instants import DAY, MINUTE, Duration, Instant
from scheduler.domain.knobs import PolicyKnobs, Timers
from scheduler.domain.timers import TimerRow, TimerSource
from scheduler.domain.waits import WaitObservation
from scheduler.engine.timers import has_timers, retuned, timer_table
from tests.builders import a_cluster

NOW = Instant(30 * DAY)
CLUSTER = a_cluster("r1: 8 8\nr2: 8")
DALLY = PolicyKnobs(policy="dally")


def some_waits(
    count: int, *, demand: int = 8, minutes: int = 5, censored: bool = False, level: str = "rack"
) -> list[WaitObservation]:
    """Equal waits, a second apart, the last one a minute ago."""
    return [
        WaitObservation(
            job_id=JobId(f"{demand}-{n}-{censored}"),
            demand=demand,
            level=LevelName(level),
            wait=Duration(minutes * MINUTE),
            is_censored=censored,
            at=Instant(NOW - MINUTE - n * 1_000_000),
        )
        for n in range(count)
    ]


def table(
    waits: Iterable[WaitObservation], demands: Iterable[int] = (), knobs: PolicyKnobs = DALLY
) -> dict[tuple[int, str], TimerRow]:
    """Rows by demand and level."""
    rows = timer_table(
        list(waits), demands, levels=CLUSTER.levels, nodes=CLUSTER.nodes, knobs=knobs, now=NOW
    )
    return {row.cell: row for row in rows}


def test_enough_waits_make_a_timer_with_its_counts() -> None:
    row = table([*some_waits(20), *some_waits(3, minutes=2, censored=True)])[8, "rack"]
    assert (row.timer, row.source, row.learned_from) == (5 * MINUTE, TimerSource.LEARNED, 8)
    assert (row.accepted, row.censored) == (20, 3)
    assert row.changed_at == NOW - MINUTE


def test_too_few_waits_are_counted_and_teach_nothing() -> None:
    row = table(some_waits(19))[8, "rack"]
    assert (row.timer, row.source) == (None, TimerSource.VALUE_OF_WAITING)
    assert (row.accepted, row.learned_from) == (19, 0)


def test_a_demand_with_too_few_waits_takes_the_timer_of_a_smaller_one() -> None:
    row = table([*some_waits(20, demand=4, minutes=7), *some_waits(3)])[8, "rack"]
    assert (row.timer, row.source, row.learned_from) == (7 * MINUTE, TimerSource.SMALLER_DEMAND, 4)
    assert (row.accepted, row.censored) == (3, 0)


def test_a_timer_is_never_longer_than_all_timers_of_a_job_may_be() -> None:
    knobs = PolicyKnobs(policy="dally", wait_max=Duration(MINUTE))
    assert table(some_waits(20), knobs=knobs)[8, "rack"].timer == MINUTE


def test_live_demands_have_rows_where_one_domain_could_hold_them() -> None:
    assert list(table((), {1, 8, 16, 32, 0})) == [
        (1, "node"),
        (1, "rack"),
        (8, "node"),
        (8, "rack"),
        # A gang of nine GPUs is in the bucket of 16, and one of 17 in that of 32.
        (16, "rack"),
    ]


def test_waits_of_a_level_that_is_gone_are_shown_before_the_others() -> None:
    assert next(iter(table(some_waits(1, level="block"), {8}))) == (8, "block")


@pytest.mark.parametrize(
    ("knobs", "timer", "source"),
    [
        pytest.param(PolicyKnobs(timers=Timers.FIXED), 10 * MINUTE, "fixed", id="fixed"),
        pytest.param(PolicyKnobs(timers=Timers.ZERO), 0, "fixed", id="zero"),
        pytest.param(PolicyKnobs(timers=Timers.VALUE), None, "value-of-waiting", id="value"),
        pytest.param(PolicyKnobs(policy="dally-nowait"), 0, "fixed", id="a variant without"),
        pytest.param(PolicyKnobs(policy="fifo"), 5 * MINUTE, "learned", id="another policy"),
    ],
)
def test_knobs_may_say_what_timers_are(knobs: PolicyKnobs, timer: int | None, source: str) -> None:
    row = table(some_waits(20), knobs=knobs)[8, "rack"]
    assert (row.timer, row.source) == (timer, source)


def test_jobs_wait_by_timers_under_policies_of_one_family() -> None:
    assert has_timers(PolicyKnobs(policy="dally-classic"))
    assert not has_timers(PolicyKnobs(policy="fifo"))


@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [
        pytest.param([], some_waits(19), False, id="nothing is learned yet"),
        pytest.param(some_waits(19), some_waits(20), True, id="learned for the first time"),
        pytest.param(some_waits(20), some_waits(20), False, id="the same"),
        pytest.param(some_waits(20, minutes=50), some_waits(20, minutes=55), False, id="a little"),
        pytest.param(some_waits(20, minutes=50), some_waits(20, minutes=60), True, id="a fifth"),
        pytest.param(some_waits(20), some_waits(19), True, id="forgotten"),
    ],
)
def test_a_timer_that_moves_noticeably_is_told(
    before: list[WaitObservation], after: list[WaitObservation], *, is_told: bool
) -> None:
    moved = list(retuned(table(before).values(), table(after).values()))
    assert [row.cell for row in moved] == ([(8, "rack")] if is_told else [])


def test_a_retuned_timer_is_said_with_what_it_was_and_what_it_stands_on() -> None:
    row = table([*some_waits(87), *some_waits(3, minutes=2, censored=True)])[8, "rack"]
    assert explain_retuned(row, Duration(12 * MINUTE)) == (
        "gangs of up to 8 GPUs wait for one rack 5 min at most (was 12 min), from 90 past waits, "
        "3 of them in vain"
    )
    smaller = table([*some_waits(20, demand=1), *some_waits(1)])[8, "rack"]
    assert explain_retuned(smaller, None) == (
        "gangs of up to 8 GPUs wait for one rack 5 min at most, from waits of 1-GPU jobs"
    )
    assert explain_retuned(table(some_waits(2, demand=1))[1, "rack"], Duration(MINUTE)) == (
        "1-GPU jobs wait for one rack as long as that is worth to them again: 2 past waits are "
        "too few to learn from"
    )
