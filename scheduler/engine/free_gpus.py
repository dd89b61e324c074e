"""The scratch pad of decisions: what is free, with counts that many requests share."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from scheduler.domain.gang import NodeFilter
from scheduler.domain.ids import GpuModel, PoolName
from scheduler.domain.resources import NOTHING, plus
from scheduler.domain.topology import Node, TopologyTree
from scheduler.engine.counting import PLAIN, FitCounts, GpuCounts, GpuOrder, Grouping, Need
from scheduler.engine.free_nodes import FreeNodes

_COUNTS_KEPT = 128
"""Needs whose counts are kept up to date; the one that was asked for longest ago goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """Which nodes a role may use, whatever is free."""

    pool: PoolName | None
    models: tuple[GpuModel, ...] | None
    """None where the model does not matter."""
    filters: tuple[NodeFilter, ...] = ()

    def unfit(self, node: Node) -> str:
        """Why no worker may use the node; empty if one may."""
        if not node.is_ready:
            return "NotReady"
        if node.is_cordoned:
            return "Cordoned"
        if node.taints:
            return "Tainted"
        if self.pool is not None and node.pool != self.pool:
            return "OtherPool"
        if self.models is not None and (node.gpus == 0 or node.gpu_model not in self.models):
            return "OtherGpuModel" if node.gpus else "NoGpus"
        return next((rule.reason for rule in self.filters if node.name not in rule.allowed), "")


class FreeGpus(FreeNodes):
    """GPUs and other resources that nobody holds. The one mutable thing of a cycle."""

    def __init__(self, tree: TopologyTree, nodes: Iterable[Node]) -> None:
        super().__init__(tree, nodes)
        self._allowed: dict[Eligible, tuple[bool, ...]] = {}
        self._unfit: dict[Eligible, Counter[str]] = {}
        self._orders: dict[Eligible, GpuOrder] = {}
        self._counts: dict[tuple[Eligible, Need, Grouping, bool], FitCounts] = {}
        self._empty: FreeGpus | None = None

    def allowed(self, eligible: Eligible) -> tuple[bool, ...]:
        """Per node: whether workers may use it."""
        found = self._allowed.get(eligible)
        if found is None:
            reasons = [eligible.unfit(node) for node in self.nodes]
            found = tuple(not reason for reason in reasons)
            self._allowed[eligible] = found
            self._unfit[eligible] = Counter(reason for reason in reasons if reason)
        return found

    def unfit(self, eligible: Eligible) -> Mapping[str, int]:
        """How many nodes may not be used, by reason."""
        self.allowed(eligible)
        return self._unfit[eligible]

    def order(self, eligible: Eligible) -> GpuOrder:
        """Nodes by free GPUs, up to date."""
        found = self._orders.get(eligible)
        if found is None:
            found = GpuOrder(self, self.allowed(eligible))
            self._orders[eligible] = found
        found.refresh()
        return found

    def counts(self, eligible: Eligible, need: Need, grouping: Grouping = PLAIN) -> FitCounts:
        """How many workers fit where, up to date."""
        only_gpus = self.only_gpus_bind(need) and grouping.is_plain
        key = (eligible, need, grouping, only_gpus)
        found = self._counts.get(key)
        if found is None:
            kind = GpuCounts if only_gpus else FitCounts
            found = kind(self, need, self.allowed(eligible), grouping)
            if len(self._counts) >= _COUNTS_KEPT:
                del self._counts[min(self._counts, key=lambda old: self._counts[old].seen)]
            self._counts[key] = found
        found.refresh()
        return found

    def only_gpus_bind(self, need: Need) -> bool:
        """Whether GPUs alone decide how many workers fit on any node."""
        return need.gpus > 0 and need.resources is NOTHING and not self.seats_short

    def empty(self) -> "FreeGpus":
        """The same cluster with nobody on it and every node in order."""
        if self._empty is None:
            self._empty = FreeGpus(self.tree, (_in_order(node) for node in self.nodes))
        return self._empty


def _in_order(node: Node) -> Node:
    """The node with nobody on it, us and others, and fit for use."""
    return replace(
        node,
        gpus=node.gpus + node.gpus_foreign,
        gpus_foreign=0,
        resources=plus(node.resources, node.resources_foreign),
        resources_foreign=NOTHING,
        is_ready=True,
        is_cordoned=False,
        taints=(),
    )
