"""Attained service decides the order; a running gang goes only for a job of an earlier class."""

from dataclasses import replace

import pytest

from scheduler.domain.instants import SECOND, Duration, Instant
from scheduler.domain.job import Job
from scheduler.domain.snapshot import Snapshot
from scheduler.policies.las import ByService, LasExact
from tests.builders import a_job, a_snapshot, at


def ran(job: Job, seconds: float) -> Job:
    return replace(job, ran_for=Duration(round(seconds * SECOND)))


def preempted(name: str, *, ran_s: float, placed_s: float, stopped_s: float, start: int) -> Job:
    """Ran for so long in all; its last run began and was stopped then."""
    return replace(
        ran(a_job(name, gpus=1), ran_s),
        reason="Preempted",
        phase_since=at(stopped_s),
        last_placed_at=at(placed_s),
        start_number=start,
    )


def a_world(*running: tuple[Job, dict[str, int]], now: Instant = Instant(0)) -> Snapshot:
    return a_snapshot("r1: 8", pending=[a_job("w")], running=running, now=now)


def test_less_service_goes_first_class_by_class() -> None:
    policy = ByService(a_world())
    young, old = ran(a_job("z", gpus=8), 449), ran(a_job("a", gpus=8), 450)
    assert policy.key(young) < policy.key(old)


def test_in_a_class_running_gangs_stand_before_those_that_wait() -> None:
    snapshot = a_world((a_job("r", submitted_at=at(9)), {"r1-n0": 1}), now=at(10))
    policy = ByService(snapshot)
    assert policy.rank(snapshot.holding[0]) < policy.key(a_job("a", submitted_at=at(1)))


def test_a_gang_that_has_left_its_class_stands_behind_new_jobs() -> None:
    snapshot = a_world((a_job("r", gpus=8), {"r1-n0": 1}), now=at(450))
    policy = ByService(snapshot)
    assert policy.rank(snapshot.holding[0]) > policy.key(a_job("a", submitted_at=at(1)))


@pytest.mark.parametrize(
    ("policy", "leaves_s"),
    [
        pytest.param(ByService, 450, id="3600 GPU-seconds on 8 GPUs"),
        pytest.param(LasExact, 407, id="3250 GPU-seconds on 8 GPUs, seen at whole seconds"),
    ],
)
def test_a_gang_gives_reason_to_decide_when_it_leaves_its_class(
    policy: type[ByService], leaves_s: int
) -> None:
    snapshot = a_world((a_job("r", gpus=8), {"r1-n0": 1}), now=at(10))
    assert policy(snapshot).changes_at(snapshot.holding[0]) == at(leaves_s)


def test_nothing_is_to_be_decided_while_nobody_waits() -> None:
    snapshot = replace(a_world((a_job("r", gpus=8), {"r1-n0": 1})), pending=())
    assert ByService(snapshot).next_decision_at() is None


def test_in_an_exact_queue_the_job_stopped_last_stands_before_the_others_and_new_ones() -> None:
    policy = LasExact(a_world(now=at(100)))
    jobs = [
        preempted("late", ran_s=10, placed_s=70, stopped_s=80, start=1),
        preempted("early", ran_s=10, placed_s=40, stopped_s=50, start=2),
        a_job("new", submitted_at=at(1)),
    ]
    assert sorted(jobs, key=policy.key) == jobs


def test_jobs_stopped_together_keep_the_order_they_were_started_in() -> None:
    policy = LasExact(a_world(now=at(100)))
    second = preempted("a", ran_s=10, placed_s=40, stopped_s=50, start=8)
    first = preempted("b", ran_s=10, placed_s=40, stopped_s=50, start=7)
    assert policy.key(first) < policy.key(second)


def test_a_job_stopped_as_it_came_into_a_queue_stands_at_its_tail() -> None:
    policy = LasExact(a_world(now=at(9_000)))
    came = preempted("a", ran_s=3_250, placed_s=0, stopped_s=3_250, start=1)
    stopped = preempted("b", ran_s=4_000, placed_s=0, stopped_s=4_000, start=2)
    assert policy.key(stopped) < policy.key(came)
