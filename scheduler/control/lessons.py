"""What past jobs teach, as the loop knows it: read once in a term, then kept current by its writes.

Past waits are passed on as they are. Lengths of ended jobs are passed on in views that are renewed
when a tenth more has ended: an order learned from them must not change with every end.
"""

from collections import defaultdict, deque
from collections.abc import Iterable

from scheduler.domain.history import NOTHING_PAST, LiveService, PastJobs
from scheduler.domain.ids import LevelName, QueueName
from scheduler.domain.instants import Instant, elapsed
from scheduler.domain.job import Job, JobPhase
from scheduler.domain.snapshot import RunningGang
from scheduler.domain.waits import (
    ENDS_KEPT,
    ENDS_KEPT_FOR,
    WAITS_KEPT,
    JobEnd,
    WaitObservation,
)
from scheduler.ports.job_store import JobStore

RENEWED_AFTER_MIN = 5
"""Ends that make a new view, while there are few."""

RENEWED_AFTER_SHARE = 0.1
"""Of the ends in the view, later."""


class PastLessons:
    """Owned by the loop."""

    def __init__(self) -> None:
        self._waits: dict[tuple[int, LevelName], deque[WaitObservation]] = {}
        self._ends: dict[QueueName, deque[JobEnd]] = {}
        self._waits_view: tuple[WaitObservation, ...] | None = ()
        self._jobs_view = NOTHING_PAST
        self._fresh_ends = 0
        """Since the view was made."""

    def read(self, store: JobStore) -> None:
        """A term begins."""
        self._waits = defaultdict(lambda: deque(maxlen=WAITS_KEPT))
        self._ends = defaultdict(lambda: deque(maxlen=ENDS_KEPT))
        self.note_waits(store.past_waits())
        ends = store.ended_jobs()
        for end in ends:
            self._ends[end.queue].append(end)
        self._fresh_ends = len(ends)

    def note_waits(self, waits: Iterable[WaitObservation]) -> None:
        """These were written."""
        for wait in waits:
            self._waits[wait.demand, wait.level].append(wait)
            self._waits_view = None

    def note_end(self, end: JobEnd) -> None:
        """This was written."""
        ends = self._ends[end.queue]
        ends.append(end)
        while ends and elapsed(ends[0].at, end.at) > ENDS_KEPT_FOR:
            ends.popleft()
        self._fresh_ends += 1

    def waits(self) -> tuple[WaitObservation, ...]:
        """The newest of each kind."""
        if self._waits_view is None:
            self._waits_view = tuple(
                wait for kind in sorted(self._waits) for wait in self._waits[kind]
            )
        return self._waits_view

    def jobs(
        self, pending: Iterable[Job], holding: Iterable[RunningGang], now: Instant
    ) -> PastJobs:
        """The view of ended jobs that holds at present."""
        view = self._jobs_view
        enough = max(RENEWED_AFTER_MIN, round(RENEWED_AFTER_SHARE * len(view.ends)))
        if self._fresh_ends >= enough:
            self._fresh_ends = 0
            self._jobs_view = PastJobs(
                version=view.version + 1,
                ends=tuple(end for queue in sorted(self._ends) for end in self._ends[queue]),
                live=tuple(_live(pending, holding, now)),
            )
        return self._jobs_view


def _live(
    pending: Iterable[Job], holding: Iterable[RunningGang], now: Instant
) -> Iterable[LiveService]:
    for job in pending:
        if job.ran_for:
            yield LiveService(queue=job.spec.queue, gpus=job.spec.gpus, ran_for=job.ran_for)
    for gang in holding:
        yield LiveService(
            queue=gang.job.spec.queue, gpus=gang.job.spec.gpus, ran_for=gang.run_time(now)
        )


def job_end(job: Job, at: Instant) -> JobEnd:
    """What the end of a job teaches."""
    return JobEnd(
        job_id=job.id,
        queue=job.spec.queue,
        gpus=job.spec.gpus,
        ran_for=job.ran_for,
        is_complete=job.phase is JobPhase.SUCCEEDED,
        at=at,
    )
