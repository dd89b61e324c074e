"""The scratch pad of decisions: what is free, with counts that many requests share."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from scheduler.domain.gang import GangRequest
from scheduler.domain.placement import LevelMissing, PoolMissing
from scheduler.domain.resources import NOTHING, plus
from scheduler.domain.topology import Node, TopologyDomain, TopologyTree
from scheduler.engine.asking import Ask, ask_of
from scheduler.engine.counting import PLAIN, FitCounts, GpuCounts, Grouping, Need
from scheduler.engine.eligible import Eligible
from scheduler.engine.free_nodes import FreeNodes
from scheduler.engine.gpu_order import GpuOrder
from scheduler.engine.records import LonePlacements, Records
from scheduler.engine.slack import Proportion, Slack

_COUNTS_KEPT = 128
"""Needs whose counts are kept up to date; the one that was asked for longest ago goes first."""

_REQUESTS_KEPT = 20_000
"""Requests that are kept ready; after so many different ones all are made ready anew."""

Mark = tuple[tuple[FitCounts, int], ...]
"""Counts, and how often each has changed."""


@dataclass(slots=True)
class Ready:
    """A request made ready, with the counts it needs at hand."""

    ask: Ask | PoolMissing | LevelMissing
    is_plain: bool
    """Whether its answer can be read off the counts."""
    counts: tuple[FitCounts, ...] = ()
    """Of the main role, per choice of models; not up to date."""
    slacks: tuple[Slack, ...] = ()
    """What else may bind the main role, per choice; empty where nothing can."""
    bound: tuple[bool, ...] = ()
    """Whether it did, when the counts were looked up."""
    alone: LonePlacements = field(default_factory=dict)
    """Of the whole gang, where it is plain."""
    generation: int = -1
    """Of the pad's counts when these were looked up."""
    could_ever: bool | None = None
    """Whether the empty cluster holds the gang, or may; None until someone asks."""
    could_hold: tuple[TopologyDomain, ...] | None = None
    """Domains of its closest tier that hold it with nobody on them; None until someone asks."""


class FreeGpus(FreeNodes):
    """GPUs and other resources that nobody holds. The one mutable thing of a cycle."""

    def __init__(self, tree: TopologyTree, nodes: Iterable[Node]) -> None:
        super().__init__(tree, nodes)
        self._pools = frozenset(node.pool for node in self.nodes)
        self._ready: dict[GangRequest, Ready] = {}
        self._allowed: dict[Eligible, tuple[bool, ...]] = {}
        self._unfit: dict[Eligible, Counter[str]] = {}
        self._orders: dict[Eligible, GpuOrder] = {}
        self._counts: dict[tuple[Eligible, Need, Grouping, bool], FitCounts] = {}
        self._slacks: dict[tuple[Eligible, Need], Slack] = {}
        self._proportions: dict[Eligible, Proportion] = {}
        self._generation = 0
        self.records = Records(tree.nodes)
        self._empty: FreeGpus | None = None
        self._bare: FreeGpus | None = None

    def ready(self, request: GangRequest) -> Ready:
        """The request in the numbers of this cluster, with counts where it is plain."""
        found = self._ready.get(request)
        if found is None:
            ask = ask_of(request, self.tree, models=self.models, pools=self._pools)
            if len(self._ready) >= _REQUESTS_KEPT:
                self._ready.clear()
                self.records = Records(self.tree.nodes)
            found = Ready(ask=ask, is_plain=isinstance(ask, Ask) and ask.is_plain)
            self._ready[request] = found
        if found.generation != self._generation or (
            found.slacks and found.bound != tuple([slack.binds() for slack in found.slacks])
        ):
            self._look_up(found)
        return found

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

    def counts(self, eligible: Eligible, need: Need, grouping: Grouping = PLAIN) -> FitCounts:
        """How many workers fit where, up to date."""
        found = self.stale_counts(eligible, need, grouping)
        found.refresh()
        return found

    def stale_counts(self, eligible: Eligible, need: Need, grouping: Grouping) -> FitCounts:
        """The same counts, not brought up to date."""
        only_gpus = grouping.is_plain and self.only_gpus_bind(eligible, need)
        if only_gpus:
            need = Need(gpus=need.gpus)
        key = (eligible, need, grouping, only_gpus)
        found = self._counts.get(key)
        if found is None:
            if len(self._counts) >= _COUNTS_KEPT:
                self._drop_oldest()
            found = self._counts[key] = self._made(eligible, need, grouping, only_gpus=only_gpus)
        return found

    def only_gpus_bind(self, eligible: Eligible, need: Need) -> bool:
        """Whether GPUs alone decide at present how many workers fit on any node."""
        slack = self._slack(eligible, need)
        return need.gpus > 0 and (slack is None or not slack.binds())

    def mark(self, request: GangRequest) -> Mark | None:
        """What a refusal of the request is read off: while it is equal, the refusal is too.

        None where more than counts decides: then any change may make it another.
        """
        ask = self.ready(request).ask
        if not isinstance(ask, Ask):
            return ()
        if not ask.is_plain:
            return None
        role = ask.roles[0]
        told = self.counts(role.eligible_any, role.need)
        counts = (*self.ready(request).counts, told)
        for each in counts:
            each.refresh()
        return tuple([(each, each.changes) for each in counts])

    def empty(self) -> "FreeGpus":
        """The same cluster with nobody on it and every node in order."""
        if self._empty is None:
            self._empty = FreeGpus(self.tree, (_in_order(node) for node in self.nodes))
        return self._empty

    def bare(self) -> "FreeGpus":
        """The same nodes, in whatever order they are, with nobody on them."""
        if self._bare is None:
            self._bare = FreeGpus(self.tree, self.nodes)
        return self._bare

    def _slack(self, eligible: Eligible, need: Need) -> Slack | None:
        """What watches whether something else than GPUs binds; None where nothing can."""
        if not need.gpus or (need.resources is NOTHING and not self.counts_seats):
            return None
        key = (eligible, need)
        found = self._slacks.get(key)
        if found is None:
            allowed = self.allowed(eligible)
            proportion = self._proportions.get(eligible)
            if proportion is None:
                proportion = self._proportions[eligible] = Proportion(self, allowed)
            if len(self._slacks) >= _REQUESTS_KEPT:
                self._slacks.clear()
            found = Slack(self, need.gpus, need.resources, allowed, proportion)
            self._slacks[key] = found
        return found

    def _look_up(self, found: Ready) -> None:
        """Find the counts of a plain request."""
        ask = found.ask
        if isinstance(ask, Ask) and ask.is_plain:
            mains = [gang.main for gang in ask.choices]
            found.counts = tuple(
                self.stale_counts(main.eligible, main.need, main.grouping) for main in mains
            )
            slacks = [self._slack(main.eligible, main.need) for main in mains]
            found.slacks = tuple(slack for slack in slacks if slack is not None)
            found.bound = tuple(slack.binds() for slack in found.slacks)
            role = ask.request.roles[0]
            found.alone = self.records.lone_placements(role.name, role.workers)
        found.generation = self._generation

    def _made(
        self, eligible: Eligible, need: Need, grouping: Grouping, *, only_gpus: bool
    ) -> FitCounts:
        allowed = self.allowed(eligible)
        if not only_gpus:
            return FitCounts(self, need, allowed, grouping)
        order = self._orders.get(eligible)
        if order is None:
            order = self._orders[eligible] = GpuOrder(self, allowed)
        return GpuCounts(self, need, allowed, order)

    def _drop_oldest(self) -> None:
        """Forget the counts that were asked for longest ago, and what leads to them."""
        oldest = min(self._counts, key=lambda key: self._counts[key].seen)
        del self._counts[oldest]
        self._generation += 1
        in_use = {key[0] for key in self._counts}
        for eligible in [known for known in self._allowed if known not in in_use]:
            del self._allowed[eligible], self._unfit[eligible]
            self._orders.pop(eligible, None)
            self._proportions.pop(eligible, None)


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
        exclusion=None,
    )
