"""Leadership by a stored lease: the same for every store that can exchange a row in one step."""

from collections.abc import Callable
from typing import Protocol

from scheduler.domain.errors import StoreRestoredError
from scheduler.domain.ids import Epoch
from scheduler.domain.lease import LeaseRow, LeaseTimes, Sighting, Term


class LeaseStore(Protocol):
    """Where the lease lies."""

    def lease(self) -> LeaseRow:
        """The lease as it stands. Its holder is empty also when the holder is known to be dead."""
        ...

    def take_lease(self, *, seen: LeaseRow, holder: str) -> Epoch | None:
        """Begin a new epoch for `holder`; None if the lease is not as `seen` any more."""
        ...

    def renew_lease(self, epoch: Epoch) -> int | None:
        """Count a renewal; how many there are now. None if that epoch is over."""
        ...

    def leave_lease(self, epoch: Epoch) -> None:
        """Say that nobody holds the lease, unless that epoch is over."""
        ...


class LeaseLeadership:
    """A Leadership. Used by one thread; `is_leader` may be asked by any."""

    def __init__(
        self,
        store: LeaseStore,
        *,
        holder: str,
        times: LeaseTimes,
        monotonic: Callable[[], float],
    ) -> None:
        """`holder` is a name that no other process, past or present, has."""
        assert holder, "the empty name means nobody"
        self._store = store
        self._holder = holder
        self._times = times
        self._monotonic = monotonic
        self._term: Term | None = None
        self._sighting: Sighting | None = None

    def lead(self) -> Epoch | None:
        """Take or renew the leadership. Raises StoreRestoredError if renewals are gone."""
        # Read before the store is asked: a slow answer shortens our term, never lengthens it.
        now_s = self._monotonic()
        if self._term is not None:
            return self._renew(self._term, now_s=now_s)
        row = self._store.lease()
        if self._sighting is None:
            self._sighting = Sighting(row=row, since_s=now_s)
        self._sighting = self._sighting.updated(row, now_s=now_s)
        # Our own name stands there when the answer to an earlier attempt got lost.
        is_ours = row.holder == self._holder
        if not is_ours and not self._sighting.may_take(self._times, now_s=now_s):
            return None
        epoch = self._store.take_lease(seen=row, holder=self._holder)
        if epoch is not None:
            self._term = Term(epoch=epoch, renewed_s=now_s)
        return epoch

    def is_leader(self) -> bool:
        """Whether the last renewal is recent enough to act on."""
        term = self._term
        return term is not None and self._monotonic() - term.renewed_s < self._times.act_s

    def resign(self) -> None:
        """Leave the lease to whoever asks next."""
        term, self._term, self._sighting = self._term, None, None
        if term is not None:
            self._store.leave_lease(term.epoch)

    def _renew(self, term: Term, *, now_s: float) -> Epoch | None:
        if now_s - term.renewed_s < self._times.renew_s:
            return term.epoch
        renewals = self._store.renew_lease(term.epoch)
        if renewals is None:
            self._term = self._sighting = None
            return None
        self._term = Term(epoch=term.epoch, renewed_s=now_s, renewals=renewals)
        # More than one on: an earlier one whose answer got lost.
        if renewals <= term.renewals:
            raise StoreRestoredError("renewal", known=term.renewals, found=renewals)
        return term.epoch
