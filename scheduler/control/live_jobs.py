"""The loop's own copy of the live state: read whole once, then kept current by change sets."""

from collections.abc import Iterable

from scheduler.domain.copying import replace
from scheduler.domain.errors import StoreRestoredError
from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.job import AttemptPhase, Job, JobPhase
from scheduler.domain.reservation import Reservation
from scheduler.domain.snapshot import RunningGang
from scheduler.engine.standing import Standing
from scheduler.ports.job_store import JobStore, LiveState
from scheduler.ports.unit import RecordEnd, RecordWaits, Unit, numbers_of

_LESSONS = frozenset({RecordWaits, RecordEnd})


class LiveJobs:
    """Jobs that are not terminal: those that wait, and those with an attempt."""

    def __init__(self, standing: Standing) -> None:
        """`standing` is kept up with what waits and what is held."""
        self._standing = standing
        self.pending: dict[JobId, Job] = {}
        """Jobs in phase Pending."""
        self.waiting_to_stop: dict[JobId, Job] = {}
        """Jobs that hold nothing and were asked to stop."""
        self.attempts: dict[JobId, RunningGang] = {}
        self.spread: dict[JobId, RunningGang] = {}
        """Those of the attempts that lie on several nodes."""
        self.stuck: set[JobId] = set()
        """Jobs that can not be read: they and their workers are left alone."""
        self.held_by_stuck: tuple[Reservation, ...] = ()
        self.held_by_strays: tuple[Reservation, ...] = ()
        """What gangs hold that the store does not know."""
        self.sequence: Sequence | None = None
        """Up to where the store has been read; None: not at all."""
        self.pending_version = 0
        """Counts the changes of `pending`."""
        self.has_lessons = False
        """A unit of the loop's own taught something since this was last set to False."""
        self._news: set[JobId] = set()
        self._start_number = 0

    def forget(self) -> None:
        """Know nothing: the next refresh reads everything."""
        self.pending.clear()
        self.waiting_to_stop.clear()
        self.attempts.clear()
        self.spread.clear()
        self.stuck.clear()
        self.held_by_stuck = ()
        self.held_by_strays = ()
        self._standing.clear()
        self._news.clear()
        self.sequence = None
        self.pending_version += 1

    def write(self, unit: Unit, store: JobStore) -> None:
        """Write a unit of the loop's own, of which the loop notes here what it says of jobs.

        If nobody else has written since the store was read, it need not be read again. Raises what
        the store's `write` raises, and StoreRestoredError.
        """
        sequence = store.write(unit)
        known = self.sequence
        self._must_go_on_from_here(sequence)
        for change in unit.changes:
            if type(change) in _LESSONS:
                self.has_lessons = True
        if known is not None and sequence == known + numbers_of(unit):
            self.sequence = sequence

    def refresh(self, store: JobStore) -> bool:
        """Read what has been written since the last time; whether anything here changed.

        Raises StoreRestoredError.
        """
        if self.sequence is not None and store.sequence() == self.sequence:
            return False
        state = store.live(self.sequence)
        self._must_go_on_from_here(state.sequence)
        if state.is_whole:
            self.forget()
        changed = self._take(state) or state.is_whole
        self.sequence = state.sequence
        return changed

    def _must_go_on_from_here(self, sequence: Sequence) -> None:
        """Raise StoreRestoredError if the store is where it was before."""
        if self.sequence is not None and sequence < self.sequence:
            raise StoreRestoredError("sequence", known=self.sequence, found=sequence)

    @property
    def held_besides(self) -> tuple[Reservation, ...]:
        """What is held by others than `attempts`."""
        return (*self.held_by_stuck, *self.held_by_strays)

    def note_strays(self, held: tuple[Reservation, ...]) -> None:
        """So much is held by gangs that the store does not know."""
        if held != self.held_by_strays:
            self.held_by_strays = held
            self._standing.holds_besides(self.held_besides)

    def take_news(self) -> set[JobId]:
        """Jobs of which a refresh has brought something since the last call."""
        news, self._news = self._news, set()
        return news

    def put(self, job: Job, live: RunningGang | None) -> None:
        """What is known of one job now."""
        self._start_number = max(self._start_number, job.start_number)
        before = self.attempts.get(job.id)
        held_before = () if before is None else before.reservations
        held = () if live is None else live.reservations
        if held is not held_before and held != held_before:
            self._standing.holds(held_before, held)
        if before is not None and live is not None and not (job.promised or before.job.promised):
            self._hold(live)
            return
        self._remove(job.id)
        if live is not None:
            self._hold(live)
            if job.promised is not None:
                self._standing.moves(job)
        elif job.stop_requested is not None and not job.phase.is_terminal:
            self.waiting_to_stop[job.id] = job
        elif job.phase is JobPhase.PENDING:
            self.pending[job.id] = job
            self.pending_version += 1
            self._standing.waits(job)

    def next_start_number(self) -> int:
        """Larger than that of every live job."""
        self._start_number += 1
        return self._start_number

    def changed(self, job: Job) -> None:
        """A job has changed, and nothing of what it holds."""
        held = self.attempts.get(job.id)
        self.put(job, None if held is None else replace(held, job=job))

    def noted(self, job: Job) -> None:
        """The wait of a pending job has been noted: the last decision holds as it is."""
        self.pending[job.id] = job
        self._standing.notes(job)

    def drop(self, job_id: JobId) -> None:
        """Know nothing of one job."""
        held = self.attempts.get(job_id)
        if held is not None:
            self._standing.holds(held.reservations, ())
        self._remove(job_id)

    def _hold(self, live: RunningGang) -> None:
        self.attempts[live.job.id] = live
        if live.attempt.placement.tier:
            self.spread[live.job.id] = live
        elif self.spread:
            # It may have lain elsewhere in an attempt before.
            self.spread.pop(live.job.id, None)

    def _remove(self, job_id: JobId) -> None:
        if self.pending.pop(job_id, None) is not None:
            self.pending_version += 1
            self._standing.waits_no_more(job_id)
        self.waiting_to_stop.pop(job_id, None)
        self.spread.pop(job_id, None)
        if self.attempts.pop(job_id, None) is not None:
            self._standing.moves_no_more(job_id)

    def _take(self, state: LiveState) -> bool:
        attempts = {
            attempt.job_id: attempt
            for attempt in state.attempts
            if attempt.phase is not AttemptPhase.ENDED
        }
        held = _by_job(state.reservations) if state.reservations else {}
        changed = state.held_by_stuck != self.held_by_stuck
        for job_id in (*state.deleted, *state.stuck):
            self.drop(job_id)
            changed = True
        if self.stuck or state.stuck:
            self.stuck = (self.stuck - {job.id for job in state.jobs}) | set(state.stuck)
            self.stuck -= set(state.deleted)
        for job in state.jobs:
            attempt = attempts.get(job.id)
            live = (
                RunningGang(job=job, attempt=attempt, reservations=tuple(held.get(job.id, ())))
                if attempt is not None
                else None
            )
            if not self._knows(job, live):
                self.put(job, live)
                self._news.add(job.id)
                changed = True
        self.held_by_stuck = state.held_by_stuck
        self._standing.holds_besides(self.held_besides)
        return changed

    def _knows(self, job: Job, live: RunningGang | None) -> bool:
        if live is not None:
            return self.attempts.get(job.id) == live
        if job.id in self.attempts:
            return False
        known = self.pending.get(job.id) or self.waiting_to_stop.get(job.id)
        return known == job if known is not None else job.phase.is_terminal


def _by_job(reservations: Iterable[Reservation]) -> dict[JobId, list[Reservation]]:
    by_job: dict[JobId, list[Reservation]] = {}
    for reservation in sorted(reservations, key=lambda held: (held.attempt, held.rank)):
        by_job.setdefault(reservation.attempt.job_id, []).append(reservation)
    return by_job
