"""What time it is."""

from typing import Protocol

from scheduler.domain.instants import Instant


class Clock(Protocol):
    """Tells the time and never goes back."""

    def now(self) -> Instant:
        """The present instant, never earlier than the one told before."""
        ...
