"""What is kept long enough is forgotten: old events, replies, audit and logs, a few at a time."""

from dataclasses import dataclass

from scheduler.domain.errors import StoreUnavailableError
from scheduler.domain.instants import DAY, MINUTE, Duration, Instant, after
from scheduler.ports.clock import Clock
from scheduler.ports.job_store import JobStore
from scheduler.ports.unit import Expire, Unit

EVERY = Duration(10 * MINUTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepTimes:
    """How long each kind of row stays."""

    events: Duration
    audit: Duration
    logs: Duration
    replies: Duration = Duration(DAY)


class Housekeeping:
    """Asks the store to forget, every ten minutes; used by one thread."""

    def __init__(self, store: JobStore, clock: Clock, times: KeepTimes) -> None:
        self._store = store
        self._clock = clock
        self._times = times
        self._due = after(clock.now(), EVERY)

    def run_if_due(self) -> None:
        """Forget what is old, if it is time to."""
        now = self._clock.now()
        if now < self._due:
            return
        self._due = after(now, EVERY)
        expire = Expire(
            events_before=Instant(now - self._times.events),
            replies_before=Instant(now - self._times.replies),
            audit_before=Instant(now - self._times.audit),
            logs_before=Instant(now - self._times.logs),
        )
        try:
            self._store.write(Unit(changes=(expire,)))
        except StoreUnavailableError:
            # The loop says so already; rows wait for the next time.
            return
