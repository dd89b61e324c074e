"""Reads the logs that supervisors write: segments named by the offset of their first byte."""

from collections.abc import Iterator
from pathlib import Path

from scheduler.adapters.local import supervisor
from scheduler.adapters.local.folders import GangFolder, WorkerFolder
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import Rank
from scheduler.ports.log_source import LogChunk

BLOCK_BYTES = 1 << 16


def read(gang: GangFolder, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
    """Bytes from `offset` on, or from the earliest byte kept."""
    while True:
        try:
            return _read(gang, _worker(gang, rank), offset=offset, bytes_max=bytes_max)
        except FileNotFoundError:
            continue  # A segment was dropped in the meantime.


def tail_offset(gang: GangFolder, rank: Rank, *, lines: int) -> int:
    """Offset of the last `lines` lines; a last line without a newline counts too."""
    while True:
        try:
            return _tail_offset(_segments(_worker(gang, rank)), lines)
        except FileNotFoundError:
            continue


def _read(gang: GangFolder, worker: WorkerFolder, *, offset: int, bytes_max: int) -> LogChunk:
    # First whether it is over, then what it wrote: else the last words could be missed.
    is_over = worker.is_over() or gang.is_forgotten()
    segments = _segments(worker)
    if not segments:
        return LogChunk(data=b"", offset=offset, is_end=is_over)
    offset = max(offset, segments[0][0])
    found = bytearray()
    for start, path in segments:
        if len(found) < bytes_max:
            found += _bytes_of(path, offset + len(found) - start, bytes_max - len(found))
    is_end = is_over and offset + len(found) >= _end_of(segments)
    return LogChunk(data=bytes(found), offset=offset, is_end=is_end)


def _tail_offset(segments: list[tuple[int, Path]], lines: int) -> int:
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
    return segments[0][0] if segments else 0


def _worker(gang: GangFolder, rank: Rank) -> WorkerFolder:
    worker = gang.worker(rank)
    if not worker.path.is_dir():
        raise NotFoundError("log", f"{gang.attempt}/{rank}")
    return worker


def _segments(worker: WorkerFolder) -> list[tuple[int, Path]]:
    """Offset and file of each segment, in order."""
    return sorted(
        (int(path.name.removeprefix(supervisor.LOG_PREFIX)), path)
        for path in worker.path.glob(f"{supervisor.LOG_PREFIX}*")
    )


def _end_of(segments: list[tuple[int, Path]]) -> int:
    return segments[-1][0] + segments[-1][1].stat().st_size if segments else 0


def _bytes_of(path: Path, start: int, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, start))
        return file.read(count)


def _blocks_from_the_end(segments: list[tuple[int, Path]]) -> Iterator[tuple[int, bytes]]:
    for segment_start, path in reversed(segments):
        end = path.stat().st_size
        while end > 0:
            start = max(0, end - BLOCK_BYTES)
            yield segment_start + start, _bytes_of(path, start, end - start)
            end = start
