"""Logs for a process that serves the API while another one schedules: it looks pods up by name."""

from collections.abc import Sequence

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.access import Access
from scheduler.adapters.kubernetes.budget import Budget
from scheduler.adapters.kubernetes.client import ApiServer
from scheduler.adapters.kubernetes.errors import ApiFailure, Missing
from scheduler.adapters.kubernetes.log_reading import KubernetesLogs
from scheduler.adapters.kubernetes.log_tails import LogTails
from scheduler.adapters.kubernetes.objects import labels_of
from scheduler.adapters.kubernetes.pods import PodFacts, facts_of
from scheduler.adapters.kubernetes.watch import collection
from scheduler.domain.errors import ClusterUnavailableError
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.log_archive import LogArchive
from scheduler.ports.log_source import LogChunk

REQUESTS_PER_SECOND = 50.0


class RemoteLogs:
    """A LogSource; close it."""

    def __init__(
        self, access: Access, namespaces: Sequence[str], instance: str, archive: LogArchive
    ) -> None:
        self._namespaces = namespaces
        self._instance = instance
        self._server = ApiServer(access, Budget(REQUESTS_PER_SECOND))
        self._tails = LogTails(self._server, self._pod_of)
        self._logs = KubernetesLogs(self._pod_of, self._tails, archive, None)

    def close(self) -> None:
        """Let go of everything."""
        self._tails.close()
        self._server.close()

    def read(self, attempt: AttemptKey, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
        """Bytes of a worker's log."""
        return self._logs.read(attempt, rank, offset=offset, bytes_max=bytes_max)

    def tail_offset(self, attempt: AttemptKey, rank: Rank, *, lines: int) -> int:
        """Offset of the last `lines` lines."""
        return self._logs.tail_offset(attempt, rank, lines=lines)

    def offset_since(self, attempt: AttemptKey, rank: Rank, *, since: Instant) -> int:
        """Offset of the first byte written at or after `since`."""
        return self._logs.offset_since(attempt, rank, since=since)

    def _pod_of(self, attempt: AttemptKey, rank: Rank) -> PodFacts | None:
        name = names.pod_name(attempt, rank)
        wanted = {**names.attempt_labels(self._instance, attempt), names.RANK: str(rank)}
        for namespace in self._namespaces:
            try:
                found = self._server.get(f"{collection(namespace, 'pods')}/{name}")
            except Missing:
                continue
            except ApiFailure as failure:
                raise ClusterUnavailableError(failure.message) from failure
            if wanted.items() <= labels_of(found).items():
                return facts_of(found)
        return None
