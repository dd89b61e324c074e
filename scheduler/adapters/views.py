"""An executor's last word on its gangs, kept so that a look at it is cheap from any thread."""

import threading
from collections import Counter
from collections.abc import Iterable

from scheduler.domain.reservation import AttemptKey
from scheduler.domain.topology import Level, Node
from scheduler.ports.cluster import ClusterView, WorkerReport


class Views:
    """Reports by gang, with the sequence of each gang's last change."""

    def __init__(self, levels: tuple[Level, ...], nodes: tuple[Node, ...]) -> None:
        self._levels = levels
        self._nodes = nodes
        self._lock = threading.Lock()
        self._sequence = 0
        self._reports: dict[AttemptKey, tuple[WorkerReport | None, ...]] = {}
        self._changed: dict[AttemptKey, int] = {}
        """Sequence of each gang's last change, latest last."""
        self._asked: Counter[AttemptKey] = Counter()
        """Requests that are not worked off, by gang."""
        self._in_making: frozenset[AttemptKey] = frozenset()

    def ask(self, attempt: AttemptKey) -> None:
        """Something is about to be asked of a gang: no view speaks for it till that is done."""
        with self._lock:
            self._asked[attempt] += 1

    def settle(self, done: Iterable[AttemptKey], in_making: frozenset[AttemptKey]) -> bool:
        """The requests of these gangs are done, and `put` tells what came of them; whether a view
        speaks for any gang that none did before."""
        with self._lock:
            before = self._in_making.union(self._asked)
            self._in_making = in_making
            self._asked -= Counter(done)
            return not before <= self._in_making.union(self._asked)

    def put(self, attempt: AttemptKey, reports: tuple[WorkerReport | None, ...]) -> bool:
        """Note a gang's reports, None for ranks not made; whether that is news."""
        with self._lock:
            if self._reports.get(attempt) == reports:
                return False
            self._reports[attempt] = reports
            self._sequence += 1
            self._changed.pop(attempt, None)
            self._changed[attempt] = self._sequence
            return True

    def drop(self, attempt: AttemptKey) -> None:
        """Speak of a gang no more."""
        with self._lock:
            self._reports.pop(attempt, None)
            self._changed.pop(attempt, None)

    def set_nodes(self, levels: tuple[Level, ...], nodes: tuple[Node, ...]) -> None:
        """The levels and nodes there are now; the same tuples while nothing has changed."""
        with self._lock:
            self._levels, self._nodes = levels, nodes

    def view(
        self, after: int | None, *, is_reachable: bool = True, is_complete: bool = True
    ) -> ClusterView:
        """Everything, or what has changed."""
        with self._lock:
            levels, nodes = self._levels, self._nodes
            attempts = sorted(self._changed_after(after))
            reports = {attempt: self._reports[attempt] for attempt in attempts}
            sequence = self._sequence
            unsettled = self._in_making.union(self._asked)
        return ClusterView(
            levels=levels,
            nodes=nodes,
            workers=tuple(r for gang in reports.values() for r in gang if r is not None),
            is_reachable=is_reachable,
            attempts_complete=frozenset(a for a, gang in reports.items() if None not in gang),
            is_complete=is_complete,
            attempts_unsettled=unsettled,
            sequence=sequence,
        )

    def _changed_after(self, after: int | None) -> list[AttemptKey]:
        if after is not None and after > self._sequence:
            after = None  # It was told by an earlier executor.
        changed: list[AttemptKey] = []
        for attempt, sequence in reversed(self._changed.items()):
            if after is not None and sequence <= after:
                break
            changed.append(attempt)
        return changed
