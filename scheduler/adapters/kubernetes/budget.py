"""How much the API server is asked: a token bucket for all threads, and a breaker when it fails.

Every request takes a token. When the server says "later", or fails again and again, everybody
waits; one request at a time then tries whether it is well again.
"""

import random
import threading
import time

from scheduler.adapters.kubernetes.errors import Abandoned

FAILURES_MAX = 5
"""Failures in a row after which the breaker opens."""
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 30.0


class Budget:
    """Requests per second, shared by all threads of an adapter."""

    def __init__(self, requests_per_second: float, *, rng: random.Random | None = None) -> None:
        self._rate = requests_per_second
        self._burst = max(1.0, requests_per_second)
        self._tokens = self._burst
        self._filled_at = time.monotonic()
        self._not_before = 0.0
        self._failures = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self.taken = 0
        """Requests so far."""
        self.waited_s = 0.0
        """Time spent waiting for tokens so far, of all threads together."""

    @property
    def is_open(self) -> bool:
        """Whether the breaker holds requests back."""
        return self._failures >= FAILURES_MAX

    def take(self) -> None:
        """Wait for a token. Raises Abandoned when the adapter closes."""
        began = time.monotonic()
        with self._changed:
            while (wait_s := self._wait_s()) > 0.0:
                self._changed.wait(wait_s)
            if self._is_closed:
                raise Abandoned("the adapter closes")
            self._tokens -= 1.0
            self.taken += 1
            self.waited_s += time.monotonic() - began

    def note_answer(self) -> None:
        """The server answers."""
        with self._changed:
            self._failures = 0

    def note_failure(self) -> None:
        """The server does not answer, or only with an error of its own."""
        with self._changed:
            self._failures += 1
            if self.is_open:
                longest = min(PAUSE_S_MAX, PAUSE_S_MIN * 2 ** (self._failures - FAILURES_MAX))
                self._pause(self._rng.uniform(0.0, longest))

    def note_throttled(self, retry_after_s: float) -> None:
        """The server says when to come again; not all come at the same moment."""
        with self._changed:
            self._pause(retry_after_s * self._rng.uniform(1.0, 1.5))

    def close(self) -> None:
        """Let everybody go who waits, with Abandoned."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _pause(self, length_s: float) -> None:
        self._not_before = max(self._not_before, time.monotonic() + length_s)

    def _wait_s(self) -> float:
        if self._is_closed:
            return 0.0
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        return max(self._not_before - now, (1.0 - self._tokens) / self._rate)
