"""What the suites of the store share: its ports in one type, and units made short."""

from collections.abc import Iterator
from collections.abc import Sequence as Several
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.sql.job_store import open_store
from scheduler.domain.communication import ComputeTiming, Family, ModelProfile, Precision
from scheduler.domain.event import Event, EventKind
from scheduler.domain.ids import (
    AttemptNumber,
    GpuModel,
    JobId,
    LevelName,
    ProjectName,
    QueueName,
    Sequence,
)
from scheduler.domain.instants import DAY, Instant, seconds
from scheduler.domain.job import Attempt, Job, JobPhase
from scheduler.domain.placement import BackingOff
from scheduler.domain.progress import Progress
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.step_times import LearnedStepTimes, LearnedTier
from scheduler.domain.waits import JobEnd, WaitObservation
from scheduler.ports.account_store import AccountStore
from scheduler.ports.job_store import JobStore
from scheduler.ports.leasing import LeaseStore
from scheduler.ports.unit import (
    Answer,
    AuditRow,
    Change,
    InsertJob,
    RememberReply,
    Reserve,
    SaveAttempt,
    SaveJob,
    Token,
    Unit,
)
from tests.builders import a_cluster, a_job, a_placement, an_attempt, reservations_of
from tests.databases import Databases

LATE = Instant(100 * DAY)
"""Late enough for something to be long past."""

CLUSTER = a_cluster("r1: 8 8\nr2: 8 8")


class Store(JobStore, AccountStore, LeaseStore, Protocol):
    """Every port that a store is behind."""


@contextmanager
def a_store(kind: str, databases: Databases) -> Iterator[Store]:
    """A new store: `memory`, `sqlite` or `postgres`."""
    if kind == "memory":
        yield MemoryStore()
        return
    with databases.lent(kind) as url, open_store(url) as store:
        yield store


def write(store: JobStore, *changes: Change, events: tuple[Event, ...] = ()) -> Sequence:
    """Write a unit that nobody leads."""
    return store.write(Unit(changes=changes, events=events))


def insert(store: JobStore, *jobs: Job) -> None:
    """Write each job in a unit of its own."""
    for job in jobs:
        write(store, InsertJob(job=job))


def move(store: JobStore, job: Job, phase: JobPhase, *, at: Instant = Instant(1)) -> Job:
    """Save the job in another phase and return it as stored."""
    write(
        store,
        SaveJob(job=replace(job, phase=phase, phase_since=at), expected_revision=job.revision),
    )
    return store.job_by_id(job.id)


def gang_of(job: Job, *, number: int = 0, nodes: int = 1) -> tuple[SaveAttempt, Reserve]:
    """What starts an attempt on so many nodes: one worker each, and the rest on the first."""
    names: Several[str] = [node.name for node in CLUSTER.nodes][:nodes]
    spread = dict.fromkeys(names[1:], 1)
    spots = {names[0]: job.spec.workers - len(spread), **spread}
    attempt = an_attempt(job, a_placement(CLUSTER, job, spots), number=number)
    return SaveAttempt(attempt=attempt), Reserve(reservations=reservations_of(job, attempt))


def key_of(attempt: Attempt) -> AttemptKey:
    """Its key."""
    return AttemptKey(attempt.job_id, AttemptNumber(attempt.number))


def an_event(
    reason: str = "Happened",
    *,
    message: str = "it did",
    at: int = 1,
    job_id: str | None = None,
    project: str | None = None,
    attempt: int | None = None,
    node: str | None = None,
    kind: EventKind = EventKind.NORMAL,
) -> Event:
    """An event."""
    return Event(
        reason=reason,
        message=message,
        at=Instant(at),
        kind=kind,
        job_id=None if job_id is None else JobId(job_id),
        project=None if project is None else ProjectName(project),
        attempt=attempt,
        node=None if node is None else CLUSTER.nodes[0].name,
    )


def a_wait(
    job: str = "a", *, at: int = LATE, demand: int = 8, level: str = "rack", censored: bool = False
) -> WaitObservation:
    """A wait of a minute."""
    return WaitObservation(
        job_id=JobId(job),
        demand=demand,
        level=LevelName(level),
        wait=seconds(60),
        is_censored=censored,
        at=Instant(at),
    )


def an_end(job: str = "a", *, at: int = LATE, queue: str = "default") -> JobEnd:
    """A job of eight GPUs that ran for a minute."""
    return JobEnd(
        job_id=JobId(job),
        queue=QueueName(queue),
        gpus=8,
        ran_for=seconds(60),
        is_complete=True,
        at=Instant(at),
    )


def a_token(name: str = "ada", *, secret: str | None = None, created_at: int = 1) -> Token:
    """A token; its secret is made from its name."""
    return Token(
        id=f"id-{name}",
        name=name,
        secret_sha256=secret or f"hash-of-{name}",
        created_at=Instant(created_at),
    )


def a_reply(key: str = "k", *, at: int = 1, principal: str = "ada") -> RememberReply:
    """A reply to remember."""
    return RememberReply(
        principal=principal,
        route="POST /jobs",
        key=key,
        body_sha256="b",
        status=201,
        reply="{}",
        at=Instant(at),
    )


def an_audit_row(target: str = "job/a", *, at: int = 1) -> AuditRow:
    """An audit row."""
    return AuditRow(
        at=Instant(at),
        principal="ada",
        verb="create",
        target=target,
        outcome=201,
        request_id="r",
        token_id=a_token().id,
        source="127.0.0.1",
    )


def a_profile(name: str = "net", *, parameters: int = 7_000_000) -> ModelProfile:
    """A profile of a project's own."""
    timing = ComputeTiming(
        gpu_model=GpuModel("T4"), batch_per_gpu=32, step_s=0.25, precision=Precision.FP16
    )
    return ModelProfile(
        name=name,
        family=Family.VISION,
        parameters=parameters,
        source="measured here",
        timings=(timing,),
        overlap=0.4,
    )


def learned(*, ratio: float = 1.25, samples: int = 3) -> LearnedStepTimes:
    """What was learned at one level."""
    tier = LearnedTier(
        level=LevelName("rack"),
        gpu_model=GpuModel("T4"),
        predicted_s=0.5,
        ratio=ratio,
        deviation=0.01,
        samples=samples,
    )
    return LearnedStepTimes(tiers=(tier,))


def an_answer(job: Job, *, position: int = 1) -> Answer:
    """The answer that the job is backing off."""
    return Answer(
        job_id=job.id,
        blocked=BackingOff(until=Instant(9), restarts=2),
        at=Instant(4),
        position=position,
    )


JOB = a_job("a", workers=2)
RUNNING = replace(JOB, phase=JobPhase.RUNNING)
DONE = a_job("done", phase=JobPhase.SUCCEEDED)
START, HOLD = gang_of(JOB)
KEY = key_of(START.attempt)
REPORT = Progress(step=1, step_seconds=0.5, reported_at=Instant(3))
