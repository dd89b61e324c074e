"""A LogSource that holds what a test puts into it."""

from dataclasses import dataclass, field

from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.log_source import LogChunk, LogTime


@dataclass(slots=True)
class _Log:
    data: bytes = b""
    times: list[LogTime] = field(default_factory=list)
    is_ended: bool = False


class FakeLogs:
    """Logs by attempt and rank."""

    def __init__(self) -> None:
        self._logs: dict[tuple[AttemptKey, int], _Log] = {}

    def write(self, attempt: AttemptKey, data: bytes, *, rank: int = 0, at: Instant) -> None:
        """The worker has written this."""
        log = self._logs.setdefault((attempt, rank), _Log())
        log.times.append(LogTime(offset=len(log.data), at=at))
        log.data += data

    def end(self, attempt: AttemptKey, *, rank: int = 0) -> None:
        """The worker has ended."""
        self._logs[attempt, rank].is_ended = True

    def read(self, attempt: AttemptKey, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
        """Bytes from `offset` on."""
        log = self._log(attempt, rank)
        data = log.data[offset : offset + bytes_max]
        return LogChunk(
            data=data,
            offset=offset,
            is_end=log.is_ended and offset + len(data) >= len(log.data),
            times=tuple(time for time in log.times if time.offset < offset + len(data)),
        )

    def tail_offset(self, attempt: AttemptKey, rank: Rank, *, lines: int) -> int:
        """Offset of the last lines."""
        data = self._log(attempt, rank).data
        kept = data.splitlines(keepends=True)[-lines:] if lines else []
        return len(data) - sum(map(len, kept))

    def offset_since(self, attempt: AttemptKey, rank: Rank, *, since: Instant) -> int:
        """Offset of the first byte written at or after `since`."""
        log = self._log(attempt, rank)
        return next((time.offset for time in log.times if time.at >= since), len(log.data))

    def _log(self, attempt: AttemptKey, rank: int) -> _Log:
        log = self._logs.get((attempt, rank))
        if log is None:
            raise NotFoundError("log", f"{attempt} rank {rank}")
        return log
