"""Hints that something was written: to callbacks in this process, and from other processes.

On PostgreSQL a writer notifies a channel in its transaction. Hints may get lost; nothing relies on
them but how soon a change is seen.
"""

import os
from collections.abc import Callable
from select import select
from threading import Event, Lock, Thread

import psycopg
import structlog

from scheduler.adapters.sql.writer import CHANNEL, Written

_log = structlog.get_logger(__name__)

_PAUSE_S = 2.0
_CONNECT_TIMEOUT_S = 5


class Callbacks:
    """Who wants to be called after a unit was written."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._callbacks: dict[int, tuple[Callable[[], None], bool]] = {}
        self._made = 0

    def add(self, callback: Callable[[], None], *, requests_only: bool) -> Callable[[], None]:
        """Call `callback` from now on, until the result is called."""
        with self._lock:
            self._made += 1
            number = self._made
            self._callbacks[number] = (callback, requests_only)

        def end() -> None:
            with self._lock:
                self._callbacks.pop(number, None)

        return end

    def call(self, written: Written) -> None:
        """Call those whom it concerns."""
        with self._lock:
            callbacks = tuple(self._callbacks.values())
        for callback, requests_only in callbacks:
            if written.asks_for_a_decision or not requests_only:
                try:
                    callback()
                except Exception:  # noqa: BLE001 - a listener's fault must not stop the writer
                    _log.exception("change_callback_failed")


class Listener:
    """Hears, on its own connection and thread, what other processes have written."""

    def __init__(
        self, conninfo: str, *, own_writer: str, on_written: Callable[[Written], None]
    ) -> None:
        self._conninfo = conninfo
        self._own_writer = own_writer
        self._on_written = on_written
        self._closing = Event()
        # Written to when the listener is to end: it waits for that and for the database at once.
        self._woken, self._waker = os.pipe()
        self._thread = Thread(target=self._run, name="store-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        os.write(self._waker, b".")
        self._thread.join()
        os.close(self._woken)
        os.close(self._waker)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except psycopg.Error as error:
                _log.info("listener_lost", problem=str(error).strip())
                self._closing.wait(_PAUSE_S)

    def _listen(self) -> None:
        with psycopg.connect(
            self._conninfo, autocommit=True, connect_timeout=_CONNECT_TIMEOUT_S
        ) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            # Something may have been written while nobody listened.
            self._on_written(Written(asks_for_a_decision=True))
            while not self._closing.is_set():
                select([connection.fileno(), self._woken], [], [])
                for heard in connection.notifies(timeout=0):
                    self._hear(heard.payload)

    def _hear(self, payload: str) -> None:
        writer, _, kind = payload.partition(" ")
        if writer != self._own_writer:
            self._on_written(Written(asks_for_a_decision=kind == "request"))
