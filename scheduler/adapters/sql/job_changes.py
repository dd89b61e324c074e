"""The changes of a unit that concern a job, its attempts and its reservations.

All writers stand in one line (see writer.py): what is looked up here still holds at the commit.
"""

from typing import assert_never

from sqlalchemy import Connection, bindparam, delete, exists, insert, or_, select, update

from scheduler.adapters.sql.mapping import (
    attempt_row,
    job_row,
    new_job_row,
    placement_rows,
    progress_row,
    reservation_row,
)
from scheduler.adapters.sql.rows import AnyRow, Values
from scheduler.adapters.sql.tables import (
    attempts,
    deleted_jobs,
    events,
    job_labels,
    jobs,
    placements,
    progress,
    projects,
    queues,
    reservations,
)
from scheduler.adapters.sql.unit_work import UnitWork
from scheduler.domain.errors import (
    ConflictError,
    InvalidTransitionError,
    NameTakenError,
    NotFoundError,
)
from scheduler.domain.ids import JobId
from scheduler.domain.job import Attempt, Job, JobPhase
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.ports.unit import (
    DeleteJob,
    FreeReservations,
    InsertJob,
    RecordProgress,
    Reserve,
    SaveAttempt,
    SaveJob,
)

_TERMINAL = [phase.value for phase in JobPhase if phase.is_terminal]

# Made once: what a statement is compiled to is found by its identity.
_INSERT_JOBS = insert(jobs)
_INSERT_JOB_LABELS = insert(job_labels)
_INSERT_DELETED_JOBS = insert(deleted_jobs)
_INSERT_ATTEMPTS = insert(attempts)
_INSERT_PLACEMENTS = insert(placements)
_INSERT_RESERVATIONS = insert(reservations)
_INSERT_PROGRESS = insert(progress)


def change_job(change: InsertJob | SaveJob | DeleteJob, work: UnitWork) -> None:
    """Write a change of the job itself."""
    match change:
        case InsertJob():
            _insert_job(change, work)
        case SaveJob():
            _save_job(change, work)
        case DeleteJob():
            _delete_job(change, work)
        case _:
            assert_never(change)


def change_attempt(
    change: SaveAttempt | Reserve | FreeReservations | RecordProgress, work: UnitWork
) -> None:
    """Write a change of an attempt or of what it holds."""
    match change:
        case SaveAttempt():
            _save_attempt(change.attempt, work)
        case Reserve():
            _reserve(change, work)
        case FreeReservations():
            _free(change, work)
        case RecordProgress():
            _record_progress(change, work)
        case _:
            assert_never(change)


# The job.

_WHAT_AN_INSERT_MEETS = select(
    exists().where(projects.c.name == bindparam("project")).label("has_project"),
    exists().where(queues.c.name == bindparam("queue")).label("has_queue"),
    exists()
    .where(jobs.c.project == bindparam("project"), jobs.c.name == bindparam("name"))
    .label("is_name_taken"),
    select(jobs.c.revision).where(jobs.c.id == bindparam("id")).scalar_subquery().label("revision"),
    exists().where(deleted_jobs.c.job_id == bindparam("id")).label("was_deleted"),
)


def _insert_job(change: InsertJob, work: UnitWork) -> None:
    job, connection = change.job, work.connection
    row = new_job_row(job, source=change.source)
    met = connection.execute(
        _WHAT_AN_INSERT_MEETS, {name: row[name] for name in ("project", "queue", "name", "id")}
    ).one()
    if not met.has_project:
        raise NotFoundError("project", job.project)
    if not met.has_queue:
        raise NotFoundError("queue", job.spec.queue)
    if met.is_name_taken:
        raise NameTakenError("job", job.name)
    if met.revision is not None or met.was_deleted:
        raise ConflictError("job", job.id, expected=0, found=met.revision)
    connection.execute(_INSERT_JOBS, row | {"changed": work.last})
    if job.spec.labels:
        connection.execute(_INSERT_JOB_LABELS, _label_rows(job))


def _label_rows(job: Job) -> list[Values]:
    return [
        {"key": key, "value": value, "submitted_at": job.submitted_at, "job_id": job.id}
        for key, value in job.spec.labels.items()
    ]


_SAVE_JOB = update(jobs).where(
    jobs.c.id == bindparam("wanted_id"),
    jobs.c.revision == bindparam("wanted_revision"),
    or_(jobs.c.phase.not_in(_TERMINAL), jobs.c.phase == bindparam("wanted_phase")),
)


def _save_job(change: SaveJob, work: UnitWork) -> None:
    job, expected = change.job, change.expected_revision
    row = job_row(job) | {"revision": expected + 1, "changed": work.last}
    wanted: Values = {
        "wanted_id": job.id,
        "wanted_revision": expected,
        "wanted_phase": job.phase.value,
    }
    if work.connection.execute(_SAVE_JOB, row | wanted).rowcount == 0:
        stored = _expect_revision(job.id, expected, work.connection)
        raise InvalidTransitionError(job.id, stored.phase, job.phase)
    work.touched.discard(job.id)


def _delete_job(change: DeleteJob, work: UnitWork) -> None:
    job_id, connection = change.job_id, work.connection
    stored = _expect_revision(job_id, change.expected_revision, connection)
    holds_gpus = connection.scalar(
        select(exists().where(reservations.c.job_id == bindparam("id"))), {"id": job_id}
    )
    if stored.phase not in _TERMINAL or holds_gpus:
        raise InvalidTransitionError(job_id, stored.phase, "Deleted")
    connection.execute(delete(events).where(events.c.job_id == bindparam("id")), {"id": job_id})
    # The database takes along all that hangs on the job.
    connection.execute(delete(jobs).where(jobs.c.id == bindparam("wanted")), {"wanted": job_id})
    tombstone: Values = {"job_id": job_id, "sequence": work.last, "at": change.at}
    named: Values = {"project": stored.project, "name": stored.name}
    connection.execute(_INSERT_DELETED_JOBS, tombstone | named)
    work.touched.discard(job_id)


_STATE = select(jobs.c.project, jobs.c.name, jobs.c.revision, jobs.c.phase).where(
    jobs.c.id == bindparam("id")
)


def _expect_revision(job_id: JobId, expected: int, connection: Connection) -> AnyRow:
    """Project, name, revision and phase of the job, if it has that revision."""
    stored = connection.execute(_STATE, {"id": job_id}).one_or_none()
    if stored is None:
        raise NotFoundError("job", job_id)
    if stored.revision != expected:
        raise ConflictError("job", stored.name, expected=expected, found=stored.revision)
    return stored


# Its attempts.

_IS_ATTEMPT = [
    attempts.c.job_id == bindparam("wanted_job"),
    attempts.c.number == bindparam("wanted_number"),
]
_PLACEMENT_DIGEST = select(attempts.c.placement_digest).where(*_IS_ATTEMPT)
_SAVE_ATTEMPT = update(attempts).where(*_IS_ATTEMPT)
_JOB_EXISTS = select(exists().where(jobs.c.id == bindparam("id")))


def _save_attempt(attempt: Attempt, work: UnitWork) -> None:
    connection, row = work.connection, attempt_row(attempt)
    key = _attempt_key(AttemptKey(attempt.job_id, attempt.number))
    digest = connection.scalar(_PLACEMENT_DIGEST, key)
    if digest is None:
        if not connection.scalar(_JOB_EXISTS, {"id": attempt.job_id}):
            raise NotFoundError("job", attempt.job_id)
        connection.execute(_INSERT_ATTEMPTS, row)
    else:
        connection.execute(_SAVE_ATTEMPT, row | key)
    if digest != row["placement_digest"]:
        _place(attempt, connection)
    work.touched.add(attempt.job_id)


def _place(attempt: Attempt, connection: Connection) -> None:
    former = [
        placements.c.job_id == bindparam("wanted_job"),
        placements.c.attempt == bindparam("wanted_number"),
    ]
    key = _attempt_key(AttemptKey(attempt.job_id, attempt.number))
    connection.execute(delete(placements).where(*former), key)
    if rows := placement_rows(attempt):
        connection.execute(_INSERT_PLACEMENTS, rows)


def _expect_attempt(key: AttemptKey, connection: Connection) -> None:
    if connection.scalar(_PLACEMENT_DIGEST, _attempt_key(key)) is None:
        raise NotFoundError("attempt", str(key))


def _attempt_key(key: AttemptKey) -> Values:
    return {"wanted_job": key.job_id, "wanted_number": key.number}


# What they hold.

_IS_HELD = [
    reservations.c.job_id == bindparam("wanted_job"),
    reservations.c.attempt == bindparam("wanted_number"),
]
_IS_HELD_BY_RANKS = [*_IS_HELD, reservations.c.rank.in_(bindparam("ranks", expanding=True))]


def _reserve(change: Reserve, work: UnitWork) -> None:
    for key in {reservation.attempt: None for reservation in change.reservations}:
        _expect_attempt(key, work.connection)
        held = work.connection.scalars(
            select(reservations.c.rank).where(*_IS_HELD), _attempt_key(key)
        )
        added = [r for r in change.reservations if r.attempt == key]
        _expect_free_ranks(set(held), added)
        rows = [reservation_row(reservation) for reservation in added]
        work.connection.execute(_INSERT_RESERVATIONS, rows)
        work.touched.add(key.job_id)


def _expect_free_ranks(held: set[int], added: list[Reservation]) -> None:
    for reservation in added:
        if reservation.rank in held:
            name = f"{reservation.attempt} rank {reservation.rank}"
            raise ConflictError("reservation", name, expected=0, found=1)
        held.add(reservation.rank)


def _free(change: FreeReservations, work: UnitWork) -> None:
    key = _attempt_key(change.attempt)
    if change.ranks is None:
        freeing = delete(reservations).where(*_IS_HELD)
        freed = work.connection.execute(freeing, key)
    else:
        freeing = delete(reservations).where(*_IS_HELD_BY_RANKS)
        freed = work.connection.execute(freeing, {**key, "ranks": list(change.ranks)})
    if freed.rowcount > 0:
        work.touched.add(change.attempt.job_id)


def _record_progress(change: RecordProgress, work: UnitWork) -> None:
    _expect_attempt(change.attempt, work.connection)
    row = progress_row(change.attempt, change.progress) | {"sequence": work.next_sequence()}
    work.connection.execute(_INSERT_PROGRESS, row)
