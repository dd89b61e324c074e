"""Graceful stop: the service sends SIGTERM and kills what is left after the grace."""

import signal
import threading
import time
from types import FrameType

from dally_runtime.contract import is_in_job, variable


class _Stop:
    """Whether this process was asked to stop, and when. Listens from the first question on."""

    def __init__(self) -> None:
        self.asked_at: float | None = None
        self._is_listening = False
        self._former: signal._HANDLER = signal.SIG_DFL

    def listen(self) -> None:
        """Take over SIGTERM; only the main thread may."""
        if self._is_listening or threading.current_thread() is not threading.main_thread():
            return
        self._former = signal.signal(signal.SIGTERM, self._note)
        self._is_listening = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked_at is None:
            self.asked_at = time.monotonic()
        if callable(self._former):
            self._former(number, frame)


_stop = _Stop()


def should_stop() -> bool:
    """Whether the service has asked the job to stop; False outside a job.

    Call it once before the first step: until then SIGTERM ends the process at once.
    """
    if is_in_job():
        _stop.listen()
    return _stop.asked_at is not None


def seconds_left() -> float | None:
    """Seconds until this worker is killed; None while nobody has asked it to stop."""
    if _stop.asked_at is None:
        return None
    grace_s = float(variable("DALLY_GRACE_SECONDS") or 0)
    return max(0.0, grace_s - (time.monotonic() - _stop.asked_at))
