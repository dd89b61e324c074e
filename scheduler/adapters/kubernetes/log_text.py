"""The text of a log as Kubernetes hands it out: lines, each led by the time it was written."""

from dataclasses import dataclass, field

from scheduler.adapters.kubernetes.objects import instant_of
from scheduler.domain.instants import Instant
from scheduler.ports.log_archive import KeptLog
from scheduler.ports.log_source import LogChunk, LogTime

BYTES_MAX = 1 << 20
"""So many last bytes are kept."""


@dataclass(slots=True)
class LogText:
    """The last bytes of a log, with the times of its lines; grows at its end."""

    data: bytearray = field(default_factory=bytearray)
    offset: int = 0
    times: list[LogTime] = field(default_factory=list)
    last_stamp: str = ""
    """Of the last line; empty before the first."""
    lines_of_last_stamp: int = 0

    @property
    def end(self) -> int:
        """Offset behind the last byte."""
        return self.offset + len(self.data)

    def add(self, line: bytes) -> None:
        """One line with its stamp in front; a line without one is taken as it is."""
        head, gap, rest = line.partition(b" ")
        stamp = head.decode(errors="replace")
        at = instant_of(stamp) if gap else None
        text = line if at is None else rest
        if at is not None:
            is_same = stamp == self.last_stamp
            self.lines_of_last_stamp = self.lines_of_last_stamp + 1 if is_same else 1
            self.last_stamp = stamp
            if not self.times or self.times[-1].at != at:
                self.times.append(LogTime(offset=self.end, at=at))
        self.data += text
        self._trim()

    def kept(self) -> KeptLog:
        """All there is, to be kept."""
        return KeptLog(data=bytes(self.data), offset=self.offset, times=tuple(self.times))

    def _trim(self) -> None:
        # Twice as much is let come together, so that the end is not moved for every line.
        if len(self.data) <= 2 * BYTES_MAX:
            return
        dropped = len(self.data) - BYTES_MAX
        del self.data[:dropped]
        self.offset += dropped
        while len(self.times) > 1 and self.times[1].offset <= self.offset:
            del self.times[0]


def is_led_by_a_time(line: bytes) -> bool:
    """Whether a worker has written it: the kubelet's own words have no time in front."""
    head, gap, _ = line.partition(b" ")
    return bool(gap) and instant_of(head.decode(errors="replace")) is not None


def parsed(answer: bytes) -> LogText:
    """A whole answer."""
    text = LogText()
    for line in answer.splitlines(keepends=True):
        text.add(line)
    return text


def chunk_of(log: KeptLog, offset: int, bytes_max: int, *, is_over: bool) -> LogChunk:
    """Some bytes of what is kept, from `offset` or the earliest kept one on."""
    start = max(offset, log.offset)
    data = log.data[start - log.offset : start - log.offset + bytes_max]
    end = log.offset + len(log.data)
    return LogChunk(
        data=data,
        offset=start if start <= end else offset,
        is_end=is_over and start + len(data) >= end,
        times=_times_of(log, start, start + len(data)),
    )


def tail_offset(log: KeptLog, lines: int) -> int:
    """Offset of the last so many lines."""
    end = len(log.data)
    position = end - 1 if log.data.endswith(b"\n") else end
    if lines <= 0:
        return log.offset + end
    for _ in range(lines):
        newline = log.data.rfind(b"\n", 0, max(0, position))
        if newline < 0:
            return log.offset
        position = newline
    return log.offset + position + 1


def offset_since(log: KeptLog, since: Instant) -> int:
    """Offset of the first byte written at or after an instant; the end if there is none."""
    if not log.times:
        return log.offset
    for time in log.times:
        if time.at >= since:
            return max(time.offset, log.offset)
    return log.offset + len(log.data)


def _times_of(log: KeptLog, start: int, end: int) -> tuple[LogTime, ...]:
    before = [time for time in log.times if time.offset <= start]
    inside = [time for time in log.times if start < time.offset < end]
    return (*before[-1:], *inside)
