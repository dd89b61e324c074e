"""The LogSource over Kubernetes: running workers are followed, ended ones read from the archive."""

from scheduler.adapters.kubernetes import log_text
from scheduler.adapters.kubernetes.log_keeping import EndedLogs
from scheduler.adapters.kubernetes.log_tails import LogTails, Lookup, TailView
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import WorkerState
from scheduler.ports.log_archive import KeptLog, LogArchive
from scheduler.ports.log_source import LogChunk


class KubernetesLogs:
    """Reads worker logs, running and ended."""

    def __init__(
        self, lookup: Lookup, tails: LogTails, archive: LogArchive, ended: EndedLogs | None
    ) -> None:
        """`ended` copies logs in this process; None where another process does."""
        self._lookup = lookup
        self._tails = tails
        self._archive = archive
        self._ended = ended

    def read(self, attempt: AttemptKey, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
        """Bytes of a worker's log."""
        view = self._view(attempt, rank)
        return log_text.chunk_of(view.log, offset, bytes_max, is_over=view.is_over)

    def tail_offset(self, attempt: AttemptKey, rank: Rank, *, lines: int) -> int:
        """Offset of the last `lines` lines."""
        return log_text.tail_offset(self._view(attempt, rank).log, lines)

    def offset_since(self, attempt: AttemptKey, rank: Rank, *, since: Instant) -> int:
        """Offset of the first byte written at or after `since`."""
        return log_text.offset_since(self._view(attempt, rank).log, since)

    def _view(self, attempt: AttemptKey, rank: Rank) -> TailView:
        facts = self._lookup(attempt, rank)
        if facts is None or facts.report.state is WorkerState.ENDED:
            return self._ended_view(attempt, rank, is_known=facts is not None)
        if facts.report.state is not WorkerState.RUNNING:
            return TailView(log=KeptLog(data=b""), is_over=False)
        followed = self._tails.view(facts)
        if followed is None:
            return TailView(log=KeptLog(data=b""), is_over=False)
        return followed

    def _ended_view(self, attempt: AttemptKey, rank: Rank, *, is_known: bool) -> TailView:
        if self._ended is not None:
            self._ended.wait_for(attempt, rank)
        kept = self._archive.kept_log(attempt, rank)
        if kept is not None:
            return TailView(log=kept, is_over=True)
        followed = self._tails.known(attempt, rank)
        if followed is not None:
            return TailView(log=followed.log, is_over=followed.is_over or not is_known)
        if not is_known:
            raise NotFoundError("log", f"{attempt}/{rank}")
        return TailView(log=KeptLog(data=b""), is_over=False)
