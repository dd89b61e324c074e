"""Who acts: at most one leader; every term has its own epoch."""

from typing import Protocol

from scheduler.domain.ids import Epoch


class Leadership(Protocol):
    """Leadership of the scheduler loop."""

    def lead(self) -> Epoch | None:
        """Take or renew the leadership; the epoch while this process leads, else None.

        Called at the start of every tick. A challenger takes over only when it has seen the holder
        fail to renew for the lease time on its own monotonic clock. Raises StoreRestoredError where
        the store has gone back to before the last renewal; the term goes on.
        """
        ...

    def is_leader(self) -> bool:
        """Whether the last renewal is recent enough to act outside the store."""
        ...

    def resign(self) -> None:
        """Give the leadership back, so that another takes over at once."""
        ...
