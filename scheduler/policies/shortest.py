"""Least first, preemptive: `sjf` by GPUs, `srtf` by remaining time, `srsf` by both multiplied.

The last two know how long jobs run: they are bounds for the others, not rivals.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable

from scheduler.domain.job import Job
from scheduler.domain.snapshot import RunningGang
from scheduler.policies.interface import Key, Ranks
from scheduler.policies.reranked import Reranked

UNKNOWN_LENGTH = 2**62
"""Jobs of unknown length go last: longer than any known one."""


class Shortest(Reranked, ABC):
    """Smaller first by what `_size` says; then earlier submission, then id."""

    @property
    def order_version(self) -> Hashable:
        """What a waiting job has left stays the same."""
        return type(self).__name__

    @property
    def ranks(self) -> Ranks:
        """This policy."""
        return self

    def key(self, job: Job) -> Key:
        """See Orders."""
        return (-job.priority, self._size(job), job.submitted_at, job.id)

    def rank(self, gang: RunningGang) -> Key:
        """See Ranks."""
        return self.key(gang.job)

    @abstractmethod
    def _size(self, job: Job) -> int:
        """What is to be least."""


class FewestGpus(Shortest):
    """`sjf`, as Tiresias's simulator calls it."""

    def _size(self, job: Job) -> int:
        return job.spec.gpus


class LeastTime(Shortest):
    """`srtf`."""

    def _size(self, job: Job) -> int:
        lengths = self.snapshot.lengths
        left = None if lengths is None else lengths.remaining(job.id)
        return UNKNOWN_LENGTH if left is None else left


class LeastService(LeastTime):
    """`srsf`."""

    def _size(self, job: Job) -> int:
        left = super()._size(job)
        return left if left == UNKNOWN_LENGTH else left * max(1, job.spec.gpus)
