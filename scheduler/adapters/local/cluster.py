"""The local executor: gangs as processes on this machine, supervised by processes of their own.

The machine may pretend to be several nodes; nodes, racks and slots are given. Commands run as the
user of the server. Linux only.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from scheduler.adapters.local import log_files
from scheduler.adapters.local.folders import Layout
from scheduler.adapters.local.gang_making import GangMaker, GangSettings
from scheduler.adapters.local.keeper import Keeper
from scheduler.adapters.local.processes import Children
from scheduler.adapters.local.retention import Retention, RetentionLimits
from scheduler.adapters.views import Views
from scheduler.domain.errors import AlreadyServingError, ClusterUnavailableError
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.topology import Level
from scheduler.ports.clock import Clock
from scheduler.ports.cluster import ClusterView, GangOrder
from scheduler.ports.log_source import LogChunk


class LocalCluster:
    """Cluster and LogSource ports on processes: a context manager, or `start` and `close`."""

    def __init__(
        self,
        data_dir: Path,
        clock: Clock,
        settings: GangSettings,
        *,
        levels: tuple[Level, ...] = (),
        limits: RetentionLimits | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_change` is called from the executor's thread whenever `observe` has news."""
        self._clock = clock
        self._layout = Layout(data_dir)
        self._levels = levels
        self._views = Views(levels, settings.nodes)
        self._settings = settings
        self._limits = limits or RetentionLimits()
        self._on_change = on_change
        self._lock = -1
        self._keeper: Keeper | None = None

    def start(self) -> None:
        """Adopt the workers there are, then take requests. Raises AlreadyServingError."""
        self._layout.make()
        self._lock = os.open(self._layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            message = f"another server runs workers from {self._layout.root}"
            raise AlreadyServingError(message) from None
        self._views = Views(self._levels, self._settings.nodes)
        self._keeper = Keeper(
            self._layout,
            GangMaker(self._layout, self._settings),
            self._views,
            retention=Retention(self._layout, self._limits, self._clock),
            children=Children(self._settings.python),
            on_change=self._on_change,
        )
        self._keeper.start()

    def close(self) -> None:
        """Let go; the workers run on and the next executor on this folder adopts them."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
            os.close(self._lock)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Cluster

    def observe(self, after: int | None = None) -> ClusterView:
        """The present view, whole or as changes. Raises ClusterUnavailableError."""
        self._alive_keeper()
        return self._views.view(after)

    def prepare(self, order: GangOrder) -> None:
        """Have a supervisor made for every worker."""
        self._alive_keeper().prepare(order)

    def release(self, attempt: AttemptKey) -> None:
        """Have the supervisors start their commands."""
        self._alive_keeper().release(attempt)

    def stop(self, attempt: AttemptKey, *, kill_at: Instant) -> None:
        """Have the commands signalled and later killed."""
        # Supervisors do not know our clock; the machine's own is the same for all its processes.
        left = kill_at - self._clock.now()
        self._alive_keeper().stop(attempt, time.monotonic_ns() // 1000 + left)

    def forget(self, attempt: AttemptKey) -> None:
        """Speak of the attempt no more."""
        self._alive_keeper().forget(attempt)

    def order_of(self, attempt: AttemptKey) -> GangOrder | None:
        """Folders of gangs do not keep it."""
        return None

    def disown(self, attempt: AttemptKey) -> None:
        """Nobody asks: reports tell no term, so none of these gangs is listed as a stray."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise ClusterUnavailableError unless the executor works."""
        self._alive_keeper()

    # LogSource

    def read(self, attempt: AttemptKey, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
        """Bytes of a worker's log."""
        return log_files.read(self._layout.gang(attempt), rank, offset=offset, bytes_max=bytes_max)

    def tail_offset(self, attempt: AttemptKey, rank: Rank, *, lines: int) -> int:
        """Offset of the last `lines` lines."""
        return log_files.tail_offset(self._layout.gang(attempt), rank, lines=lines)

    def offset_since(self, attempt: AttemptKey, rank: Rank, *, since: Instant) -> int:
        """Offset of the first byte written at or after `since`."""
        return log_files.offset_since(self._layout.gang(attempt), rank, since=since)

    def _alive_keeper(self) -> Keeper:
        if self._keeper is None:
            raise ClusterUnavailableError("the local executor is not started")
        if self._keeper.failure is not None:
            message = f"the local executor has failed: {self._keeper.failure!r}"
            raise ClusterUnavailableError(message)
        return self._keeper
