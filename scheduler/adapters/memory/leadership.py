"""Leadership over a memory store: several in one process compete for it as servers do in SQL."""

from collections.abc import Callable

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.lease import LeaseTimes
from scheduler.ports.leasing import LeaseLeadership


def _standing_still() -> float:
    return 0.0


class MemoryLeadership(LeaseLeadership):
    """A Leadership; alone it leads from the first call on, and for ever if its clock stands."""

    def __init__(
        self,
        store: MemoryStore,
        *,
        holder: str = "memory",
        times: LeaseTimes | None = None,
        monotonic: Callable[[], float] = _standing_still,
    ) -> None:
        super().__init__(store, holder=holder, times=times or LeaseTimes(), monotonic=monotonic)
