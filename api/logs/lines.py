"""Log bytes as they are sent: raw, or whole lines with the time at which each was read."""

from bisect import bisect_right

from api.times import render_instant
from scheduler.ports.log_source import LogChunk, LogTime

LINE_BYTES_MAX = 1024 * 1024
"""A line without an end is cut here, so that it can not fill the memory."""


class StampedLines:
    """Puts the time before each line; keeps the end of a chunk until its line is whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._stamp = b""

    def feed(self, chunk: LogChunk) -> bytes:
        """The lines that `chunk` completes."""
        out: list[bytes] = []
        position = 0
        while position < len(chunk.data):
            end = chunk.data.find(b"\n", position) + 1 or len(chunk.data)
            if not self._rest:
                self._stamp = _stamp(chunk, chunk.offset + position)
            self._rest += chunk.data[position:end]
            if self._rest.endswith(b"\n") or len(self._rest) > LINE_BYTES_MAX:
                out += (self._stamp, self._rest)
                self._rest = b""
            position = end
        return b"".join(out)

    def finish(self) -> bytes:
        """A last line that has no end."""
        rest, self._rest = self._rest, b""
        return self._stamp + rest if rest else b""


def _stamp(chunk: LogChunk, offset: int) -> bytes:
    time = _time_at(chunk.times, offset)
    # Without times in the source: a dash, so that the columns stay.
    return f"{render_instant(time.at) if time else '-'} ".encode()


def _time_at(times: tuple[LogTime, ...], offset: int) -> LogTime | None:
    index = bisect_right(times, offset, key=lambda time: time.offset) - 1
    return times[index] if index >= 0 else (times[0] if times else None)
