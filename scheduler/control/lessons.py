"""What past jobs teach, as the loop knows it: read whole in a term, then what is new.

Past waits are passed on as they are. Lengths of ended jobs are passed on in views that are renewed
when a tenth more has ended: an order learned from them must not change with every end.
"""

from collections.abc import Iterable

from scheduler.domain.copying import maker_of
from scheduler.domain.history import NOTHING_PAST, LiveService, PastJobs
from scheduler.domain.ids import Sequence
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job, JobPhase
from scheduler.domain.lessons import ended_jobs, keyed_ends, keyed_waits, past_waits
from scheduler.domain.patience import waits_observed
from scheduler.domain.snapshot import RunningGang
from scheduler.domain.waits import JobEnd, WaitObservation, demand_bucket
from scheduler.ports.job_store import JobStore
from scheduler.ports.unit import Change, RecordEnd, RecordWaits

WAITING = frozenset({JobPhase.PENDING, JobPhase.HELD})

RENEWED_AFTER_MIN = 5
"""Ends that make a new view, while there are few."""

RENEWED_AFTER_SHARE = 0.1
"""Of the ends in the view, later."""


class PastLessons:
    """Owned by the loop."""

    def __init__(self) -> None:
        self._jobs_view = NOTHING_PAST
        self._enough = RENEWED_AFTER_MIN
        """Ends that make a new view."""
        self.forget()

    def forget(self) -> None:
        """A term begins or ends: everything is read again."""
        self._waits = past_waits()
        self._ends = ended_jobs()
        self._read_up_to: Sequence | None = None
        self._waits_view: tuple[WaitObservation, ...] = ()
        self._fresh_ends = 0
        """Since the view was made."""

    def refresh(self, store: JobStore, up_to: Sequence) -> None:
        """Read what was written since the last time, by whomever: users cancel jobs that wait.

        `up_to`: the sequence that the rest of the store was read at. What was written after it and
        is read all the same comes again, and is put in the place of itself.
        """
        waits = store.past_waits(self._read_up_to)
        ends = store.ended_jobs(self._read_up_to)
        if waits:
            self._waits.add(keyed_waits(waits), up_to)
            self._waits_view = self._waits.all()
        if ends:
            self._ends.add(keyed_ends(ends), up_to)
            self._fresh_ends += len(ends)
        self._read_up_to = up_to

    def waits(self) -> tuple[WaitObservation, ...]:
        """The newest of each kind."""
        return self._waits_view

    def jobs(
        self, pending: Iterable[Job], holding: Iterable[RunningGang], now: Instant
    ) -> PastJobs:
        """The view of ended jobs that holds at present."""
        if self._fresh_ends >= self._enough:
            self._fresh_ends = 0
            self._jobs_view = view = PastJobs(
                version=self._jobs_view.version + 1,
                ends=self._ends.all(),
                live=tuple(_live(pending, holding, now)),
            )
            self._enough = max(RENEWED_AFTER_MIN, round(RENEWED_AFTER_SHARE * len(view.ends)))
        return self._jobs_view


_service = maker_of(LiveService)


def _live(
    pending: Iterable[Job], holding: Iterable[RunningGang], now: Instant
) -> Iterable[LiveService]:
    for job in pending:
        if job.ran_for:
            yield _service(queue=job.spec.queue, gpus=job.spec.gpus, ran_for=job.ran_for)
    for gang in holding:
        yield _service(
            queue=gang.job.spec.queue, gpus=gang.job.spec.gpus, ran_for=gang.run_time(now)
        )


def lessons_of_end(before: Job, job: Job) -> tuple[Change, ...]:
    """What the end of a job teaches, to be written with it: a wait in vain, and its service."""
    at = job.ended_at
    assert at is not None
    lessons: list[Change] = []
    if before.phase in WAITING and before.waiting is not None:
        demand = demand_bucket(job.spec.gpus)
        waits = waits_observed(job.id, demand, before.waiting, taken=None, at=at)
        lessons += [RecordWaits(waits=waits)] if waits else []
    if job.ran_for:
        end = JobEnd(
            job_id=job.id,
            queue=job.spec.queue,
            gpus=job.spec.gpus,
            ran_for=job.ran_for,
            is_complete=job.phase is JobPhase.SUCCEEDED,
            at=at,
        )
        lessons.append(RecordEnd(end=end))
    return tuple(lessons)
