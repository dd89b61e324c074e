"""The clock of the service: wall time when it starts, from then on monotonic time."""

import time

from scheduler.domain.instants import Instant

_NS_PER_US = 1_000


class SystemClock:
    """Clock port. Steps of the machine's clock do not reach it while the process lives."""

    def __init__(self, *, not_before: Instant = Instant(0)) -> None:
        """`not_before` is the last instant that was stored: time never falls behind it."""
        self._begin = max(Instant(time.time_ns() // _NS_PER_US), not_before)
        self._begin_ns = time.monotonic_ns()

    def now(self) -> Instant:
        """The present."""
        return Instant(self._begin + (time.monotonic_ns() - self._begin_ns) // _NS_PER_US)
