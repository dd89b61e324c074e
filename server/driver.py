"""The thread that drives the control loop: waits, ticks, and takes the process down if it dies."""

import threading
import time
from collections.abc import Callable

import structlog

from scheduler.control.loop import ControlLoop
from scheduler.domain.errors import AlreadyServingError, StoreReplacedError
from scheduler.domain.instants import SECOND, Duration, Instant, elapsed, in_seconds
from scheduler.ports.clock import Clock
from scheduler.ports.leadership import Leadership

STALE_AFTER_S = 15.0
"""A loop that has not ended a tick for so long is not well."""

GATHER_S = 0.005
"""After a wake-up: what else arrives at the same moment is seen by the same tick."""

_log = structlog.get_logger("dally.server")


class LoopDriver:
    """Calls `tick` when it is due, or when something wakes it."""

    def __init__(
        self,
        loop: ControlLoop,
        clock: Clock,
        leadership: Leadership,
        *,
        wake: threading.Event,
        between_ticks: Callable[[], None],
        on_death: Callable[[], None],
    ) -> None:
        """`wake` is set by whoever has news; `on_death` is called when a tick raises.

        `between_ticks` does what is not urgent.
        """
        self._loop = loop
        self._clock = clock
        self._leadership = leadership
        self._between_ticks = between_ticks
        self._on_death = on_death
        self._wake = wake
        self._is_stopping = threading.Event()
        self._ticked_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="scheduler-loop", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def wake(self) -> None:
        """Something has changed: tick soon. From any thread."""
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """End after the tick that runs, and give the leadership back."""
        self._is_stopping.set()
        self._wake.set()
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._leadership.resign()

    def check(self) -> None:
        """Raise unless the loop ticks."""
        age_s = time.monotonic() - self._ticked_at
        if age_s > STALE_AFTER_S:
            raise RuntimeError(f"the scheduler loop has not ticked for {age_s:.0f} s")

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                self._wake.clear()
                wake_at = self._loop.tick()
                self._ticked_at = time.monotonic()
                self._between_ticks()
                self._wait_until(wake_at)
        except (AlreadyServingError, StoreReplacedError) as error:
            # No bug of ours: whoever reads the log is to do something.
            _log.critical("loop_ended", error=str(error))
            self._on_death()
        except BaseException:  # noqa: BLE001 - whatever it is, nothing is scheduled any more
            _log.critical("loop_died", exc_info=True)
            self._on_death()

    def _wait_until(self, wake_at: Instant) -> None:
        left = elapsed(self._clock.now(), wake_at)
        if left and self._wake.wait(in_seconds(Duration(min(left, 60 * SECOND)))):
            self._is_stopping.wait(GATHER_S)
