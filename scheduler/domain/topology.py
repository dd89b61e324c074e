"""Levels, nodes and the tree of topology domains: static, built once per node generation, shared.

levels (closest first):  node < rack < block < cluster
a node's path:           ("b1", "r7")  = its block and its rack, widest first
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.domain.ids import GpuModel, LevelName, NodeName, PoolName
from scheduler.domain.resources import NOTHING, Resources

NODE_LEVEL = LevelName("node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One rung of the topology. `node` is implicit, the first and needs no label."""

    name: LevelName
    label: str = ""
    """Key of the node label whose value names the domain at this level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine as the cluster reports it."""

    name: NodeName
    gpus: int
    """GPUs that our workers may use when the node is empty (foreign use already subtracted)."""
    gpu_model: GpuModel = GpuModel("")
    resources: Resources = NOTHING
    path: tuple[str, ...] = ()
    """Domain value per level above `node`, widest first; "" where the label is missing."""
    labels: Mapping[str, str] = field(default_factory=dict)
    pool: PoolName = PoolName("default")
    is_ready: bool = True
    is_cordoned: bool = False
    unready_reason: str = ""

    def __post_init__(self) -> None:
        assert self.gpus >= 0, self.name
