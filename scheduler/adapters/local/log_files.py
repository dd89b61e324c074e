"""Reads the logs that supervisors write: segments named by the offset of their first byte."""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from scheduler.adapters.local.folders import GangFolder, WorkerFolder
from scheduler.adapters.local.supervisor import records
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.ports.log_source import LogChunk, LogTime

BLOCK_BYTES = 1 << 16
LOOKS_MAX = 100

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """Some consecutive bytes of a log, in a file of their own."""

    start: int
    folder: Path

    def size(self) -> int:
        """Bytes in it so far."""
        return self._log.stat().st_size

    def read(self, offset: int, count: int) -> bytes:
        """Bytes from `offset` of the whole log on; none if it begins later or ends before."""
        with self._log.open("rb") as file:
            file.seek(offset - self.start)
            return file.read(count)

    def times(self) -> "Times":
        """When its bytes were read."""
        data = (self.folder / f"{records.TIMES_PREFIX}{self.start}").read_bytes()
        numbers = array("Q", data[: len(data) // records.TIME_BYTES * records.TIME_BYTES])
        if sys.byteorder == "big":
            numbers.byteswap()
        return Times(offsets=numbers[0::2], instants=numbers[1::2])

    @property
    def _log(self) -> Path:
        return self.folder / f"{records.LOG_PREFIX}{self.start}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """From offset n on, bytes were read at instant n."""

    offsets: "array[int]"
    instants: "array[int]"

    def of(self, offset: int, count: int) -> list[LogTime]:
        """The times of some bytes; the first is at `offset` or before it."""
        first = max(0, bisect_right(self.offsets, offset) - 1)
        last = bisect_left(self.offsets, offset + count)
        return [
            LogTime(offset=self.offsets[index], at=Instant(self.instants[index]))
            for index in range(first, last)
        ]


def read(gang: GangFolder, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
    """Bytes from `offset` on, or from the earliest byte kept."""
    worker = _worker(gang, rank)
    # First whether it is over, then what it wrote: else the last words could be missed.
    is_over = worker.is_over() or gang.is_forgotten()
    return _steady(
        worker,
        lambda segments: _read(segments, offset=offset, bytes_max=bytes_max, is_over=is_over),
    )


def tail_offset(gang: GangFolder, rank: Rank, *, lines: int) -> int:
    """Offset of the last `lines` lines; a last line without a newline counts too."""
    return _steady(_worker(gang, rank), lambda segments: _tail_offset(segments, lines))


def offset_since(gang: GangFolder, rank: Rank, *, since: Instant) -> int:
    """Offset of the first byte written at or after `since`; the end if there is none."""
    return _steady(_worker(gang, rank), lambda segments: _offset_since(segments, since))


def _worker(gang: GangFolder, rank: Rank) -> WorkerFolder:
    worker = gang.worker(rank)
    if not worker.path.is_dir():
        raise NotFoundError("log", f"{gang.attempt}/{rank}")
    return worker


def _steady(worker: WorkerFolder, look: Callable[[list[Segment]], _Found]) -> _Found:
    """Look at the segments; again if one was dropped in the meantime."""
    for _ in range(LOOKS_MAX):
        segments = sorted(
            Segment(int(path.name.removeprefix(records.LOG_PREFIX)), worker.path)
            for path in worker.path.glob(f"{records.LOG_PREFIX}*")
        )
        try:
            return look(segments)
        except FileNotFoundError:
            continue
    raise NotFoundError("log", str(worker.path))


def _read(segments: list[Segment], *, offset: int, bytes_max: int, is_over: bool) -> LogChunk:
    if not segments:
        return LogChunk(data=b"", offset=offset, is_end=is_over)
    offset = max(offset, segments[0].start)
    found = bytearray()
    times: list[LogTime] = []
    for segment in segments[max(0, bisect_right([s.start for s in segments], offset) - 1) :]:
        if len(found) >= bytes_max:
            break
        data = segment.read(offset + len(found), bytes_max - len(found))
        times += segment.times().of(offset + len(found), len(data)) if data else []
        found += data
    return LogChunk(
        data=bytes(found),
        offset=offset,
        is_end=is_over and offset + len(found) >= _end_of(segments),
        times=tuple(times),
    )


def _tail_offset(segments: list[Segment], lines: int) -> int:
    end = _end_of(segments)
    if lines <= 0:
        return end
    newlines_wanted = lines
    for start, block in _blocks_from_the_end(segments):
        place = len(block)
        if start + place == end and block.endswith(b"\n"):
            place -= 1  # It ends the last line and begins none.
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            newlines_wanted -= 1
            if newlines_wanted == 0:
                return start + place + 1
    return segments[0].start if segments else 0


def _offset_since(segments: list[Segment], since: Instant) -> int:
    for segment in segments:
        times = segment.times()
        for offset, instant in zip(times.offsets, times.instants, strict=True):
            if instant >= since:
                return offset
    return _end_of(segments)


def _end_of(segments: list[Segment]) -> int:
    return segments[-1].start + segments[-1].size() if segments else 0


def _blocks_from_the_end(segments: list[Segment]) -> Iterator[tuple[int, bytes]]:
    for segment in reversed(segments):
        end = segment.start + segment.size()
        while end > segment.start:
            start = max(segment.start, end - BLOCK_BYTES)
            yield start, segment.read(start, end - start)
            end = start
