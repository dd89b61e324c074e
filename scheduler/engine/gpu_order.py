"""Nodes in the order of their free GPUs: one order for every need that only GPUs bind."""

from collections.abc import Iterable, Sequence

from scheduler.engine.buckets import Buckets
from scheduler.engine.free_nodes import FreeNodes

GANGS_MAX = 15
"""So many and more gangs on an uplink count as equal."""

GANGS = GANGS_MAX + 1
"""Keys are amount x GANGS + gangs on the uplink: one whole number that sorts like the pair."""


class GpuOrder:
    """Nodes by free GPUs, for every need that only GPUs bind: all such needs share one order."""

    def __init__(self, free: FreeNodes, allowed: Sequence[bool]) -> None:
        self._free = free
        self._allowed = allowed
        self.buckets = Buckets(len(free.nodes))
        self.seen = -1

    def refresh(self) -> None:
        """Take in what has changed since the last call."""
        free = self._free
        now = free.log_start + len(free.log)
        if self.seen != now:
            self._update(free.changed_since(self.seen))
            self.seen = now

    def nodes_with(self, gpus: int) -> int:
        """How many nodes have at least so many free GPUs."""
        bound, buckets = gpus * GANGS, self.buckets
        return sum(buckets.size(key) for key in buckets.keys if key >= bound)

    def gpus_most(self) -> int:
        """The most free GPUs on one node."""
        return self.buckets.keys[-1] // GANGS if self.buckets.keys else 0

    def _update(self, nodes: Iterable[int]) -> None:
        gpus, uplinks, allowed = self._free.gpus, self._free.uplinks[0], self._allowed
        key_of, move = self.buckets.key_of, self.buckets.move
        for node in nodes:
            if allowed[node]:
                have, gangs = gpus[node], uplinks[node]
                gangs = gangs if gangs < GANGS_MAX else GANGS_MAX
                key = have * GANGS + gangs if have > 0 else -1
                if key != key_of[node]:
                    move(node, key)
