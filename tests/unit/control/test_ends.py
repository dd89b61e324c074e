"""How gangs end: who decides it, what is freed when, and whether the job starts again."""

from dataclasses import replace
from itertools import pairwise

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.control.gang import Gang
from scheduler.control.moves import Moment, next_move
from scheduler.domain.ids import LevelName, NodeName, Rank, RoleName
from scheduler.domain.instants import MINUTE, Duration, Instant, seconds
from scheduler.domain.job import (
    CheckpointRequest,
    FailurePolicy,
    FailureRule,
    JobPhase,
    Outcome,
    StopCause,
)
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import Assignment, Placement
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import WorkerReport, WorkerState
from tests.builders import a_job, a_role, a_spec, an_attempt, at, reservations_of
from tests.worlds import Script, World, runs

SIGTERM_CODE = 143


def test_one_failing_rank_stops_all_the_others() -> None:
    script = Script(ranks={2: runs(10, exit_code=1, message="CUDA error")})
    world = World("r1: 8 8 8 8", script=script)
    world.submit(a_job("a", workers=4))
    world.run(seconds(30))
    job, (attempt,) = world.job("a"), world.attempts("a")
    assert (job.phase, job.reason) == (JobPhase.FAILED, Outcome.USER_ERROR)
    assert attempt.stop_cause is StopCause.WORKER_ENDED
    assert {end.rank: end.exit_code for end in attempt.worker_ends} == {
        2: 1,
        0: SIGTERM_CODE,
        1: SIGTERM_CODE,
        3: SIGTERM_CODE,
    }
    assert job.message == (
        "the program failed; its log says why (dally logs) (rank 2 on r1-n2, exit code 1): "
        "CUDA error"
    )


def test_a_failed_gang_starts_again_as_a_new_attempt_after_its_backoff() -> None:
    world = World(script=Script(runs(10, exit_code=1), runs(10)))
    world.submit(a_job("a", failure_policy=FailurePolicy(restarts_max=1)))
    world.run(seconds(11))
    job = world.job("a")
    assert (job.phase, job.restarts_user) == (JobPhase.PENDING, 1)
    ended_at = world.attempts("a")[0].ended_at
    assert ended_at is not None
    assert job.not_before == ended_at + seconds(10)
    world.run(seconds(30))
    assert world.phase("a") is JobPhase.SUCCEEDED
    second = world.attempts("a")[1]
    assert second.created_at == job.not_before
    assert world.reasons("a").count("JobRestarting") == 1


def test_restarts_are_bounded_by_the_failure_policy() -> None:
    world = World(script=Script(runs(1, exit_code=1)))
    world.submit(a_job("a", failure_policy=FailurePolicy(restarts_max=3)))
    world.run(seconds(600))
    assert (world.phase("a"), world.job("a").attempts) == (JobPhase.FAILED, 4)


def test_an_exit_code_rule_fails_the_job_at_once() -> None:
    rules = (FailureRule(exit_codes=(3,), action="Fail"),)
    world = World(script=Script(runs(1, exit_code=3)))
    world.submit(a_job("a", failure_policy=FailurePolicy(restarts_max=5, rules=rules)))
    world.run(seconds(60))
    assert (world.phase("a"), world.job("a").attempts) == (JobPhase.FAILED, 1)


def test_a_lost_node_restarts_the_gang_elsewhere_at_no_cost_to_the_job() -> None:
    world = World("r1: 8 8 8")
    world.submit(a_job("a", workers=2))
    world.run(seconds(10))
    world.cluster.lose_node("r1-n1")
    world.run(seconds(60))
    job, (first, second) = world.job("a"), world.attempts("a")
    assert (job.phase, job.restarts_user, job.restarts_infra) == (JobPhase.RUNNING, 0, 1)
    assert first.outcome is Outcome.NODE_LOST
    assert [a.node for a in second.placement.assignments] == ["r1-n0", "r1-n2"]


def test_a_vanished_worker_restarts_the_gang() -> None:
    world = World("r1: 8 8")
    world.submit(a_job("a", workers=2))
    world.run(seconds(10))
    world.cluster.lose_worker(world.cluster.orders[0].attempt, 1)
    world.run(seconds(60))
    assert world.attempts("a")[0].outcome is Outcome.WORKER_LOST
    assert (world.phase("a"), world.job("a").restarts_infra) == (JobPhase.RUNNING, 1)


def test_a_healthy_run_forgives_the_failures_before_it() -> None:
    knobs = PolicyKnobs(healthy_after=Duration(10 * MINUTE))
    script = Script(runs(1, exit_code=1), runs(1, exit_code=1), runs(700, exit_code=1), runs(1))
    world = World(script=script, knobs=knobs)
    world.submit(a_job("a", failure_policy=FailurePolicy(restarts_max=9)))
    world.run(seconds(2000))
    attempts = world.attempts("a")
    waits = [
        (later.created_at - (earlier.ended_at or 0)) // seconds(1)
        for earlier, later in pairwise(attempts)
    ]
    assert waits == [10, 20, 10]


def test_gpus_are_freed_when_their_rank_ends_not_when_the_gang_does() -> None:
    world = World("r1: 8 8", script=Script(runs(100), ranks={0: runs(10)}))
    world.submit(a_job("a", workers=2), a_job("b"))
    world.run(seconds(11))
    assert world.phase("a") is JobPhase.RUNNING
    assert {held.attempt.job_id: held.node for held in world.store.reservations()} == {
        "id-a": "r1-n1",
        "id-b": "r1-n0",
    }


def test_gpus_of_a_gang_whose_ranks_end_one_by_one_come_together() -> None:
    """A gang of four waits for all GPUs, then comes one of two that would take a piece of them."""
    ranks = {rank: runs(10 + rank / 10) for rank in range(4)}
    knobs = PolicyKnobs(policy="nowait")
    world = World("r1: 1 1 1 1", script=Script(runs(100), ranks=ranks), knobs=knobs)
    world.submit(a_job("a", workers=4, gpus=1))
    world.run(seconds(5))
    world.submit(a_job("large", workers=4, gpus=1), a_job("small", workers=2, gpus=1))
    world.run(seconds(6))
    assert world.phase("a") is JobPhase.SUCCEEDED
    assert (world.phase("large"), world.phase("small")) == (JobPhase.RUNNING, JobPhase.PENDING)


@pytest.mark.parametrize(
    ("after_s", "held"),
    [
        pytest.param(10.9, ["r1-n0", "r1-n1"], id="a second has not passed"),
        pytest.param(11.1, ["r1-n1"], id="a second has passed"),
    ],
)
def test_gpus_of_a_rank_wait_for_the_rest_of_its_gang_for_a_second(
    after_s: float, held: list[str]
) -> None:
    world = World("r1: 8 8", script=Script(runs(100), ranks={0: runs(10)}))
    world.submit(a_job("a", workers=2))
    world.run(seconds(after_s))
    assert sorted(each.node for each in world.store.reservations()) == held


@pytest.mark.parametrize(
    "ended_at",
    [
        pytest.param(None, id="nobody knows when"),
        pytest.param(at(3600), id="a clock that is ahead"),
    ],
)
def test_an_end_without_a_time_to_go_by_frees_its_gpus_at_once(ended_at: Instant | None) -> None:
    job = a_job("a", workers=2)
    placement = Placement(
        assignments=(Assignment(role=RoleName("worker"), node=NodeName("r1-n0"), workers=2),),
        tier=0,
        tier_name=LevelName("node"),
    )
    attempt = an_attempt(job, placement)
    key = AttemptKey(job.id, attempt.number)
    end = WorkerReport(
        attempt=key,
        rank=Rank(0),
        node=NodeName("r1-n0"),
        state=WorkerState.ENDED,
        exit_code=0,
        outcome=Outcome.COMPLETED,
        ended_at=ended_at,
    )
    gang = Gang(
        key=key,
        job=replace(job, phase=JobPhase.RUNNING),
        attempt=attempt,
        reservations=reservations_of(job, attempt),
        reports={Rank(0): end, Rank(1): replace(end, rank=Rank(1), state=WorkerState.RUNNING)},
    )
    move = next_move(gang, Moment(now=at(60), knobs=PolicyKnobs(), reachable_since=at(0)))
    assert move is not None
    assert move.freed == (Rank(0),)


@pytest.mark.parametrize(
    ("policy", "completing", "phase"),
    [
        pytest.param("all", (0, 1, 2), JobPhase.SUCCEEDED, id="all of them"),
        pytest.param("all", (0, 1), JobPhase.RUNNING, id="all, and one goes on"),
        pytest.param("rank0", (0,), JobPhase.SUCCEEDED, id="rank 0 is enough"),
        pytest.param("rank0", (1, 2), JobPhase.RUNNING, id="rank 0 goes on"),
        pytest.param("role:trainer", (1, 2), JobPhase.SUCCEEDED, id="a whole role"),
        pytest.param("role:trainer", (0, 1), JobPhase.RUNNING, id="half a role"),
    ],
)
def test_the_success_policy_says_who_must_complete(
    policy: str, completing: tuple[int, ...], phase: JobPhase
) -> None:
    script = Script(ranks=dict.fromkeys(completing, runs(10)))
    world = World("r1: 8 8 8", script=script)
    roles = (a_role("chief"), a_role("trainer", workers=2))
    world.submit(a_job("a", roles=roles, success_policy=policy))
    world.run(seconds(30))
    assert world.phase("a") is phase
    if phase is JobPhase.SUCCEEDED:
        assert world.attempts("a")[0].outcome is Outcome.COMPLETED
        assert world.store.reservations() == ()


def test_after_success_the_others_get_their_grace_and_no_more() -> None:
    stubborn = WorkerScript(stop_after=None)
    world = World("r1: 8 8", script=Script(stubborn, ranks={0: runs(10)}))
    spec = a_spec(workers=2, success_policy="rank0")
    world.submit(a_job("a", workers=2, success_policy="rank0"))
    world.run(seconds(10))
    grace = spec.checkpoint.grace
    world.run(Duration(grace - seconds(1)))
    assert world.phase("a") is JobPhase.STOPPING
    world.run(seconds(2))
    assert world.phase("a") is JobPhase.SUCCEEDED


def test_a_rank_that_fails_before_rank_0_has_succeeded_fails_the_attempt() -> None:
    script = Script(runs(20), ranks={1: runs(10, exit_code=1)})
    world = World("r1: 8 8", script=script)
    world.submit(a_job("a", workers=2, success_policy="rank0"))
    world.run(seconds(60))
    assert world.phase("a") is JobPhase.FAILED


def test_the_end_keeps_exit_codes_node_and_reason_of_every_attempt() -> None:
    world = World("r1: 8", script=Script(runs(1, exit_code=9), runs(1, exit_code=7)))
    world.submit(a_job("a", failure_policy=FailurePolicy(restarts_max=1)))
    world.run(seconds(60))
    ends = [
        (a.worker_ends[0].exit_code, a.placement.assignments[0].node, a.outcome)
        for a in world.attempts("a")
    ]
    assert ends == [(9, "r1-n0", Outcome.USER_ERROR), (7, "r1-n0", Outcome.USER_ERROR)]


def test_the_grace_is_what_the_job_asks_for() -> None:
    assert a_spec().checkpoint == CheckpointRequest(grace=seconds(120))
