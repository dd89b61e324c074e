"""The output of a worker on disk, with a bound on its size."""

import os

from scheduler.adapters.local.supervisor.records import (
    LOG_PREFIX,
    TIME_BYTES,
    TIMES_PREFIX,
    microseconds,
)

SEGMENTS_KEPT = 8
TIME_STEP_US = 10_000
"""Output of so many microseconds may share one time."""


class OutputLog:
    """Output in segments named by the offset of their first byte; old segments are dropped.

    Beside each lies a file of times: pairs of an offset and the microsecond at which the bytes from
    there on were read, eight bytes each. Both count for the size.
    """

    def __init__(self, bytes_max: int) -> None:
        self._segment_bytes = max(TIME_BYTES + 1, bytes_max // SEGMENTS_KEPT)
        self._starts: list[int] = []
        self._end = 0
        self._left = 0
        """Bytes the segment may still take."""
        self._output = self._times = -1
        self._last_time = 0

    def write(self, data: bytes) -> None:
        """Append `data`; what the disk does not take is dropped, for the worker must go on."""
        try:
            while data:
                if self._left <= 0:
                    self._open_segment()
                self._note_time()
                written = os.write(self._output, data[: max(1, self._left)])
                self._end += written
                self._left -= written
                data = data[written:]
        except OSError:
            return

    def sync(self) -> None:
        """Have what was written on disk, if the disk can."""
        try:
            if self._output >= 0:
                os.fdatasync(self._output)
        except OSError:
            return

    def _note_time(self) -> None:
        """Before the bytes themselves, so that a reader who sees them sees their time."""
        now = microseconds()
        if now - self._last_time >= TIME_STEP_US:
            pair = self._end.to_bytes(8, "little") + now.to_bytes(8, "little")
            os.write(self._times, pair)
            self._last_time = now
            self._left -= TIME_BYTES

    def _open_segment(self) -> None:
        times = open_new(f"{TIMES_PREFIX}{self._end}")  # Who sees a segment finds its times.
        output = open_new(f"{LOG_PREFIX}{self._end}")
        if self._output >= 0:
            os.close(self._output)
            os.close(self._times)
        self._output, self._times = output, times
        self._left = self._segment_bytes
        self._last_time = 0
        self._starts.append(self._end)
        while len(self._starts) > SEGMENTS_KEPT:
            dropped = self._starts.pop(0)
            os.unlink(f"{LOG_PREFIX}{dropped}")
            os.unlink(f"{TIMES_PREFIX}{dropped}")


def open_new(path: str) -> int:
    """Open a file to append to it."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
