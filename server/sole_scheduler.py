"""With the local executor one server does all: another one that leads the same database is told."""

from scheduler.domain.errors import AlreadyServingError
from scheduler.domain.ids import Epoch
from scheduler.domain.lease import LeaseRow
from scheduler.ports.leadership import Leadership
from scheduler.ports.leasing import LeaseStore


class SoleLeadership:
    """A Leadership that waits for a dead holder's lease to run out, and not for a living one's."""

    def __init__(self, leadership: Leadership, store: LeaseStore) -> None:
        self._leadership = leadership
        self._store = store
        self._first_seen: LeaseRow | None = None

    def lead(self) -> Epoch | None:
        """Take or renew. Raises AlreadyServingError when somebody else is seen to renew."""
        epoch = self._leadership.lead()
        if epoch is not None:
            self._first_seen = None
            return epoch
        row = self._store.lease()
        if self._first_seen is None:
            self._first_seen = row
        elif row != self._first_seen and row.holder:
            raise AlreadyServingError(
                f"{row.holder} schedules for this database, and the local executor's workers run "
                "on its machine"
            )
        return None

    def is_leader(self) -> bool:
        """Whether the last renewal is recent enough to act on."""
        return self._leadership.is_leader()

    def resign(self) -> None:
        """Give the lease back."""
        self._leadership.resign()
