"""Whether the empty cluster could hold a gang: asked at submission, lest a job waits in vain."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from scheduler.domain.gang import GangRequest, gang_request
from scheduler.domain.job import JobSpec
from scheduler.domain.placement import LevelMissing, NeverFits, Placement, PoolMissing
from scheduler.domain.topology import Level, Node, TopologyTree, topology_tree
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang

Refusal = NeverFits | PoolMissing | LevelMissing
"""Answers that no waiting changes."""

ANSWERS_MAX = 4096
"""Of gangs of different shapes; most jobs have the shape of one before them."""


class EmptyCluster:
    """The cluster as it would be with nothing running and every node in order."""

    def __init__(self, levels: Sequence[Level], nodes: Sequence[Node]) -> None:
        self.levels = tuple(levels)
        self.nodes = tuple(nodes)
        self._answers: dict[GangRequest, Refusal | None] = {}

    @property
    def is_observed(self) -> bool:
        """Whether there is a cluster to speak of."""
        return bool(self.nodes)

    def refusal(self, spec: JobSpec) -> Refusal | None:
        """Why waiting can not help; None if it can, or while no cluster has been observed.

        Not for several threads at once: looking for a place uses a scratch pad.
        """
        if not self.is_observed:
            return None
        request = gang_request(spec)
        if request not in self._answers:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            answer = place_gang(request, self._free)
            assert isinstance(answer, Refusal | Placement), (
                "an empty cluster has room or never will"
            )
            self._answers[request] = answer if isinstance(answer, Refusal) else None
        return self._answers[request]

    @cached_property
    def _free(self) -> FreeGpus:
        return FreeGpus(self._tree, [_mended(node) for node in self.nodes])

    @cached_property
    def _tree(self) -> TopologyTree:
        return topology_tree(self.levels, self.nodes)


def _mended(node: Node) -> Node:
    """A node with what may pass taken away: what others hold, taints, cordons,
    times in which it is left alone."""
    return replace(
        node,
        gpus=node.gpus + node.gpus_foreign,
        is_ready=True,
        is_cordoned=False,
        taints=(),
        exclusion=None,
    )
