"""The waiting line: pending jobs in the policy's order, alike ones together.

Jobs are alike if they stand in one queue and ask for the same: they get one answer in a decision.
So a decision walks the first of each kind, and goes on with the next one of a kind only where the
one before it got its GPUs or declined them: its cost is the number of kinds, not of jobs.

    kind (queue a, 1 x 8 GPUs)   j3 j7 j9 ...     walk: j1 j3 ...
    kind (queue a, 4 x 8 GPUs)   j1 j4 ...
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.domain.gang import GangRequest, NumberedRequest
from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.policies.interface import Key, Orders


class Kind(NamedTuple):
    """What alike jobs share."""

    queue: QueueName
    request: int
    """Number of the request."""


@dataclass(slots=True)
class Waiting:
    """A pending job in the line."""

    job: Job
    kind: Kind
    request: GangRequest
    key: Key | None = None
    """None while it is not filed: it is new, or its back-off is not over."""


class WaitingLine:
    """All pending jobs. Mutable: it follows what the loop knows."""

    def __init__(self) -> None:
        self._waiting: dict[JobId, Waiting] = {}
        self._kinds: dict[Kind, list[tuple[Key, JobId]]] = {}
        self._new: dict[JobId, None] = {}
        self._version: Hashable = None
        self._resting: list[tuple[Instant, JobId]] = []
        """Jobs whose back-off is not over, by its end; an entry may be out of date."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._waiting

    def __getitem__(self, job_id: JobId) -> Waiting:
        return self._waiting[job_id]

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    def put(self, job: Job, request: NumberedRequest) -> None:
        """A job waits, or one that waited has changed."""
        self.drop(job.id)
        kind = Kind(job.spec.queue, request.number)
        self._waiting[job.id] = Waiting(job, kind, request.request)
        self._new[job.id] = None

    def renew(self, job: Job) -> None:
        """A job has changed in nothing that its place depends on."""
        self._waiting[job.id].job = job

    def drop(self, job_id: JobId) -> None:
        """A job waits no more, if it did."""
        waiting = self._waiting.pop(job_id, None)
        if waiting is None:
            return
        self._new.pop(job_id, None)
        if waiting.key is not None:
            self._unfile(waiting)

    def clear(self) -> None:
        """Nobody waits."""
        self._waiting.clear()
        self._kinds.clear()
        self._new.clear()
        self._resting.clear()

    def sort(self, orders: Orders, now: Instant) -> None:
        """File new jobs, jobs whose back-off is over, and all if the order has changed."""
        if self._version != orders.order_version:
            self._version = orders.order_version
            self._kinds.clear()
            self._resting.clear()
            for waiting in self._waiting.values():
                waiting.key = None
            self._new = dict.fromkeys(self._waiting)
        while self._resting and self._resting[0][0] <= now:
            job_id = heapq.heappop(self._resting)[1]
            rested = self._waiting.get(job_id)
            if rested is not None and rested.key is None:
                self._new[job_id] = None
        for job_id in self._new:
            self._file(self._waiting[job_id], orders, now)
        self._new.clear()

    def walk(self) -> "Walk":
        """The filed jobs in order."""
        return Walk(self._waiting, self._kinds)

    def resting(self, now: Instant) -> list[Job]:
        """Jobs whose back-off is not over."""
        return [
            waiting.job
            for waiting in self._waiting.values()
            if waiting.job.not_before is not None and waiting.job.not_before > now
        ]

    def next_rest_end(self) -> Instant | None:
        """When the next back-off ends."""
        while self._resting:
            at, job_id = self._resting[0]
            waiting = self._waiting.get(job_id)
            if waiting is not None and waiting.job.not_before == at:
                return at
            heapq.heappop(self._resting)
        return None

    def _file(self, waiting: Waiting, orders: Orders, now: Instant) -> None:
        job = waiting.job
        if job.not_before is not None and job.not_before > now:
            heapq.heappush(self._resting, (job.not_before, job.id))
            return
        waiting.key = orders.key(job)
        insort(self._kinds.setdefault(waiting.kind, []), (waiting.key, job.id))

    def _unfile(self, waiting: Waiting) -> None:
        assert waiting.key is not None
        jobs = self._kinds[waiting.kind]
        del jobs[bisect_left(jobs, (waiting.key, waiting.job.id))]
        if not jobs:
            del self._kinds[waiting.kind]


class Walk:
    """One walk along the line. The line must not change meanwhile."""

    def __init__(
        self, waiting: dict[JobId, Waiting], kinds: dict[Kind, list[tuple[Key, JobId]]]
    ) -> None:
        self._waiting = waiting
        self._kinds = kinds
        self._heads = [(jobs[0], kind, 0) for kind, jobs in kinds.items()]
        heapq.heapify(self._heads)
        self._shut: set[Kind] = set()
        self._shut_queues: set[QueueName] = set()

    def __iter__(self) -> Iterator[Waiting]:
        heads = self._heads
        while heads:
            (_, job_id), kind, place = heads[0]
            jobs = self._kinds[kind]
            yield self._waiting[job_id]
            if place + 1 == len(jobs):
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (jobs[place + 1], kind, place + 1))
            self._drop_shut()

    def _is_shut(self, kind: Kind) -> bool:
        return kind in self._shut or kind.queue in self._shut_queues

    def _drop_shut(self) -> None:
        while self._heads and self._is_shut(self._heads[0][1]):
            heapq.heappop(self._heads)

    def shut(self, kind: Kind) -> None:
        """Pass over the rest of the jobs of a kind."""
        self._shut.add(kind)

    def shut_queue(self, queue: QueueName) -> None:
        """Pass over the rest of the jobs of a queue."""
        self._shut_queues.add(queue)
