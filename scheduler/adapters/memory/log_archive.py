"""Logs kept in memory."""

from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.log_archive import KeptLog


class MemoryLogArchive:
    """A LogArchive that is gone with the process."""

    def __init__(self) -> None:
        self._logs: dict[tuple[AttemptKey, Rank], KeptLog] = {}
        self._closed: set[AttemptKey] = set()

    def keep_log(self, attempt: AttemptKey, rank: Rank, log: KeptLog, *, at: Instant) -> None:
        """Keep a worker's log."""
        self._logs[attempt, rank] = log

    def kept_log(self, attempt: AttemptKey, rank: Rank) -> KeptLog | None:
        """What is kept of a worker's log."""
        return self._logs.get((attempt, rank))

    def close_attempt(self, attempt: AttemptKey, *, at: Instant) -> None:
        """The attempt is over."""
        self._closed.add(attempt)

    def is_attempt_closed(self, attempt: AttemptKey) -> bool:
        """Whether that was said of it."""
        return attempt in self._closed
