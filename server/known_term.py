"""Which term this process leads, for those who act in threads of their own."""

from scheduler.domain.ids import Epoch
from scheduler.ports.leadership import Leadership


class KnownTerm:
    """A Leadership that remembers the term it was told last."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._epoch: Epoch | None = None

    def lead(self) -> Epoch | None:
        """Take or renew."""
        self._epoch = self._leadership.lead()
        return self._epoch

    def is_leader(self) -> bool:
        """Whether the last renewal is recent enough to act on."""
        return self._leadership.is_leader()

    def resign(self) -> None:
        """Give the leadership back."""
        self._epoch = None
        self._leadership.resign()

    def term(self) -> Epoch | None:
        """The term as last told; None while another process leads. From any thread."""
        return self._epoch
