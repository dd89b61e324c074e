"""First in, first out, inside priorities: `fifo` is strict in each queue, `fifo-backfill` is not.

Both take the first offer. They never stop a running gang.
"""

from collections.abc import Hashable

from scheduler.domain.ids import QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job, submission_order
from scheduler.domain.placement import Blocked
from scheduler.domain.snapshot import Snapshot
from scheduler.policies.interface import Key, Offer

STRICT = "fifo"
BACKFILL = "fifo-backfill"


class Fifo:
    """Submission order; whether a job that waits for GPUs stops those behind it is per queue."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._is_strict: dict[QueueName, bool] = {}

    @property
    def order_version(self) -> Hashable:
        """Always the same order."""
        return "submission"

    def key(self, job: Job) -> Key:
        """Larger priority first, then earlier submission, then id."""
        return submission_order(job)

    def accept(self, job: Job, offer: Offer) -> Blocked | None:
        """Take it."""
        return None

    @property
    def patience(self) -> None:
        """Nobody declines."""
        return None

    @property
    def elders(self) -> None:
        """The order is all there is."""
        return None

    @property
    def moves(self) -> None:
        """Nobody is stopped for proximity."""
        return None

    def blocks_later(self, job: Job) -> bool:
        """In a queue whose policy is the strict one."""
        name = job.spec.queue
        if name not in self._is_strict:
            queue = self._snapshot.queues.get(name)
            own = queue.policy if queue is not None else ""
            self._is_strict[name] = (own or self._snapshot.knobs.policy) == STRICT
        return self._is_strict[name]

    @property
    def ranks(self) -> None:
        """Running gangs are kept."""
        return None

    def next_decision_at(self) -> Instant | None:
        """Time alone changes nothing here."""
        return None
