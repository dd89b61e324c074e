"""Times that pass without anything else happening."""

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.ids import QueueName
from scheduler.domain.instants import MINUTE, Duration, seconds
from scheduler.domain.job import FailurePolicy, JobPhase, Outcome, StopCause
from scheduler.domain.progress import Progress
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.unit import ChangeKnobs, RecordProgress, SaveQueue, Unit
from tests.builders import a_job, a_queue
from tests.worlds import Script, World, runs


def report_step(world: World, name: str, step: int) -> None:
    attempt = world.attempts(name)[-1]
    progress = Progress(step=step, step_seconds=1.0, reported_at=world.clock.now())
    record = RecordProgress(attempt=AttemptKey(attempt.job_id, attempt.number), progress=progress)
    world.store.write(Unit(changes=(record,)))


def test_a_job_is_stopped_at_its_deadline_and_has_failed_for_it() -> None:
    world = World()
    world.submit(
        a_job("a", run_time_max=seconds(100), failure_policy=FailurePolicy(restarts_max=9))
    )
    world.run(seconds(99))
    assert world.phase("a") is JobPhase.RUNNING
    world.run(seconds(2))
    job = world.job("a")
    assert (job.phase, job.reason) == (JobPhase.FAILED, Outcome.DEADLINE_EXCEEDED)


def test_a_deadline_also_holds_for_a_gang_that_does_not_come_up() -> None:
    world = World(script=Script(WorkerScript(make_after=None)))
    world.submit(a_job("a", run_time_max=seconds(100)))
    world.run(seconds(101))
    assert world.job("a").reason == Outcome.DEADLINE_EXCEEDED


def test_the_loop_asks_to_be_called_at_the_deadline_itself() -> None:
    world = World(poll=Duration(60 * MINUTE))
    world.submit(a_job("a", run_time_max=seconds(100)))
    began = world.clock.now()
    world.ticks()
    assert world.tick() == began + seconds(100)


def test_a_job_that_reports_no_step_for_its_hang_timeout_is_hung() -> None:
    world = World()
    world.submit(a_job("a", hang_timeout=seconds(300)))
    world.run(seconds(200))
    report_step(world, "a", 10)
    world.run(seconds(299))
    assert world.phase("a") is JobPhase.RUNNING
    world.run(seconds(2))
    assert (world.phase("a"), world.job("a").reason) == (JobPhase.FAILED, Outcome.HUNG)


def test_a_hung_job_starts_again_within_its_failure_policy() -> None:
    world = World(script=Script(WorkerScript(), runs(5)))
    world.submit(a_job("a", hang_timeout=seconds(60), failure_policy=FailurePolicy(restarts_max=1)))
    world.run(seconds(100))
    assert world.phase("a") is JobPhase.SUCCEEDED
    assert world.attempts("a")[0].stop_cause is StopCause.HANG


def test_steps_of_the_attempt_before_do_not_count() -> None:
    world = World(script=Script(runs(50, exit_code=1), WorkerScript()))
    world.submit(
        a_job("a", hang_timeout=seconds(100), failure_policy=FailurePolicy(restarts_max=1))
    )
    world.run(seconds(49))
    report_step(world, "a", 1)
    world.run(seconds(12))
    assert world.phase("a") is JobPhase.RUNNING
    world.run(seconds(98))
    assert world.phase("a") is JobPhase.RUNNING
    world.run(seconds(2))
    assert world.job("a").reason == Outcome.HUNG


def test_a_backoff_ends_without_another_event() -> None:
    world = World(script=Script(runs(5, exit_code=1), runs(5)), poll=Duration(60 * MINUTE))
    world.submit(a_job("a", failure_policy=FailurePolicy(restarts_max=1)))
    world.run(seconds(30))
    assert world.phase("a") is JobPhase.SUCCEEDED


def test_a_queue_has_its_own_start_timeout_from_the_moment_it_is_set() -> None:
    world = World("r1: 8 8", script=Script(WorkerScript(make_after=None)))
    world.store.write(Unit(changes=(SaveQueue(queue=a_queue("q")),)))
    world.submit(a_job("a"), a_job("b", queue="q"))
    world.run(seconds(60))
    own = ChangeKnobs(changed={"start_timeout": str(seconds(90))}, queue=QueueName("q"))
    world.store.write(Unit(changes=(own,)))
    world.run(seconds(29))
    assert [len(world.attempts(name)) for name in ("a", "b")] == [1, 1]
    world.run(seconds(2))
    assert world.attempts("a")[0].stop_cause is None
    assert world.attempts("b")[0].outcome is Outcome.START_TIMEOUT
