"""The sweep: anchors that nobody will ever come back for. Pods that only wait the loop sweeps.

A leader that was paused may make one after its successor has let the gang go; it owns nothing, or
pods that are stopped as strays. What has been empty in two sweeps in a row is removed.
"""

import logging
import threading
from collections.abc import Callable

from scheduler.adapters.kubernetes.errors import ApiFailure
from scheduler.adapters.kubernetes.gang import FoundAnchor
from scheduler.adapters.kubernetes.keeper import Keeper
from scheduler.adapters.kubernetes.objects import Uid
from scheduler.domain.errors import StoreUnavailableError

SWEEP_S = 300.0

_log = logging.getLogger(__name__)


class Sweeper:
    """Looks at all anchors now and then, in a thread of its own."""

    def __init__(
        self,
        keeper: Keeper,
        anchors: Callable[[], list[FoundAnchor]],
        *,
        may_sweep: Callable[[], bool],
        every_s: float,
    ) -> None:
        """`anchors` lists them all; `may_sweep` is asked before anything is removed."""
        self._keeper = keeper
        self._anchors = anchors
        self._may_sweep = may_sweep
        self._every_s = every_s
        self._empty: set[Uid] = set()
        """Anchors that were empty in the last sweep."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubernetes-sweep", daemon=True)
        self.sweeps = 0
        self.removed = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._every_s):
            try:
                self._sweep()
            except (ApiFailure, StoreUnavailableError) as failure:
                _log.info("sweep_failed %s", failure)
            self.sweeps += 1

    def _sweep(self) -> None:
        empty = self._keeper.empty_anchors(self._anchors())
        due = [found for found in empty if found.uid in self._empty]
        self._empty = {found.uid for found in empty}
        if not due or not self._may_sweep():
            return
        for found in due:
            self._keeper.remove_anchor(found)
            self._empty.discard(found.uid)
            self.removed += 1
            _log.warning("orphan_removed %s", found.order.attempt)
