"""The output of workers."""

from dataclasses import dataclass
from typing import Protocol

from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTime:
    """From `offset` on, up to the next LogTime, bytes were read at this instant."""

    offset: int
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Some bytes of a worker's log."""

    data: bytes
    """As the worker wrote it; may end in the middle of a line or of a character."""
    offset: int
    """Place of `data` in the whole log; bytes dropped by the size cap keep their places."""
    is_end: bool
    """No more will come: the worker has ended and this reaches the end of its log."""
    times: tuple[LogTime, ...] = ()
    """When `data` was written, as finely as it is known, by offset; the first is at `offset` or
    before it. Empty where the source does not keep times."""

    @property
    def next_offset(self) -> int:
        """Where to read on."""
        return self.offset + len(self.data)


class LogSource(Protocol):
    """Reads worker logs, running and ended."""

    def read(self, attempt: AttemptKey, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
        """Bytes from `offset` on (from the earliest kept byte if that one was dropped).

        An empty chunk that is not the end means: nothing new yet. Raises NotFoundError if no log of
        that worker is kept.
        """
        ...

    def tail_offset(self, attempt: AttemptKey, rank: Rank, *, lines: int) -> int:
        """Offset of the last `lines` lines. Raises NotFoundError likewise."""
        ...

    def offset_since(self, attempt: AttemptKey, rank: Rank, *, since: Instant) -> int:
        """Offset of the first byte written at or after `since`; the present end if there is none.

        Where the source keeps no times: the start of the log. Raises NotFoundError likewise.
        """
        ...
