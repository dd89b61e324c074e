"""Strays into the store: the unit that makes a gang known which runs without the store's knowing.

What the cluster keeps of a gang is its order; what came before (restarts, waits) is lost.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from scheduler.domain.copying import replace
from scheduler.domain.event import Event, EventKind
from scheduler.domain.explain import ADOPTED
from scheduler.domain.ids import Epoch, Rank
from scheduler.domain.instants import Instant
from scheduler.domain.job import Attempt, AttemptPhase, Job, JobPhase, Outcome
from scheduler.domain.queue import Project, Queue
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.stray import AdoptionProblem
from scheduler.ports.cluster import GangOrder, WorkerReport, WorkerState
from scheduler.ports.unit import (
    Change,
    FreeReservations,
    InsertJob,
    Reserve,
    SaveAttempt,
    SaveJob,
    SaveProject,
    SaveQueue,
    Unit,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the store has that an adoption may meet."""

    projects: tuple[Project, ...]
    queues: tuple[Queue, ...]
    job: Job | None = None
    """The job of the stray's id."""
    attempts: tuple[Attempt, ...] = ()
    busy: frozenset[AttemptKey] = frozenset()
    """Attempts of it that have workers which live."""


def adoption(
    order: GangOrder,
    reports: Mapping[Rank, WorkerReport],
    known: Known,
    *,
    now: Instant,
    epoch: Epoch | None,
) -> Unit | AdoptionProblem:
    """The unit that takes a stray up as it is; `epoch` of the leader that writes it."""
    job = known.job
    if job is not None and job.phase.is_terminal:
        return AdoptionProblem.JOB_IS_OVER
    if known.busy - {order.attempt}:
        return AdoptionProblem.ANOTHER_RUNS
    changes = [
        *_missing(order, known),
        *_closed(known.attempts, now),
        _job_change(order, job, now),
        SaveAttempt(attempt=_attempt(order, reports, now)),
        Reserve(reservations=order.reservations),
    ]
    event = Event(
        reason="GangAdopted",
        message=ADOPTED,
        at=now,
        kind=EventKind.WARNING,
        project=order.project,
        job_id=order.attempt.job_id,
        job_name=order.name,
        attempt=order.attempt.number,
    )
    return Unit(changes=tuple(changes), events=(event,), epoch=epoch)


def _missing(order: GangOrder, known: Known) -> Iterator[Change]:
    """The project and the queue of its job, if they are gone as well."""
    queue = order.spec.queue
    if all(each.name != queue for each in known.queues):
        yield SaveQueue(queue=Queue(name=queue))
    if all(each.name != order.project for each in known.projects):
        yield SaveProject(project=Project(name=order.project, queues=(queue,)))


def _closed(attempts: Iterable[Attempt], now: Instant) -> Iterator[Change]:
    """Attempts the store takes for living, whose workers are all gone."""
    for attempt in attempts:
        if attempt.phase is AttemptPhase.ENDED:
            continue
        lost = replace(attempt, outcome=attempt.outcome or Outcome.WORKER_LOST)
        ended = lost.moved_to(AttemptPhase.ENDED, at=now)
        yield SaveAttempt(attempt=ended)
        yield FreeReservations(attempt=AttemptKey(attempt.job_id, attempt.number))


def _job_change(order: GangOrder, job: Job | None, now: Instant) -> Change:
    number = order.attempt.number
    if job is not None:
        is_waiting = job.phase is JobPhase.PENDING
        waiting = job if is_waiting else job.moved_to(JobPhase.PENDING, at=now)
        taken = replace(
            waiting.moved_to(JobPhase.STARTING, at=now),
            attempts=max(job.attempts, number + 1),
            not_before=None,
            promised=None,
            last_placed_at=now,
        )
        return SaveJob(job=taken, expected_revision=job.revision)
    submitted_at = order.submitted_at if order.submitted_at is not None else now
    new = Job(
        id=order.attempt.job_id,
        project=order.project,
        name=order.name,
        spec=order.spec,
        priority=order.priority,
        submitted_at=submitted_at,
        submitted_by=order.submitted_by,
        phase=JobPhase.STARTING,
        phase_since=now,
        attempts=number + 1,
        first_started_at=submitted_at,
        last_placed_at=now,
    )
    return InsertJob(job=new)


def _attempt(order: GangOrder, reports: Mapping[Rank, WorkerReport], now: Instant) -> Attempt:
    """As far as its workers are: those that may run do, those that wait go on being made."""
    has_run = any(report.state is not WorkerState.MADE for report in reports.values())
    started = [report.started_at for report in reports.values() if report.started_at is not None]
    return Attempt(
        job_id=order.attempt.job_id,
        number=order.attempt.number,
        phase=AttemptPhase.RELEASED if has_run else AttemptPhase.PREPARING,
        phase_since=now,
        epoch=order.epoch,
        placement=order.placement,
        created_at=min([now, *started]),
    )
