"""A gang comes up whole or not at all."""

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.instants import seconds
from scheduler.domain.job import AttemptPhase, FailurePolicy, JobPhase, Outcome
from scheduler.domain.knobs import PolicyKnobs
from scheduler.ports.cluster import WorkerState
from tests.builders import APicture, a_job, a_node, a_role
from tests.gangs import a_key
from tests.worlds import Script, World, runs


def test_a_job_runs_to_its_end() -> None:
    world = World("r1: 8 8", script=Script(runs(30)))
    world.submit(a_job("a", workers=2))
    world.run(seconds(60))
    job = world.job("a")
    assert (job.phase, job.reason, job.attempts) == (JobPhase.SUCCEEDED, Outcome.COMPLETED, 1)
    assert job.first_started_at is not None
    assert job.ended_at == job.first_started_at + seconds(30)
    assert world.store.reservations() == ()


def test_every_transition_tells_one_event() -> None:
    world = World(script=Script(runs(30)))
    world.submit(a_job("a"))
    world.run(seconds(60))
    assert world.reasons("a") == ["GangPlaced", "GangPrepared", "GangStarted", "JobSucceeded"]


def test_a_gang_that_ran_and_ended_between_two_looks_has_run_all_the_same() -> None:
    world = World(script=Script(runs(0)))
    world.submit(a_job("a"))
    world.run(seconds(5))
    assert world.phase("a") is JobPhase.SUCCEEDED
    assert world.reasons("a") == ["GangPlaced", "GangPrepared", "GangStarted", "JobSucceeded"]
    assert world.attempts("a")[0].running_since is not None


def test_no_worker_runs_before_every_worker_is_made() -> None:
    script = Script(ranks={1: WorkerScript(make_after=seconds(20))})
    world = World("r1: 8 8", script=script)
    world.submit(a_job("a", workers=2))
    world.run(seconds(19))
    states = {report.state for report in world.cluster.observe().workers}
    assert states == {WorkerState.MADE}
    assert world.attempts("a")[0].phase is AttemptPhase.PREPARING
    world.run(seconds(2))
    assert world.phase("a") is JobPhase.RUNNING


def test_what_keeps_a_released_worker_back_is_said_until_it_runs() -> None:
    held = WorkerScript(start_after=seconds(30), held_back="example.com/quota says no")
    world = World("r1: 8 8", script=Script(runs(60), ranks={1: held}))
    world.submit(a_job("a", workers=2))
    world.run(seconds(10))
    assert world.phase("a") is JobPhase.STARTING
    _, (_, name) = world.attempts("a")[0].placement.node_of_ranks()
    said = f"rank 1 on {name} does not run yet: example.com/quota says no"
    assert world.job("a").message == said
    revision = world.job("a").revision
    world.run(seconds(10))
    assert world.job("a").revision == revision
    world.run(seconds(20))
    assert (world.phase("a"), world.job("a").message) == (JobPhase.RUNNING, "")


def test_a_gang_that_does_not_come_up_in_time_is_unwound_and_tried_again() -> None:
    script = Script(WorkerScript(make_after=None), runs(5))
    world = World("r1: 8", script=script, knobs=PolicyKnobs(start_timeout=seconds(60)))
    world.submit(a_job("a"))
    world.run(seconds(59))
    assert world.phase("a") is JobPhase.STARTING
    world.run(seconds(2))
    assert (world.phase("a"), world.job("a").reason) == (JobPhase.PENDING, Outcome.START_TIMEOUT)
    assert world.store.reservations() == ()
    world.run(seconds(20))
    assert world.phase("a") is JobPhase.SUCCEEDED
    assert [a.outcome for a in world.attempts("a")] == [Outcome.START_TIMEOUT, Outcome.COMPLETED]


@pytest.mark.parametrize(
    ("refusal", "restarts_max", "phase"),
    [
        pytest.param(Outcome.LAUNCH_FAILED, 0, JobPhase.FAILED, id="the user's fault"),
        pytest.param(Outcome.LAUNCH_FAILED, 1, JobPhase.SUCCEEDED, id="the user's, forgiven once"),
        pytest.param(Outcome.ADMISSION_REJECTED, 0, JobPhase.SUCCEEDED, id="the cluster's fault"),
    ],
)
def test_a_refused_worker_unwinds_the_whole_gang(
    refusal: Outcome, restarts_max: int, phase: JobPhase
) -> None:
    bad = WorkerScript(refusal=refusal, message="no such command: trian.py")
    world = World("r1: 8 8", script=Script(bad, runs(5)))
    world.submit(a_job("a", workers=2, failure_policy=FailurePolicy(restarts_max=restarts_max)))
    world.run(seconds(60))
    first = world.attempts("a")[0]
    assert (first.outcome, first.running_since) == (refusal, None)
    assert "no such command: trian.py" in first.message
    assert world.phase("a") is phase


def test_the_last_error_of_the_cluster_is_in_the_job_when_the_restarts_are_spent() -> None:
    bad = WorkerScript(refusal=Outcome.ADMISSION_REJECTED, message="quota of the namespace")
    world = World("r1: 8", script=Script(bad), knobs=PolicyKnobs(restarts_infra_max=2))
    world.submit(a_job("a"))
    world.run(seconds(300))
    job = world.job("a")
    assert (job.phase, job.attempts) == (JobPhase.FAILED, 3)
    assert "quota of the namespace" in job.message


def test_gpu_numbers_are_given_once_where_we_give_them() -> None:
    nodes = (a_node("n0", gpus=4, numbers_gpus=True, path=()), a_node("n1", gpus=1, path=()))
    world = World(APicture(levels=(), nodes=nodes))
    world.submit(a_job("a", workers=1, gpus=1), a_job("b", workers=1, gpus=2), a_job("c", gpus=2))
    world.run(seconds(5))
    given = {
        (held.attempt.job_id, held.node): held.gpu_indices for held in world.store.reservations()
    }
    assert given == {
        ("id-a", "n1"): None,
        ("id-b", "n0"): (0, 1),
        ("id-c", "n0"): (2, 3),
    }


def test_workers_are_ordered_role_by_role() -> None:
    world = World("r1: 8 8", script=Script(runs(30)))
    roles = (a_role("chief", gpus=0), a_role("trainer", workers=2, gpus=8))
    world.submit(a_job("a", roles=roles))
    world.run(seconds(2))
    (order,) = world.cluster.orders
    assert [held.role for held in order.reservations] == ["chief", "trainer", "trainer"]
    assert [held.rank for held in order.reservations] == [0, 1, 2]


def test_the_order_tells_the_deadline() -> None:
    world = World()
    world.submit(a_job("a", run_time_max=seconds(100)))
    began = world.clock.now()
    world.ticks()
    assert world.cluster.orders[0].deadline == began + seconds(100)


def test_a_gang_that_fits_later_starts_when_the_gpus_are_free() -> None:
    world = World("r1: 8 8", script=Script(runs(30)))
    world.submit(a_job("a", workers=2), a_job("b", workers=2))
    world.run(seconds(29))
    assert (world.phase("a"), world.phase("b")) == (JobPhase.RUNNING, JobPhase.PENDING)
    world.run(seconds(2))
    assert (world.phase("a"), world.phase("b")) == (JobPhase.SUCCEEDED, JobPhase.RUNNING)


def test_a_request_is_made_to_the_cluster_once() -> None:
    world = World(script=Script(runs(30)))
    world.submit(a_job("a"))
    world.run(seconds(60))
    assert [order.attempt for order in world.cluster.orders] == [a_key("id-a", 0)]
