"""Whether anything besides GPUs decides how many workers of a need fit on a node.

Where CPUs, memory and seats are handed out in proportion to GPUs, they never do: then all needs
of so many GPUs share their counts, whatever else they ask for.
"""

from collections.abc import Iterable, Sequence
from math import inf

from scheduler.domain.resources import Resources
from scheduler.engine.free_nodes import FreeNodes


class Proportion:
    """The least of everything else that stands beside a free GPU on any of some nodes.

    Kept as a bound that may be too low: it follows what is taken, and is worked out anew when a
    need fails it that did not before.
    """

    def __init__(self, free: FreeNodes, allowed: Sequence[bool]) -> None:
        self._free = free
        self._allowed = allowed
        self._seen = -1
        self._exact_at = -1
        self._cpu_milli = self._memory_bytes = self._seats = inf

    def covers(self, gpus: int, resources: Resources) -> bool:
        """Whether workers of so many GPUs surely find all else wherever they find the GPUs."""
        if resources.extended:
            return False
        free = self._free
        start = self._seen - free.log_start
        if start != len(free.log):
            if start < 0:
                self._work_out()
            else:
                self._lower(free.log[start:])
            self._seen = free.log_start + len(free.log)
        if self._is_enough(gpus, resources):
            return True
        if self._seen - self._exact_at <= len(self._allowed) // 8:
            return False
        self._work_out()
        return self._is_enough(gpus, resources)

    def _is_enough(self, gpus: int, resources: Resources) -> bool:
        return (
            resources.cpu_milli <= gpus * self._cpu_milli
            and resources.memory_bytes <= gpus * self._memory_bytes
            and gpus * self._seats >= 1
        )

    def _work_out(self) -> None:
        self._cpu_milli = self._memory_bytes = self._seats = inf
        self._lower(range(len(self._free.nodes)))
        self._exact_at = self._free.log_start + len(self._free.log)

    def _lower(self, nodes: Iterable[int]) -> None:
        free, allowed = self._free, self._allowed
        all_gpus, all_cpu, all_memory, all_seats = (
            free.gpus,
            free.cpu_milli,
            free.memory_bytes,
            free.seats,
        )
        cpu, memory, seats = self._cpu_milli, self._memory_bytes, self._seats
        for node in nodes:
            gpus = all_gpus[node]
            if gpus > 0 and allowed[node]:
                # Multiplied and compared first: dividing is the exception.
                if all_cpu[node] < cpu * gpus:
                    cpu = all_cpu[node] / gpus
                if all_memory[node] < memory * gpus:
                    memory = all_memory[node] / gpus
                if all_seats[node] < seats * gpus:
                    seats = all_seats[node] / gpus
        self._cpu_milli, self._memory_bytes, self._seats = cpu, memory, seats


class Slack:
    """Watches one need on the nodes it may use."""

    def __init__(
        self,
        free: FreeNodes,
        gpus: int,
        resources: Resources,
        allowed: Sequence[bool],
        proportion: Proportion,
    ) -> None:
        assert gpus > 0
        self._free = free
        self._gpus = gpus
        self._resources = resources
        self._allowed = allowed
        self._proportion = proportion
        self._is_bound: list[bool] = []
        """Per node; empty as long as proportion settles it."""
        self._nodes_bound = 0
        self._seen = -1

    def binds(self) -> bool:
        """Whether on any node something else than GPUs binds."""
        if self._proportion.covers(self._gpus, self._resources):
            return False
        free = self._free
        now = free.log_start + len(free.log)
        if not self._is_bound:
            self._is_bound = [False] * len(free.nodes)
        if self._seen != now:
            self._update(free.changed_since(self._seen))
            self._seen = now
        return self._nodes_bound > 0

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
                or (bool(extended_each) and self._lacks(node, fit))
            )
            if is_bound is not bound[node]:
                bound[node] = is_bound
                self._nodes_bound += 1 if is_bound else -1

    def _lacks(self, node: int, workers: int) -> bool:
        extended = self._free.extended[node]
        return any(
            extended.get(name, 0) < workers * amount for name, amount in self._resources.extended
        )
