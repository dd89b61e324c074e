"""Dally through faults of every kind: safe after every tick, nobody starves, evictions bounded."""

from collections import Counter

import pytest

from scheduler.domain.instants import seconds
from scheduler.ports.job_store import EventQuery
from tests.proof import times
from tests.simulation.sensitive_world import (
    SOON,
    SensitiveWorld,
    are_in_order,
    evicted_too_often,
)

SEEDS = times(ci=10, proof=500)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(SEEDS))
def test_promises_hold_and_every_job_ends(seed: int) -> None:
    run = SensitiveWorld(seed)
    run.run()
    assert run.open_jobs() == [], f"reproduce with seed={seed}"
    for job in run.jobs():
        assert not evicted_too_often(job, SOON.evictions_per_hour), f"reproduce with seed={seed}"
        assert are_in_order(job)


def test_t6_stops_and_moves_cost_a_job_a_bounded_share_of_what_it_ran() -> None:
    stopped = 0
    for seed in range(4):
        run = SensitiveWorld(seed)
        run.run()
        for job in run.jobs():
            lost, count = job.evictions.lost, len(job.evictions.recent)
            # It runs on for its grace, and may lose a checkpoint interval more by that.
            beyond = count * (job.spec.checkpoint.grace + seconds(10))
            assert lost <= SOON.lost_share_max * job.ran_for + beyond, f"seed={seed} {job.name}"
            assert not evicted_too_often(job, SOON.evictions_per_hour)
            stopped += count
    assert stopped > 0


@pytest.mark.parametrize("seed", range(2))
def test_t10_the_same_seed_is_the_same_run(seed: int) -> None:
    first, second = SensitiveWorld(seed), SensitiveWorld(seed)
    first.run()
    second.run()
    assert first.digest() == second.digest(), f"reproduce with seed={seed}"


def test_waits_stops_and_moves_are_not_an_empty_figure() -> None:
    met: Counter[str] = Counter()
    for seed in range(8):
        run = SensitiveWorld(seed)
        run.run()
        for job in run.jobs():
            met["waits"] += job.waiting is not None
            met["evictions"] += len(job.evictions.recent)
        events = run.store.events(EventQuery(limit=10**9))
        met.update(event.reason for event in events)
    assert met["waits"] > 5, met
    assert met["evictions"] > 0, met
    assert met["GangPreempted"] + met["GangUpgraded"] > 0, met
