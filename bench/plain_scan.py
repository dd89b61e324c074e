"""The reference of the placement benchmark: placing by looking at every node each time.

The same rules as the engine's best fit, for gangs of one role, without any index.
"""

from collections.abc import Sequence

from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.topology import Node, TopologyTree


class PlainScan:
    """Free GPUs per node, and nothing else that is kept."""

    def __init__(self, tree: TopologyTree, nodes: Sequence[Node], free: Sequence[int]) -> None:
        self._tree = tree
        by_name = {node.name: node for node in nodes}
        self._nodes = [by_name[name] for name in tree.nodes]
        self._free = free

    def place(self, request: GangRequest) -> list[tuple[int, int]] | None:
        """Node and workers, or None if the gang does not fit."""
        role = request.roles[0]
        fits = [self._fit(index, node, role, request) for index, node in enumerate(self._nodes)]
        tightest = [
            (fit, self._free[index], index) for index, fit in enumerate(fits) if fit >= role.workers
        ]
        if tightest:
            return [(min(tightest)[2], role.workers)]
        for level in range(1, len(self._tree.levels)):
            sums = [0] * len(self._tree.domains[level])
            for index, domain in enumerate(self._tree.domain_of[level]):
                sums[domain] += fits[index]
            holding = [(fit, domain) for domain, fit in enumerate(sums) if fit >= role.workers]
            if holding:
                return self._fill(level, min(holding)[1], fits, role.workers)
        return None

    def _fit(self, index: int, node: Node, role: RoleRequest, request: GangRequest) -> int:
        if not node.is_ready or node.is_cordoned or node.taints:
            return 0
        if role.pool is not None and node.pool != role.pool:
            return 0
        if request.models and node.gpu_model not in request.models:
            return 0
        return self._free[index] // role.gpus

    def _fill(
        self, level: int, domain: int, fits: Sequence[int], workers: int
    ) -> list[tuple[int, int]]:
        """Fullest sub-domains first, level by level; the last one the tightest that is enough."""
        around = [domain]
        chosen: list[tuple[int, int]] = []
        for inner in range(level - 1, -1, -1):
            outer = self._tree.domains[inner + 1]
            rooms = [
                (sum(fits[node] for node in self._tree.domains[inner][child].nodes), child)
                for parent in around
                for child in outer[parent].children
            ]
            chosen = _fewest(rooms, workers)
            around = [child for child, _ in chosen]
        return chosen


def _fewest(rooms: list[tuple[int, int]], workers: int) -> list[tuple[int, int]]:
    rooms.sort(key=lambda room: (-room[0], room[1]))
    chosen: list[tuple[int, int]] = []
    while workers:
        room, child = rooms.pop(0)
        if room >= workers:
            room, child = min([(room, child), *(r for r in rooms if r[0] >= workers)])
            return [*chosen, (child, workers)]
        chosen.append((child, room))
        workers -= room
    return chosen
