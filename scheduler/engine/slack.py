"""Whether anything besides GPUs decides how many workers of a need fit on a node.

Where CPUs, memory and seats are handed out in proportion to GPUs, they never do: then all needs
of so many GPUs share their counts, whatever else they ask for.
"""

from collections.abc import Iterable, Sequence

from scheduler.domain.resources import Resources
from scheduler.engine.free_nodes import FreeNodes


class Slack:
    """Watches one need on the nodes it may use."""

    def __init__(
        self, free: FreeNodes, gpus: int, resources: Resources, allowed: Sequence[bool]
    ) -> None:
        assert gpus > 0
        self._free = free
        self._gpus = gpus
        self._resources = resources
        self._allowed = allowed
        self._is_bound = [False] * len(free.nodes)
        self._seen = -1
        self.nodes_bound = 0
        """Nodes on which something else than GPUs binds."""

    def refresh(self) -> None:
        """Take in what has changed since the last call."""
        free = self._free
        log = free.log
        start = self._seen - free.log_start
        if start != len(log):
            is_far_behind = start < 0 or len(log) - start > len(free.nodes)
            self._update(range(len(free.nodes)) if is_far_behind else log[start:])
            self._seen = free.log_start + len(log)

    def _update(self, nodes: Iterable[int]) -> None:
        free, need, allowed, bound = self._free, self._gpus, self._allowed, self._is_bound
        gpus, seats, cpu, memory = free.gpus, free.seats, free.cpu_milli, free.memory_bytes
        cpu_each, memory_each = self._resources.cpu_milli, self._resources.memory_bytes
        extended_each = self._resources.extended
        for node in nodes:
            fit = gpus[node] // need if allowed[node] else 0
            is_bound = fit > 0 and (
                seats[node] < fit
                or cpu[node] < fit * cpu_each
                or memory[node] < fit * memory_each
                or (
                    bool(extended_each)
                    and any(
                        free.extended[node].get(name, 0) < fit * amount
                        for name, amount in extended_each
                    )
                )
            )
            if is_bound is not bound[node]:
                bound[node] = is_bound
                self.nodes_bound += 1 if is_bound else -1
