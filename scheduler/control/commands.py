"""What users order: submit, cancel, hold, release, delete. Shared by the API and the simulator.

Each command is one unit: the change, its event, and the records the caller wants kept with it. A
job that holds nothing is changed at once; one that holds GPUs is only marked, and the loop acts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.control.lessons import lessons_of_end
from scheduler.domain.copying import maker_of, quickly_made, replace
from scheduler.domain.errors import ConflictError, InvalidTransitionError
from scheduler.domain.event import Event
from scheduler.domain.explain import explain_outcome
from scheduler.domain.ids import JobId, JobName, ProjectName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job, JobPhase, JobSpec, Outcome, StopCause
from scheduler.ports.job_store import JobStore
from scheduler.ports.kill_points import KillPoint, reach
from scheduler.ports.unit import Change, DeleteJob, InsertJob, SaveJob, Unit

TRIES_MAX = 50
"""How often a command is tried again when the leader has written the job in between."""

WAITING = (JobPhase.PENDING, JobPhase.HELD)
"""Phases in which a job holds nothing, so that a command may move it itself."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who orders a change, when, and what is written in the same unit."""

    actor: str
    at: Instant
    reason: str = ""
    """In the user's words; told in the event."""
    records: tuple[Change, ...] = ()
    """A remembered reply, an audit row; written first, so that a lost race is told by them."""


_an_event, _insert_job, _job, _unit = (
    maker_of(Event),
    maker_of(InsertJob),
    maker_of(Job),
    maker_of(Unit),
)


def new_job(
    job_id: JobId,
    project: ProjectName,
    name: JobName,
    spec: JobSpec,
    *,
    priority: int,
    by: Requester,
) -> Job:
    """A job as it is before its first decision."""
    return _job(
        id=job_id,
        project=project,
        name=name,
        spec=spec,
        priority=priority,
        submitted_at=by.at,
        submitted_by=by.actor,
        phase_since=by.at,
    )


def submit(store: JobStore, job: Job, *, source: str, by: Requester) -> None:
    """Store a new job. Raises NameTakenError, and ConflictError on a used idempotency key."""
    event = _event(job, "JobSubmitted", f"submitted to queue {job.spec.queue}", by)
    insert = _insert_job(job=job, source=source)
    unit = _unit(changes=(*by.records, insert), events=(event,))
    reach(KillPoint.SUBMIT_BEFORE_WRITE)
    store.write(unit)
    reach(KillPoint.SUBMIT_AFTER_WRITE)


def cancel(store: JobStore, job_id: JobId, *, by: Requester, now: bool = False) -> Job:
    """End a job: at once if it holds nothing, else by the loop, after the grace unless `now`.

    Ordered twice, done once; a job that has ended stays as it is.
    """
    reach(KillPoint.CANCEL_BEFORE_WRITE)
    job = _change(store, job_id, by, lambda job: _cancelled(job, by, now=now))
    reach(KillPoint.CANCEL_AFTER_WRITE)
    return job


def hold(store: JobStore, job_id: JobId, *, by: Requester) -> Job:
    """Keep a pending job from being considered. Raises InvalidTransitionError if it runs."""

    def change(job: Job) -> tuple[Job, Event] | None:
        if job.phase is JobPhase.HELD:
            return None
        waiting = None if job.waiting is None else job.waiting.standing(by.at)
        moved = job.moved_to(JobPhase.HELD, at=by.at, message=_by_whom("held", by))
        held = replace(moved, waiting=waiting)
        return held, _event(job, "JobHeld", _by_whom("held", by), by)

    return _change(store, job_id, by, change)


def release(store: JobStore, job_id: JobId, *, by: Requester) -> Job:
    """Let a held job be considered again. Raises InvalidTransitionError if it runs or has ended."""

    def change(job: Job) -> tuple[Job, Event] | None:
        if job.phase is JobPhase.PENDING:
            return None
        if job.phase is not JobPhase.HELD:
            raise InvalidTransitionError(job.id, job.phase, JobPhase.PENDING)
        released = job.moved_to(JobPhase.PENDING, at=by.at)
        return released, _event(job, "JobReleased", _by_whom("released", by), by)

    return _change(store, job_id, by, change)


def delete(store: JobStore, job: Job, *, by: Requester) -> None:
    """Remove a job that has ended, with its history, and free its name.

    Raises InvalidTransitionError if it has not ended, ConflictError if it has changed since read.
    """
    event = _event(job, "JobDeleted", _by_whom(f"deleted in phase {job.phase}", by), by)
    # The event outlives the job: it names it, and does not belong to it.
    event = replace(event, job_id=None)
    removal = DeleteJob(job_id=job.id, expected_revision=job.revision, at=by.at)
    store.write(Unit(changes=(*by.records, removal), events=(event,)))


def _cancelled(job: Job, by: Requester, *, now: bool) -> tuple[Job, Event] | None:
    if job.phase.is_terminal:
        return None
    if job.phase in WAITING:
        ended = job.moved_to(
            JobPhase.CANCELLED,
            at=by.at,
            reason=Outcome.CANCELLED_BY_USER,
            message=explain_outcome(Outcome.CANCELLED_BY_USER),
        )
        return ended, _event(job, "JobCancelled", _by_whom("cancelled", by), by)
    if job.stop_requested is StopCause.CANCEL and (job.stop_now or not now):
        return None
    marked = replace(job, stop_requested=StopCause.CANCEL, stop_now=job.stop_now or now)
    how = "cancel requested, without grace" if now else "cancel requested"
    return marked, _event(job, "CancelRequested", _by_whom(how, by), by)


def _change(
    store: JobStore,
    job_id: JobId,
    by: Requester,
    change: Callable[[Job], tuple[Job, Event] | None],
) -> Job:
    """Read, change, write if nobody else has written; again if somebody has."""
    for tries_left in reversed(range(TRIES_MAX)):
        job = store.job_by_id(job_id)
        changed = change(job)
        if changed is None:
            if by.records:
                store.write(Unit(changes=by.records))
            return job
        after, event = changed
        save = SaveJob(job=after, expected_revision=job.revision)
        lessons = lessons_of_end(job, after) if after.ended_at is not None else ()
        try:
            store.write(Unit(changes=(*by.records, save, *lessons), events=(event,)))
        except ConflictError as error:
            if error.kind != "job" or not tries_left:
                raise
        else:
            return replace(after, revision=job.revision + 1)
    raise AssertionError("the last try returns or raises")


def _by_whom(what: str, by: Requester) -> str:
    said = f": {by.reason}" if by.reason else ""
    return f"{what} by {by.actor}{said}"


def _event(job: Job, reason: str, message: str, by: Requester) -> Event:
    return _an_event(
        reason=reason,
        message=message,
        at=by.at,
        actor=by.actor,
        project=job.project,
        job_id=job.id,
        job_name=job.name,
    )
