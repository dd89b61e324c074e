"""What a cluster's links can do: inside a node, between nodes, and above each rack or block.

    GPU ──node links── GPU          NodeLinks.inside        (NVLink, PCIe)
    node ──NICs── rack switch       NodeLinks.nics, NetworkLinks
    rack ══uplinks══ block          FabricLevel.oversubscription

Levels are those of the topology, closest first: index 0 is `node`, 1 the first configured one.
All rates are of one direction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from scheduler.domain.ids import GpuModel, LevelName
from scheduler.domain.topology import NODE_LEVEL


class RankOrder(StrEnum):
    """How ranks are numbered over racks, which decides how often a ring enters each."""

    SORTED = "sorted"
    """Rack by rack: a ring enters each once. What the scheduler gives."""
    RANDOM = "random"
    ALTERNATING = "alternating"
    """Every neighbour is in another rack: the worst order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideLinks:
    """What joins the GPUs of one node (or of one NVLink domain), as fitted constants.

    An all-reduce takes base_s + hop_s x steps + root_s x sqrt(bytes) + wire / rate.
    """

    ring_bytes_per_s: float
    """Rate of a ring, per GPU."""
    switch_bytes_per_s: float = 0.0
    """Rate where switches add up in the network (NVLS); 0 where they do not."""
    pairwise_bytes_per_s: float = 0.0
    """Rate of an all-to-all, per GPU; 0: that of the ring."""
    base_s: float = 0.0
    """Time of the smallest collective."""
    hop_s: float = 0.0
    """Latency added by each step of a ring."""
    root_s: float = 0.0
    """Seconds per square root of a byte: what filling the pipeline costs."""
    overlap: float = 0.5
    """Share of backward behind which communication hides here, unless the job says otherwise."""

    def __post_init__(self) -> None:
        assert self.ring_bytes_per_s > 0.0
        assert 0.0 <= self.overlap <= 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLinks:
    """How the network between nodes behaves, as fitted constants of its class.

    An all-reduce over k nodes takes base_s + hop_s x log2 k + (root_s + root_hop_s x log2 k)
    x sqrt(min(bytes, root_bytes_max)) + wire / rate, where rate is `efficiency` of the NICs' and
    the roots are those of a node with `root_nic_bytes_per_s`; they grow as the root of 1 / NICs.
    """

    efficiency: float = 0.92
    """Bus rate of large messages divided by the line rate of the node's NICs."""
    two_node_factor: float = 1.0
    """The same with two nodes, divided by `efficiency`: over 1 where a tree gains, under 1 where
    few flows can not fill the NICs (TCP)."""
    switch_factor: float = 1.0
    """All-reduce rate divided by that without switches that add up (SHARP)."""
    base_s: float = 0.0
    hop_s: float = 0.0
    root_s: float = 0.0
    root_hop_s: float = 0.0
    root_bytes_max: float = inf
    root_nic_bytes_per_s: float = 0.0
    """NIC rate per node the roots were fitted at; 0: they do not depend on it."""
    ring_hop_s: float = 0.0
    """Latency of each step of a ring from node to node, where hosts copy (no RDMA)."""
    overlap: float = 0.5
    """Share of backward behind which communication hides, unless the job says otherwise."""

    def __post_init__(self) -> None:
        assert self.efficiency > 0.0
        assert self.two_node_factor > 0.0
        assert 0.0 <= self.overlap <= 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLinks:
    """The links of one type of node."""

    gpus: int
    inside: InsideLinks
    nics: int
    nic_bytes_per_s: float
    """Line rate of one NIC."""
    shares_idle_nics: bool = True
    """Whether ranks reach the NICs beside idle GPUs; else each rank only those beside its own."""
    packing_factor: float = 1.0
    """Compute time of a rank with all GPUs of its node at work, divided by that of a lone rank."""

    def __post_init__(self) -> None:
        assert self.gpus >= 1
        assert self.nics >= 0
        assert self.packing_factor >= 1.0

    @property
    def nics_bytes_per_s(self) -> float:
        """Line rate of all NICs of the node."""
        return self.nics * self.nic_bytes_per_s

    def usable_nics(self, ranks: int) -> float:
        """NICs that `ranks` ranks of one job on this node can use (q)."""
        if self.shares_idle_nics or ranks >= self.gpus:
            return self.nics
        return min(self.nics, max(1.0, self.nics * ranks / self.gpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricLevel:
    """One level above `node`: how large its domains are, and what leads out of each."""

    name: LevelName
    nodes: int
    """Nodes in one domain, when the domains are equal; the largest otherwise."""
    oversubscription: float = 1.0
    """NIC rate of the nodes of one domain divided by its uplink rate."""
    hop_s: float = 0.0
    """Latency added when a collective leaves a domain of this level."""
    uplinks: int = 0
    """Parallel uplinks over which flows are hashed (ECMP); 0: taken as one fat link."""
    is_nvlink: bool = False
    """Whether the nodes' inside links reach over the whole domain (NVL72)."""
    uplink_bytes_per_s: float = 0.0
    """Rate of the uplinks of one domain where it is known; 0: what oversubscription leaves."""

    def __post_init__(self) -> None:
        assert self.nodes >= 1
        assert self.oversubscription > 0.0
        assert self.uplink_bytes_per_s >= 0.0

    def way_out_bytes_per_s(self, node: NodeLinks) -> float:
        """Line rate out of one domain of such nodes."""
        if self.uplink_bytes_per_s:
            return self.uplink_bytes_per_s
        return self.nodes * node.nics_bytes_per_s / self.oversubscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The links of a whole cluster."""

    name: str
    source: str
    """Where the numbers come from."""
    network: NetworkLinks
    default_node: NodeLinks
    """Node type of GPU models that `nodes_by_gpu_model` does not name."""
    nodes_by_gpu_model: Mapping[GpuModel, NodeLinks] = field(default_factory=dict)
    levels: tuple[FabricLevel, ...] = ()
    """Levels above `node`, closest first; the last holds the whole cluster."""
    rank_order: RankOrder = RankOrder.SORTED
    compute_variation: float = 0.0
    """Standard deviation of a rank's compute time divided by its mean (barrier jitter)."""
    busy_kernels_factor: float = 1.0
    """Slow-down of kernels while collectives run (mu)."""
    nvlink_tier: int = field(init=False, default=0)
    """The widest level whose domains are one NVLink domain; 0 is the node."""

    def __post_init__(self) -> None:
        tiers = (tier for tier, level in enumerate(self.levels, start=1) if level.is_nvlink)
        object.__setattr__(self, "nvlink_tier", max(tiers, default=0))

    def node(self, gpu_model: GpuModel) -> NodeLinks:
        """The node type of a GPU model."""
        return self.nodes_by_gpu_model.get(gpu_model, self.default_node)

    def level_name(self, tier: int) -> LevelName:
        """Name of the level with that index; 0 is `node`."""
        return NODE_LEVEL if tier == 0 else self.levels[tier - 1].name

    @property
    def tiers(self) -> int:
        """Number of levels, `node` included."""
        return len(self.levels) + 1

    def nodes_in(self, tier: int) -> int:
        """Nodes in one domain of that level."""
        return 1 if tier == 0 else self.levels[tier - 1].nodes

    def uplink_bytes_per_s(self, tier: int, gpu_model: GpuModel) -> float:
        """What leads out of one domain of that level; infinite out of the widest."""
        node = self.node(gpu_model)
        if tier == 0:
            return node.nics_bytes_per_s
        if tier >= len(self.levels):
            return inf
        return self.levels[tier - 1].way_out_bytes_per_s(node)
