"""A clock that stands still until it is told to move."""

from scheduler.domain.instants import Duration, Instant, after


class ManualClock:
    """Clock port: time is what the test or the simulation says it is."""

    def __init__(self, start: Instant = Instant(0)) -> None:
        self._now = start

    def now(self) -> Instant:
        """The instant last set."""
        return self._now

    def advance(self, duration: Duration) -> Instant:
        """Move on by `duration`; returns the new instant."""
        assert duration >= 0, duration
        self._now = after(self._now, duration)
        return self._now

    def advance_to(self, instant: Instant) -> None:
        """Move on to `instant`, which must not lie in the past."""
        assert instant >= self._now, (instant, self._now)
        self._now = instant
