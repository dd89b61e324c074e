"""The Forecaster of a server: each forecast in a process of its own, one at a time."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Lock

from scheduler.domain.codec import from_json, to_json
from scheduler.domain.errors import (
    ForecastBusyError,
    ForecastStoppedError,
    ForecastTooLargeError,
)
from scheduler.domain.forecast import Forecast, ForecastQuestion

OUT_OF_MEMORY = 3
"""Exit code of `simulator.foretelling`."""

TIME_MAX = timedelta(seconds=20)
"""Clients give up after half a minute."""
MEMORY_MAX = 1 << 30
ENVIRONMENT = ("PATH", "PYTHONPATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
"""What the process gets of ours: it needs no setting and no secret."""


class ForecastProcesses:
    """See Forecaster."""

    def __init__(self, *, time_max: timedelta = TIME_MAX, memory_max: int = MEMORY_MAX) -> None:
        self._time_max = time_max
        self._memory_max = memory_max
        self._turn = Lock()
        self._guard = Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """See Forecaster."""
        if not self._turn.acquire(blocking=False):
            raise ForecastBusyError
        try:
            yield
        finally:
            self._turn.release()

    def forecast(self, question: ForecastQuestion) -> Forecast:
        """See Forecaster."""
        return self._told(to_json(question))

    def close(self) -> None:
        """See Forecaster."""
        with self._guard:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()

    def _told(self, question: str) -> Forecast:
        process = self._begun()
        try:
            answer, complaint = process.communicate(
                question, timeout=self._time_max.total_seconds()
            )
        except subprocess.TimeoutExpired as error:
            limit = f"{self._time_max.total_seconds():g} s"
            raise ForecastTooLargeError(limit) from error
        finally:
            process.kill()
            process.communicate()
            with self._guard:
                self._process = None
        if process.returncode == OUT_OF_MEMORY:
            raise ForecastTooLargeError(f"{self._memory_max >> 20} MiB of memory")
        if process.returncode < 0:
            # By `close`, or by a machine that has run out of memory.
            raise (
                ForecastStoppedError
                if self._is_closed
                else ForecastTooLargeError("there is memory")
            )
        if process.returncode:
            raise RuntimeError(f"the forecast ended with {process.returncode}: {complaint}")
        return from_json(Forecast, answer)

    def _begun(self) -> "subprocess.Popen[str]":
        with self._guard:
            if self._is_closed:
                raise ForecastStoppedError
            self._process = subprocess.Popen(  # noqa: S603 - our own module, and a number
                [sys.executable, "-m", "simulator.foretelling", str(self._memory_max)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            )
            return self._process
