"""Bounds on what one request and one token may ask for, and the bucket that counts requests."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from scheduler.domain.instants import SECOND, Instant

BUCKETS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLimits:
    """Bounds that hold; only `requests_per_second` and `requests_burst` are settings."""

    page_default: int = 100
    page_max: int = 500
    log_lines_max: int = 10_000
    body_seconds_max: float = 30.0
    """A body that takes longer is given up: its sender would hold a connection for ever."""
    streams_max: int = 1000
    """Open watches and followed logs together."""
    streams_per_token: int = 300
    stream_heartbeat_s: float = 15.0
    """After so long without news a stream says that it still lives."""
    stream_life_min_s: float = 1800.0
    """A stream ends after this and up to as much again, by chance, and its client comes back."""
    requests_per_second: float = 100.0
    """Of one token, over time. Admin tokens are not counted."""
    requests_burst: float = 400.0
    reports_per_second: float = 1.0
    """Progress reports of one attempt."""
    reports_burst: float = 20.0


class RateLimiter:
    """A token bucket per principal; the least recently seen are forgotten (and so refilled)."""

    def __init__(self, *, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._lock = Lock()
        self._levels: OrderedDict[str, tuple[float, Instant]] = OrderedDict()

    def wait_s(self, principal: str, now: Instant) -> float:
        """0 if the request may pass (then it is counted), else seconds until one may."""
        with self._lock:
            level, since = self._levels.pop(principal, (self._burst, now))
            level = min(self._burst, level + (now - since) / SECOND * self._per_second)
            passes = level >= 1
            self._levels[principal] = (level - 1 if passes else level, now)
            if len(self._levels) > BUCKETS_MAX:
                self._levels.popitem(last=False)
        return 0.0 if passes else (1 - level) / self._per_second
