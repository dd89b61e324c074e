"""Where the last output of workers is kept once the cluster that ran them has it no more."""

from dataclasses import dataclass
from typing import Protocol

from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.log_source import LogTime


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """The last bytes of a worker's log."""

    data: bytes
    offset: int = 0
    """Place of `data` in the whole log."""
    times: tuple[LogTime, ...] = ()
    """When it was written, by offset, as finely as it is known."""


class LogArchive(Protocol):
    """Keeps logs by worker, and which attempts are over for good. Both are forgotten in time."""

    def keep_log(self, attempt: AttemptKey, rank: Rank, log: KeptLog, *, at: Instant) -> None:
        """Keep a worker's log; a later one replaces it. Raises StoreUnavailableError."""
        ...

    def kept_log(self, attempt: AttemptKey, rank: Rank) -> KeptLog | None:
        """What is kept of a worker's log; None if nothing is."""
        ...

    def close_attempt(self, attempt: AttemptKey, *, at: Instant) -> None:
        """The attempt is over and its workers are removed: it is never made again."""
        ...

    def is_attempt_closed(self, attempt: AttemptKey) -> bool:
        """Whether that was said of it."""
        ...
