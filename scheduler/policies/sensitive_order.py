"""The order of pending jobs under Dally: priority, then what `order` says, then submission, id."""

from collections.abc import Hashable

from scheduler.domain.job import Job
from scheduler.domain.snapshot import Snapshot
from scheduler.policies.interface import Key
from scheduler.policies.ordering import LAS_CLASSES
from scheduler.policies.reranked import service_before


class SensitiveOrder:
    """Keys of pending jobs."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @property
    def version(self) -> Hashable:
        """Keys made under equal versions go together."""
        return "las"

    def key(self, job: Job) -> Key:
        """Smaller goes first."""
        number = LAS_CLASSES.class_of(service_before(job))
        return (-job.priority, number, job.submitted_at, job.id)
