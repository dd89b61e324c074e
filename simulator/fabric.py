"""The fabric of a simulated cluster: that of a live one with its nodes, under a run's assumptions.

Congestion divides what leads out of racks and wider domains; inside a rack nothing changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduler.domain.links import FabricPlan
from scheduler.network.cluster_fabric import fabric_of_cluster
from scheduler.network.fabric import Fabric, FabricLevel
from scheduler.network.presets import PRESETS
from simulator.errors import TopologyError
from simulator.topology_file import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """What a run assumes of the network beside the topology file."""

    congestion: float = 1.0
    """Divides the capacity above the rack switches."""
    jitter: float = 0.0
    """Standard deviation of a worker's compute time / its mean; a barrier waits for the slowest."""

    def __post_init__(self) -> None:
        assert self.congestion > 0
        assert self.jitter >= 0


def fabric_of(topology: Topology, options: NetworkOptions) -> Fabric:
    """The links of the cluster. TopologyError if a preset is not known."""
    _check_presets(topology)
    plan = FabricPlan(preset=topology.fabric, nodes=topology.links)
    fabric = fabric_of_cluster(topology.domain_levels(), topology.nodes(), plan)
    return replace(
        fabric,
        levels=tuple(_congested(level, options.congestion) for level in fabric.levels),
        compute_variation=options.jitter,
    )


def _check_presets(topology: Topology) -> None:
    for field, name in _presets(topology):
        if name and name not in PRESETS:
            known = ", ".join(sorted(PRESETS))
            detail = f"no preset is named {name!r}; there are {known}"
            raise TopologyError(topology.name, 0, detail, field=field)


def _presets(topology: Topology) -> Iterator[tuple[str, str]]:
    """Every preset that is named, and where."""
    yield "fabric", topology.fabric
    for place, said in enumerate(topology.links):
        yield f"links[{place}].fabric", said.fabric


def _congested(level: FabricLevel, congestion: float) -> FabricLevel:
    """An NVLink domain has no switches to share, and nothing leads out of the whole cluster."""
    if level.is_nvlink:
        return level
    return replace(
        level,
        oversubscription=level.oversubscription * congestion,
        uplink_bytes_per_s=level.uplink_bytes_per_s / congestion,
    )
