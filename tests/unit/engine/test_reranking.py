"""Running gangs ranked with jobs that wait: who starts, who is stopped, who is promised what."""

import random
from collections.abc import Mapping, Sequence

import pytest

from scheduler.domain.job import Job
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import PromisedGpus, TooFewGpus
from scheduler.domain.plan import Plan
from scheduler.domain.snapshot import Snapshot
from scheduler.engine.cycle import decide
from scheduler.engine.invariants import check_plan
from scheduler.policies.registry import policy_named
from tests.builders import a_job, a_snapshot, at

FEWEST_GPUS_FIRST = PolicyKnobs(policy="sjf")


def a_world(
    cluster: str, *, pending: Sequence[Job], running: Sequence[tuple[Job, Mapping[str, int]]]
) -> Snapshot:
    return a_snapshot(cluster, pending=pending, running=running, knobs=FEWEST_GPUS_FIRST)


def planned(snapshot: Snapshot) -> Plan:
    plan = decide(snapshot, policy_named("sjf"))
    check_plan(snapshot, plan)
    return plan


def names(ids: Sequence[str]) -> list[str]:
    return [each.removeprefix("id-") for each in ids]


def stopped(plan: Plan) -> list[str]:
    return names([stop.job_id for stop in plan.stop])


def started(plan: Plan) -> list[str]:
    return names([start.job_id for start in plan.start])


def promised(plan: Plan) -> list[str]:
    return names([promise.job_id for promise in plan.promise])


def test_nobody_is_stopped_while_there_is_room() -> None:
    plan = planned(
        a_world("r1: 8 8", pending=[a_job("a", gpus=1)], running=[(a_job("r"), {"r1-n0": 1})])
    )
    assert (started(plan), stopped(plan), promised(plan)) == (["a"], [], [])


def test_a_gang_ranked_behind_goes_and_the_job_is_promised_its_place() -> None:
    job = a_job("a", gpus=1)
    plan = planned(a_world("r1: 8", pending=[job], running=[(a_job("r"), {"r1-n0": 1})]))
    assert (started(plan), stopped(plan), promised(plan)) == ([], ["r"], ["a"])
    assert plan.stop[0].beneficiary == job.id
    assert isinstance(plan.blocked[job.id], PromisedGpus)


def test_a_gang_ranked_before_stays() -> None:
    job = a_job("a")
    running = [(a_job("r", gpus=4), {"r1-n0": 1})]
    plan = planned(a_world("r1: 8", pending=[job], running=running))
    assert stopped(plan) == []
    assert isinstance(plan.blocked[job.id], TooFewGpus)


def test_of_the_gangs_behind_the_last_goes_first() -> None:
    running = [(a_job(name, gpus=4), {"r1-n0": 1}) for name in ("r1", "r2")]
    plan = planned(a_world("r1: 8", pending=[a_job("a", gpus=3)], running=running))
    assert stopped(plan) == ["r2"]


def test_a_gang_behind_that_still_fits_beside_the_job_stays() -> None:
    running = [(a_job("r1", gpus=6), {"r1-n0": 1}), (a_job("r2", gpus=7), {"r1-n1": 1})]
    plan = planned(a_world("r1: 8 8", pending=[a_job("a", gpus=3)], running=running))
    assert stopped(plan) == ["r2"]


def test_what_one_job_leaves_of_a_stopped_gang_is_promised_to_the_next() -> None:
    jobs = [a_job("a", gpus=3), a_job("b", gpus=4), a_job("c", gpus=4)]
    plan = planned(a_world("r1: 8", pending=jobs, running=[(a_job("r"), {"r1-n0": 1})]))
    assert (stopped(plan), promised(plan)) == (["r"], ["a", "b"])
    assert isinstance(plan.blocked[jobs[2].id], TooFewGpus)


def test_a_gang_given_up_for_one_job_stays_if_another_makes_room_for_both() -> None:
    """a alone would send r2; b then sends r1, whose larger place holds a, b and r2."""
    running = [(a_job("r1", gpus=4), {"r1-n0": 1}), (a_job("r2", gpus=4), {"r1-n0": 1})]
    jobs = [a_job("a", gpus=1), a_job("b", gpus=3)]
    plan = planned(a_world("r1: 8", pending=jobs, running=running))
    assert (stopped(plan), promised(plan)) == (["r2"], ["a", "b"])


def test_a_gang_is_not_given_up_in_vain() -> None:
    """Eight GPUs on one node are not to be had, whoever goes: two workers of another stay there."""
    job = a_job("a", gpus=8)
    running = [
        (a_job("r1", gpus=5), {"r1-n0": 1}),
        (a_job("big", workers=2, gpus=6), {"r1-n1": 1, "r1-n2": 1}),
    ]
    plan = planned(a_world("r1: 8 6 6", pending=[job], running=running))
    assert (stopped(plan), promised(plan)) == ([], [])


def test_a_leaving_gang_is_not_stopped_again() -> None:
    first = a_world("r1: 8", pending=[a_job("a", gpus=1)], running=[(a_job("r"), {"r1-n0": 1})])
    plan = planned(first)
    assert stopped(plan) == ["r"]


@pytest.mark.parametrize("seed", range(200))
def test_on_one_pool_of_gpus_the_outcome_is_that_of_the_whole_list(seed: int) -> None:
    """Take all live jobs by rank, each as far as GPUs go."""
    rng = random.Random(seed)
    gpus = rng.randint(4, 24)
    free, running = gpus, []
    for number in range(rng.randint(0, 8)):
        size = rng.randint(1, 8)
        if size <= free:
            free -= size
            job = a_job(f"r{number}", gpus=size, submitted_at=at(rng.randint(0, 2)))
            running.append((job, {"r1-n0": 1}))
    jobs = [
        a_job(f"p{number}", gpus=rng.randint(1, 10), submitted_at=at(rng.randint(0, 2)))
        for number in range(rng.randint(1, 8))
    ]
    plan = planned(a_world(f"r1: {gpus}", pending=jobs, running=running))
    everybody = [*jobs, *(job for job, _ in running)]
    left, chosen = gpus, set()
    for job in sorted(everybody, key=lambda job: (job.spec.gpus, job.submitted_at, job.id)):
        if job.spec.gpus <= left:
            left -= job.spec.gpus
            chosen.add(job.id)
    kept = {job.id for job, _ in running} - {stop.job_id for stop in plan.stop}
    assert kept | {s.job_id for s in plan.start} | {p.job_id for p in plan.promise} == chosen
