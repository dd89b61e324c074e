"""The live state, whole or what has changed, and everything that holds GPUs.

A job of which any live row can not be read is left out whole, but what it holds stays held.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, select

from scheduler.adapters.sql.mapping import to_job, to_reservation, to_reservation_of_stuck
from scheduler.adapters.sql.rows import IDS_AT_ONCE, AnyRow, chunks
from scheduler.adapters.sql.single_queries import (
    JOB_COLUMNS,
    attempts_where,
    horizon,
    sequence,
)
from scheduler.adapters.sql.stuck_rows import StuckRows
from scheduler.adapters.sql.tables import attempts, deleted_jobs, jobs, reservations
from scheduler.domain import ids
from scheduler.domain.ids import JobId
from scheduler.domain.job import Attempt, AttemptPhase, Job, JobPhase
from scheduler.domain.reservation import Reservation
from scheduler.ports.job_store import LiveState

_LIVE = [phase.value for phase in JobPhase if not phase.is_terminal]
_KNOWN = [phase.value for phase in JobPhase]

_CHOSEN = select(*JOB_COLUMNS).order_by(jobs.c.submitted_at, jobs.c.id)
_HELD = select(reservations).order_by(
    reservations.c.job_id, reservations.c.attempt, reservations.c.rank
)


@dataclass(slots=True)
class LiveReader:
    """Reads the live state for one process, which remembers the jobs that it can not read."""

    stuck: StuckRows
    _stuck_jobs: frozenset[JobId] = field(default_factory=frozenset)

    def read(self, connection: Connection, after: ids.Sequence | None) -> LiveState:
        """The live state, whole or as changes since `after`."""
        if after is None or after < horizon(connection):
            return self._whole(connection)
        return self._changes(connection, after)

    def _whole(self, connection: Connection) -> LiveState:
        held = connection.execute(_HELD).all()
        rows = connection.execute(_CHOSEN.where(jobs.c.phase.in_(_LIVE))).all()
        known = {row.id for row in rows}
        # What is over and still holds something, and what is in a phase that nobody knows.
        others = _by_id(connection, sorted({row.job_id for row in held} - known))
        strange = connection.execute(_CHOSEN.where(jobs.c.phase.not_in(_KNOWN))).all()
        every = {row.id: row for row in [*rows, *others, *strange]}
        ordered = sorted(every.values(), key=lambda row: (row.submitted_at, row.id))
        read = _read(connection, ordered, held, self.stuck)
        self._stuck_jobs = read.broken
        return read.state(sequence(connection), stuck_jobs=self._stuck_jobs, is_whole=True)

    def _changes(self, connection: Connection, after: ids.Sequence) -> LiveState:
        rows = connection.execute(_CHOSEN.where(jobs.c.changed > after)).all()
        gone = connection.scalars(
            select(deleted_jobs.c.job_id)
            .where(deleted_jobs.c.sequence > after)
            .order_by(deleted_jobs.c.sequence, deleted_jobs.c.job_id)
        ).all()
        wanted = sorted({row.id for row in rows} | self._stuck_jobs)
        read = _read(connection, rows, _held_by(connection, wanted), self.stuck)
        self._stuck_jobs = (self._stuck_jobs - read.good - set(gone)) | read.broken
        state = read.state(sequence(connection), stuck_jobs=self._stuck_jobs, is_whole=False)
        return replace(state, deleted=tuple(sorted(gone)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Rows that have been turned into what they stand for, as far as they could be."""

    jobs: Sequence[Job]
    attempts: Sequence[Attempt]
    reserved: Sequence[Reservation]
    broken: frozenset[JobId]

    @property
    def good(self) -> frozenset[JobId]:
        return frozenset(job.id for job in self.jobs) - self.broken

    def state(
        self, read_at: ids.Sequence, *, stuck_jobs: frozenset[JobId], is_whole: bool
    ) -> LiveState:
        good = self.good
        return LiveState(
            sequence=read_at,
            jobs=tuple(job for job in self.jobs if job.id in good),
            attempts=tuple(a for a in self.attempts if a.job_id in good),
            reservations=tuple(r for r in self.reserved if r.attempt.job_id in good),
            stuck=tuple(sorted(self.broken)),
            held_by_stuck=tuple(r for r in self.reserved if r.attempt.job_id in stuck_jobs),
            is_whole=is_whole,
        )


def _read(
    connection: Connection, job_rows: Sequence[AnyRow], held: Sequence[AnyRow], stuck: StuckRows
) -> _Read:
    found_jobs, broken_jobs = stuck.sorted_out(job_rows, to_job)
    order = {job.id: place for place, job in enumerate(found_jobs)}
    is_live = attempts.c.phase != AttemptPhase.ENDED.value
    found_attempts, broken_attempts = attempts_where(connection, list(order), stuck, is_live)
    reserved, broken_held = stuck.sorted_out(held, to_reservation)
    return _Read(
        jobs=found_jobs,
        attempts=sorted(found_attempts, key=lambda a: (order[a.job_id], a.number)),
        reserved=[*reserved, *map(to_reservation_of_stuck, broken_held)],
        broken=frozenset(
            [row.id for row in broken_jobs]
            + [row.job_id for row in broken_attempts]
            + [row.job_id for row in broken_held]
        ),
    )


def _by_id(connection: Connection, job_ids: Sequence[JobId]) -> list[AnyRow]:
    found: list[AnyRow] = []
    for some in chunks(job_ids, IDS_AT_ONCE):
        found += connection.execute(_CHOSEN.where(jobs.c.id.in_(some)))
    return found


def _held_by(connection: Connection, job_ids: Sequence[JobId]) -> list[AnyRow]:
    held: list[AnyRow] = []
    for some in chunks(job_ids, IDS_AT_ONCE):
        held += connection.execute(_HELD.where(reservations.c.job_id.in_(some)))
    return held


def all_reservations(connection: Connection, stuck: StuckRows) -> tuple[Reservation, ...]:
    """Every reservation there is, those of stuck jobs as far as they can be read."""
    held = connection.execute(_HELD).all()
    reserved, broken = stuck.sorted_out(held, to_reservation)
    every = [*reserved, *map(to_reservation_of_stuck, broken)]
    return tuple(sorted(every, key=lambda r: (r.attempt, r.rank)))
