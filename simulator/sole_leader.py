"""Leadership where nobody else is: one epoch for the whole run."""

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.ids import Epoch


class SoleLeader:
    """A Leadership that always leads."""

    def __init__(self, store: MemoryStore) -> None:
        epoch = store.take_lease(seen=store.lease(), holder="simulator")
        assert epoch is not None
        self._epoch = epoch

    def lead(self) -> Epoch | None:
        """See Leadership."""
        return self._epoch

    def is_leader(self) -> bool:
        """See Leadership."""
        return True

    def resign(self) -> None:
        """See Leadership: nobody would take it."""
