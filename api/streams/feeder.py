"""A thread that works off rounds for all followers of one kind, while there are any."""

from collections.abc import Callable
from threading import Event, Lock, Thread

import structlog

from scheduler.domain.errors import StoreUnavailableError

PAUSE_S = 0.02
"""Least time between two rounds."""

_log = structlog.get_logger("dally.api")


class Feeder:
    """Calls `work` in its own thread: soon after `wake`, and every `poll_s` at the latest.

    The thread starts with the first `wake` and ends when `work` says that nobody follows.
    """

    def __init__(self, name: str, work: Callable[[], bool], *, poll_s: float) -> None:
        assert poll_s > PAUSE_S
        self._name = name
        self._work = work
        self._poll_s = poll_s
        self._lock = Lock()
        self._awake = Event()
        self._thread: Thread | None = None
        self._closed = Event()

    def start(self) -> None:
        """Have the thread run: somebody follows."""
        with self._lock:
            self._awake.set()
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def wake(self) -> None:
        """Something has happened; does not start the thread."""
        self._awake.set()

    def close(self) -> None:
        """End the thread; returns when it has ended."""
        with self._lock:
            self._closed.set()
            thread = self._thread
        self._awake.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            self._awake.wait(self._poll_s)
            # Many writes in a moment are one round.
            self._closed.wait(PAUSE_S)
            self._awake.clear()
            is_followed = self._work_once()
            with self._lock:
                # Decided under the lock, so that a follower who comes now starts a new thread.
                if self._closed.is_set() or (not is_followed and not self._awake.is_set()):
                    self._thread = None
                    return

    def _work_once(self) -> bool:
        try:
            return self._work()
        except StoreUnavailableError as error:
            _log.warning("feeder_waits_for_store", feeder=self._name, error=str(error))
            return True
        except Exception:  # noqa: BLE001 - one bad round must not end every stream
            _log.exception("feeder_failed", feeder=self._name)
            return True
