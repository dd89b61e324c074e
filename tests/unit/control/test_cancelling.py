"""Cancel always ends, from every phase; SIGTERM first, then, when the grace is over, SIGKILL."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.instants import seconds
from scheduler.domain.job import AttemptPhase, FailurePolicy, JobPhase, Outcome, StopCause
from scheduler.ports.unit import InsertJob, Unit
from tests.builders import a_job
from tests.worlds import Script, World, runs

STUBBORN = WorkerScript(stop_after=None)


def waits_to_be_made(world: World) -> None:
    world.cluster.script = Script(WorkerScript(make_after=None))
    world.ticks(1)


def is_made(world: World) -> None:
    world.cluster.script = Script(WorkerScript(start_after=seconds(1000)))
    world.ticks()


def is_running(world: World) -> None:
    world.ticks()


def is_stopping_after_a_failure(world: World) -> None:
    world.cluster.script = Script(STUBBORN, ranks={1: runs(1, exit_code=1)})
    world.run(seconds(3))


def is_backing_off(world: World) -> None:
    world.cluster.script = Script(runs(1, exit_code=1))
    world.run(seconds(3))


@pytest.mark.parametrize(
    ("reach_phase", "attempt_phase"),
    [
        pytest.param(lambda _: None, None, id="pending"),
        pytest.param(waits_to_be_made, AttemptPhase.PREPARING, id="preparing"),
        pytest.param(is_made, AttemptPhase.RELEASED, id="released"),
        pytest.param(is_running, AttemptPhase.RUNNING, id="running"),
        pytest.param(is_stopping_after_a_failure, AttemptPhase.STOPPING, id="stopping"),
        pytest.param(is_backing_off, AttemptPhase.ENDED, id="backing off"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True], ids=["gently", "now"])
def test_cancel_ends_from_every_phase(
    reach_phase: Callable[[World], None], attempt_phase: AttemptPhase | None, *, at_once: bool
) -> None:
    world = World("r1: 8 8")
    world.submit(a_job("a", workers=2, failure_policy=FailurePolicy(restarts_max=5)))
    reach_phase(world)
    attempts = world.attempts("a")
    assert (attempts[-1].phase if attempts else None) is attempt_phase
    world.cancel("a", at_once=at_once)
    world.run(seconds(121))
    job = world.job("a")
    assert (job.phase, job.reason) == (JobPhase.CANCELLED, Outcome.CANCELLED_BY_USER)
    assert world.store.reservations() == ()
    assert job.stop_requested is None


def test_a_stubborn_gang_is_killed_when_its_grace_is_over() -> None:
    world = World(script=Script(STUBBORN))
    world.submit(a_job("a"))
    world.ticks()
    world.cancel("a")
    world.run(seconds(119))
    assert world.phase("a") is JobPhase.STOPPING
    world.run(seconds(2))
    (attempt,) = world.attempts("a")
    assert (attempt.outcome, attempt.worker_ends[0].exit_code) == (Outcome.CANCELLED_BY_USER, 137)


def test_gpus_of_a_stopping_gang_are_held_until_its_workers_have_ended() -> None:
    world = World("r1: 8", script=Script(STUBBORN))
    world.submit(a_job("a", gpus=8))
    world.ticks()
    world.submit(a_job("b", gpus=8))
    world.cancel("a")
    world.run(seconds(119))
    assert (world.phase("a"), world.phase("b")) == (JobPhase.STOPPING, JobPhase.PENDING)
    world.run(seconds(2))
    assert (world.phase("a"), world.phase("b")) == (JobPhase.CANCELLED, JobPhase.RUNNING)


def test_cancel_now_skips_the_grace() -> None:
    world = World(script=Script(STUBBORN))
    world.submit(a_job("a"))
    world.ticks()
    world.cancel("a", at_once=True)
    world.ticks()
    assert world.phase("a") is JobPhase.CANCELLED


def test_cancel_now_ends_a_grace_that_has_begun() -> None:
    world = World(script=Script(STUBBORN))
    world.submit(a_job("a"))
    world.ticks()
    world.cancel("a")
    world.run(seconds(5))
    assert world.phase("a") is JobPhase.STOPPING
    world.cancel("a", at_once=True)
    world.ticks()
    assert world.phase("a") is JobPhase.CANCELLED


def test_a_job_that_completes_while_it_is_cancelled_has_succeeded() -> None:
    world = World(script=Script(runs(10)))
    world.submit(a_job("a"))
    world.ticks()
    world.clock.advance(seconds(10))
    world.cancel("a")
    world.ticks()
    assert world.phase("a") is JobPhase.SUCCEEDED


def test_a_job_that_checkpoints_and_exits_cleanly_when_cancelled_is_cancelled() -> None:
    world = World(script=Script(WorkerScript(stop_after=seconds(5), stop_exit_code=0)))
    world.submit(a_job("a"))
    world.ticks()
    world.cancel("a")
    world.run(seconds(10))
    assert world.phase("a") is JobPhase.CANCELLED


def test_a_held_job_that_is_asked_to_stop_is_cancelled() -> None:
    world = World()
    held = replace(a_job("a", phase=JobPhase.HELD), stop_requested=StopCause.CANCEL)
    world.store.write(Unit(changes=(InsertJob(job=held),)))
    world.ticks()
    assert world.phase("a") is JobPhase.CANCELLED


def test_the_cancel_of_a_gang_says_so_in_its_events() -> None:
    world = World()
    world.submit(a_job("a"))
    world.ticks()
    world.cancel("a")
    world.run(seconds(5))
    assert world.reasons("a")[-2:] == ["GangStoppedForCancel", "JobCancelled"]


def test_a_cancel_storm_ends_every_job() -> None:
    world = World("r1: " + "8 " * 50)
    names = [f"job-{number:03}" for number in range(300)]
    world.submit(*(a_job(name, gpus=2) for name in names))
    world.run(seconds(5))
    for name in names:
        world.cancel(name)
    world.run(seconds(60))
    assert {world.phase(name) for name in names} == {JobPhase.CANCELLED}
