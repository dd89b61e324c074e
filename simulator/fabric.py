"""The fabric of a simulated cluster: a preset's links on the topology file's levels.

Congestion divides what leads out of racks and wider domains; inside a rack nothing changes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from scheduler.domain.ids import GpuModel
from scheduler.domain.topology import CLUSTER_LEVEL
from scheduler.network.fabric import Fabric, FabricLevel, NodeLinks
from scheduler.network.presets import PRESETS, preset_for
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
    """The links of the cluster. TopologyError if its preset is not known."""
    preset = _preset(topology)
    return replace(
        preset,
        default_node=_as_large(preset.default_node, topology.gpus_per_node_max),
        nodes_by_gpu_model=dict(_node_types(topology, preset)),
        levels=tuple(_levels(topology, preset, options.congestion)),
        compute_variation=options.jitter,
    )


def main_gpu_model(topology: Topology) -> GpuModel:
    """The model most GPUs are of; its name breaks ties."""
    gpus: Counter[GpuModel] = Counter()
    for group in topology.groups:
        gpus[group.gpu_model] += group.count * group.gpus
    return min(gpus, key=lambda model: (-gpus[model], model))


def _preset(topology: Topology) -> Fabric:
    if not topology.fabric:
        return preset_for(main_gpu_model(topology))
    return _named(topology, topology.fabric, field="fabric")


def _named(topology: Topology, name: str, *, field: str) -> Fabric:
    preset = PRESETS.get(name)
    if preset is None:
        known = ", ".join(sorted(PRESETS))
        detail = f"no preset is named {name!r}; there are {known}"
        raise TopologyError(topology.name, 0, detail, field=field)
    return preset


def _node_types(topology: Topology, preset: Fabric) -> Iterator[tuple[GpuModel, NodeLinks]]:
    """The preset's node, as large as the largest one of each GPU model.

    Where no preset is named, other models than the main one have the usual nodes of their own.
    """
    sizes: dict[GpuModel, int] = {}
    for group in topology.groups:
        sizes[group.gpu_model] = max(group.gpus, sizes.get(group.gpu_model, 1))
    for model, gpus in sorted(sizes.items()):
        links = preset if topology.fabric else preset_for(model)
        yield model, _as_said(topology, model, _as_large(links.default_node, gpus))


def _as_said(topology: Topology, model: GpuModel, usual: NodeLinks) -> NodeLinks:
    for place, said in enumerate(topology.links):
        if said.gpu_model != model:
            continue
        if said.fabric:
            named = _named(topology, said.fabric, field=f"links[{place}].fabric")
            usual = _as_large(named.default_node, usual.gpus)
        return replace(
            usual,
            nics=usual.nics if said.nics is None else said.nics,
            nic_bytes_per_s=said.nic_bytes_per_s or usual.nic_bytes_per_s,
        )
    return usual


def _as_large(node: NodeLinks, gpus: int) -> NodeLinks:
    return replace(node, gpus=max(1, gpus))


def _levels(topology: Topology, preset: Fabric, congestion: float) -> Iterator[FabricLevel]:
    known: Mapping[str, FabricLevel] = {level.name: level for level in preset.levels}
    for level in topology.levels:
        like = known.get(level.name)
        is_nvlink = level.is_nvlink
        if is_nvlink is None:
            is_nvlink = like is not None and like.is_nvlink
        divisor = 1.0 if is_nvlink else congestion
        hop_s = level.latency_s
        if hop_s is None:
            hop_s = like.hop_s if like is not None else 0.0
        yield FabricLevel(
            name=level.name,
            nodes=level.nodes,
            oversubscription=level.oversubscription * divisor,
            hop_s=hop_s,
            uplinks=level.uplinks,
            is_nvlink=is_nvlink,
            uplink_bytes_per_s=level.bandwidth / divisor,
        )
    nodes = sum(group.count for group in topology.groups)
    yield FabricLevel(name=CLUSTER_LEVEL, nodes=nodes)
