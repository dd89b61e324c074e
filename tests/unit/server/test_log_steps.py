"""Step times are read off the log of a job that reports none, each once."""

from dataclasses import dataclass, field, replace

import pytest

from scheduler.adapters.memory.clock import ManualClock
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.control.estimating import Distances
from scheduler.control.learning import take_in
from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.domain.job import Attempt, AttemptPhase, JobPhase
from scheduler.domain.progress import Progress
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.log_source import LogChunk
from scheduler.ports.unit import DeleteJob, InsertJob, SaveAttempt, SaveJob, Unit
from server import log_steps
from server.log_steps import LogSteps, LogStepsThread
from tests.builders import a_cluster, a_job, a_placement, an_attempt

CLUSTER = a_cluster("r1: 8 8")
DECLARED = CommunicationProfile(step_pattern="iter_time[=: ]+([0-9.]+)", compute_s=0.1)
JOB = a_job("train", workers=2, gpus=8, phase=JobPhase.RUNNING, communication=DECLARED)
ATTEMPT = replace(
    an_attempt(JOB, a_placement(CLUSTER, JOB, {"r1-n0": 1, "r1-n1": 1})),
    phase=AttemptPhase.RUNNING,
)
KEY = AttemptKey(ATTEMPT.job_id, ATTEMPT.number)


@dataclass
class Logs:
    """What workers have written, kept in memory."""

    texts: dict[AttemptKey, bytes] = field(default_factory=dict)
    dropped: int = 0
    """Bytes at the beginning that are kept no longer."""

    def write(self, text: str, key: AttemptKey = KEY) -> None:
        """More output of rank 0."""
        self.texts[key] = self.texts.get(key, b"") + text.encode()

    def read(self, attempt: AttemptKey, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
        """Bytes from `offset` on, or from the first that is kept."""
        assert rank == Rank(0)
        if attempt not in self.texts:
            raise NotFoundError("log", str(attempt))
        offset = max(offset, self.dropped)
        data = self.texts[attempt][offset : offset + bytes_max]
        return LogChunk(data=data, offset=offset, is_end=False)

    def tail_offset(self, attempt: AttemptKey, rank: Rank, *, lines: int) -> int:
        """The present end."""
        assert (rank, lines) == (Rank(0), 0)
        return len(self.texts[attempt])

    def offset_since(self, attempt: AttemptKey, rank: Rank, *, since: Instant) -> int:
        """Nobody asks."""
        raise AssertionError((attempt, rank, since))


@dataclass
class World:
    """A store with a running job, its log and a reader."""

    store: MemoryStore = field(default_factory=MemoryStore)
    logs: Logs = field(default_factory=Logs)
    attempt: Attempt = ATTEMPT

    def __post_init__(self) -> None:
        if not self.store.live().jobs:
            changes = (InsertJob(job=JOB), SaveAttempt(attempt=self.attempt))
            self.store.write(Unit(changes=changes))
        self.distances = Distances(CLUSTER.levels, CLUSTER.nodes)
        clock = ManualClock(Instant(5))
        self.steps = LogSteps(self.store, self.logs, clock, lambda: self.distances)

    def reports(self) -> list[tuple[int, float]]:
        """Step and seconds of what is stored."""
        assert all(p.is_from_log for _, p in self.store.progress(JOB.id))
        return [(p.step, round(p.step_seconds, 6)) for _, p in self.store.progress(JOB.id)]

    def end(self, phase: JobPhase = JobPhase.SUCCEEDED) -> None:
        """The attempt is over."""
        job = self.store.job_by_id(JOB.id)
        ended = SaveAttempt(attempt=replace(self.attempt, phase=AttemptPhase.ENDED))
        saved = SaveJob(job=replace(job, phase=phase), expected_revision=job.revision)
        self.store.write(Unit(changes=(ended, saved)))


def test_what_the_log_tells_is_reported_once_and_learned() -> None:
    world = World()
    world.logs.write("starting\niter_time=0.2 loss=1\niter_time: 0.4\n")
    world.steps.look()
    world.steps.look()
    world.logs.write("iter_time 0.5\n")
    world.steps.look()
    assert world.reports() == [(2, 0.3), (3, 0.5)]
    (tier,) = world.store.step_times([JOB.id])[JOB.id].times.tiers
    assert (tier.level, tier.samples) == ("rack", 2)


def test_a_line_counts_when_its_end_has_come() -> None:
    world = World()
    world.logs.write("iter_time=1")
    world.steps.look()
    assert world.reports() == []
    world.logs.write("2.5\n")
    world.steps.look()
    assert world.reports() == [(1, 12.5)]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("iter_time=1.2.3", id="no number"),
        pytest.param("iter_time=0.0", id="no time"),
        pytest.param("step 5 took 0.3", id="another line"),
        pytest.param("x" * 5000 + "iter_time=0.5", id="too far to the right"),
    ],
)
def test_a_line_without_a_step_time_is_passed_over(line: str) -> None:
    world = World()
    world.logs.write(f"{line}\niter_time=0.25\n")
    world.steps.look()
    assert world.reports() == [(1, 0.25)]


def test_the_last_words_of_an_attempt_are_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_steps, "CHUNK_BYTES", 10)
    monkeypatch.setattr(log_steps, "LOOK_BYTES_MAX", 20)
    world = World()
    world.logs.write("iter_time=0.5\n" * 8)
    world.steps.look()
    assert world.reports() == [(1, 0.5)]
    world.end()
    world.steps.look()
    assert world.reports() == [(1, 0.5), (8, 0.5)]
    world.logs.write("iter_time=9\n")
    world.steps.look()
    assert len(world.reports()) == 2


def test_a_restarted_server_goes_on_where_the_former_stopped() -> None:
    world = World()
    world.logs.write("iter_time=0.2\niter_time=0.4\n")
    world.steps.look()
    world.logs.write("iter_time=0.8\n")
    again = World(store=world.store, logs=world.logs)
    again.steps.look()
    assert again.reports() == [(2, 0.3), (3, 0.8)]


def test_a_restart_that_finds_the_beginning_dropped_takes_only_what_comes() -> None:
    world = World()
    world.logs.write("iter_time=0.2\niter_time=0.4\n")
    world.steps.look()
    world.logs.dropped = 14
    again = World(store=world.store, logs=world.logs)
    again.steps.look()
    world.logs.write("iter_time=0.8\n")
    again.steps.look()
    assert again.reports() == [(2, 0.3), (3, 0.8)]


def test_lines_that_were_dropped_unread_are_missed() -> None:
    world = World()
    world.logs.write("iter_time=0.2\n")
    world.steps.look()
    world.logs.write("iter_time=0.3\niter_time=0.4\n")
    world.logs.dropped = 28
    world.steps.look()
    assert world.reports() == [(1, 0.2), (2, 0.4)]


def test_the_log_of_a_job_that_reports_itself_is_not_read() -> None:
    world = World()
    report = Progress(step=1, step_seconds=0.1, reported_at=Instant(1))
    world.logs.write("iter_time=0.2\n")
    take_in(world.store, JOB, ATTEMPT, report, world.distances)
    world.steps.look()
    world.end()
    world.steps.look()
    assert [p for _, p in world.store.progress(JOB.id)] == [report]


def test_a_job_without_a_pattern_or_without_a_log_yet_is_left_alone() -> None:
    world = World()
    other = a_job("other", phase=JobPhase.RUNNING)
    running = replace(
        an_attempt(other, a_placement(CLUSTER, other, {"r1-n0": 1})), phase=AttemptPhase.RUNNING
    )
    world.store.write(Unit(changes=(InsertJob(job=other), SaveAttempt(attempt=running))))
    world.logs.write("iter_time=0.2\n", AttemptKey(other.id, running.number))
    world.steps.look()
    assert world.reports() == []
    assert world.store.progress(other.id) == ()
    world.logs.write("iter_time=0.2\n")
    world.steps.look()
    assert world.reports() == [(1, 0.2)]


def test_a_job_that_is_deleted_is_forgotten() -> None:
    world = World()
    world.logs.write("iter_time=0.2\n")
    world.steps.look()
    world.end()
    job = world.store.job_by_id(JOB.id)
    gone = DeleteJob(job_id=JOB.id, expected_revision=job.revision, at=Instant(9))
    world.store.write(Unit(changes=(gone,)))
    world.logs.write("iter_time=0.2\n")
    world.steps.look()
    world.steps.look()
    assert world.store.progress(JOB.id) == ()


def test_only_the_leader_looks_and_goes_on_from_what_is_stored() -> None:
    world = World()
    leads = [True]
    thread = LogStepsThread(world.steps, is_leader=lambda: leads[0])
    world.logs.write("iter_time=0.5\n")
    thread.look()
    leads[0] = False
    world.logs.write("iter_time=0.7\n")
    thread.look()
    assert world.reports() == [(1, 0.5)]
    # Meanwhile another process has read on.
    other = World(store=world.store, logs=world.logs)
    other.steps.look()
    world.logs.write("iter_time=0.9\n")
    leads[0] = True
    thread.look()
    assert world.reports() == [(1, 0.5), (2, 0.7), (3, 0.9)]


def test_more_logs_than_may_be_read_at_once_wait_for_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_steps, "FOLLOWED_MAX", 1)
    world = World()
    job = a_job("later", workers=2, gpus=8, phase=JobPhase.RUNNING, communication=DECLARED)
    attempt = replace(
        an_attempt(job, a_placement(CLUSTER, job, {"r1-n0": 1, "r1-n1": 1})),
        phase=AttemptPhase.RUNNING,
    )
    world.steps.look()
    world.store.write(Unit(changes=(InsertJob(job=job), SaveAttempt(attempt=attempt))))
    world.logs.write("iter_time=0.5\n")
    world.logs.write("iter_time=0.3\n", AttemptKey(job.id, attempt.number))
    world.steps.look()
    assert world.reports() == [(1, 0.5)]
    assert world.store.progress(job.id) == ()
    world.end()
    world.steps.look()
    world.steps.look()
    assert [report.step for _, report in world.store.progress(job.id)] == [1]
