"""Assignments and placements that are kept: making them costs more than finding a node."""

from collections.abc import Iterable, Sequence

from scheduler.domain.ids import LevelName, NodeName, RoleName
from scheduler.domain.placement import Assignment, Placement
from scheduler.domain.topology import NODE_LEVEL

KEPT_MAX = 200_000
"""After so many records all are forgotten."""

LonePlacements = dict[int, Placement]
"""Placements of a whole gang on one node, by the node's number."""

_Kind = tuple[RoleName, int]
"""A role and its workers on a node."""

_Wide = tuple[RoleName, int, tuple[tuple[int, int], ...]]
"""A role, the tier of its placement, and nodes with the workers on them."""


class Records:
    """The records of one cluster: the same object for the same facts."""

    def __init__(self, nodes: tuple[NodeName, ...]) -> None:
        self._nodes = nodes
        self._assignments: dict[_Kind, dict[int, Assignment]] = {}
        self._placements: dict[_Kind, LonePlacements] = {}
        self._wide: dict[_Wide, Placement] = {}
        self._kept = 0

    def assignments(
        self, role: RoleName, spots: Iterable[tuple[int, int]]
    ) -> tuple[Assignment, ...]:
        """Workers of a role on nodes, each a pair of the node's number and the workers on it."""
        found: list[Assignment] = []
        known: dict[int, Assignment] = {}
        workers_known = 0
        for node, workers in spots:
            if workers != workers_known:
                known, workers_known = self._assignments.setdefault((role, workers), {}), workers
            found.append(known.get(node) or self._assignment(role, node, workers))
        return tuple(found)

    def lone_placements(self, role: RoleName, workers: int) -> LonePlacements:
        """Those of so many workers of a role that there are; `lone_placement` makes more."""
        return self._placements.setdefault((role, workers), {})

    def lone_placement(self, role: RoleName, node: int, workers: int) -> Placement:
        """All workers of a gang of one role on one node, made anew."""
        self._make_room()
        found = Placement(
            assignments=self.assignments(role, [(node, workers)]), tier=0, tier_name=NODE_LEVEL
        )
        self.lone_placements(role, workers)[node] = found
        return found

    def wide_placement(
        self, role: RoleName, spots: Sequence[tuple[int, int]], tier: int, tier_name: LevelName
    ) -> Placement:
        """All workers of a gang of one role on these nodes."""
        key = (role, tier, tuple(spots))
        found = self._wide.get(key)
        if found is None:
            # It takes as much memory as so many small ones.
            self._make_room(len(spots))
            found = self._wide[key] = Placement(
                assignments=self.assignments(role, spots), tier=tier, tier_name=tier_name
            )
        return found

    def _assignment(self, role: RoleName, node: int, workers: int) -> Assignment:
        self._make_room()
        found = Assignment(role=role, node=self._nodes[node], workers=workers)
        self._assignments[role, workers][node] = found
        return found

    def _make_room(self, records: int = 1) -> None:
        """For so many more. The dicts stay: others have them at hand."""
        if self._kept >= KEPT_MAX:
            for assignments in self._assignments.values():
                assignments.clear()
            for placements in self._placements.values():
                placements.clear()
            self._wide.clear()
            self._kept = 0
        self._kept += records
