"""The fabric of a cluster, live or simulated: its levels and sizes, links as said or as is usual.

network between nodes    the named preset; else the usual one of the main GPU model
nodes of the preset's    as the preset has them. "The preset's" are the nodes of its GPU family,
                         h100-roce: all H100; where there are none, those of the main GPU model
all other nodes          as usual for their GPU model
any node                 what `links` says of its GPU model wins
a level                  what the topology says of it; what it leaves open, as the preset's
                         level of that name
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from scheduler.domain.ids import GpuModel
from scheduler.domain.links import FabricPlan
from scheduler.domain.topology import CLUSTER_LEVEL, Level, Node
from scheduler.network.fabric import Fabric, FabricLevel, NodeLinks
from scheduler.network.model_timing import gpu_family
from scheduler.network.presets import PRESETS, preset_for

USUAL = FabricPlan()
"""Nothing is said: the usual links of each GPU model."""


def fabric_of_cluster(
    levels: Sequence[Level], nodes: Sequence[Node], plan: FabricPlan = USUAL
) -> Fabric:
    """Levels (closest first) and nodes, with the links that `plan` names."""
    main_model = main_gpu_model(nodes)
    preset = PRESETS[plan.preset] if plan.preset else preset_for(main_model)
    models = sorted({node.gpu_model for node in nodes})
    named = {model for model in models if gpu_family(model) == _family(preset)} or {main_model}
    types = {
        model: _node_type(model, nodes, plan, preset if model in named else preset_for(model))
        for model in models
    }
    return replace(
        preset,
        default_node=types.get(main_model, preset.default_node),
        nodes_by_gpu_model=types,
        levels=_levels(levels, nodes, preset),
    )


def main_gpu_model(nodes: Sequence[Node]) -> GpuModel:
    """The model most GPUs are of; its name breaks ties."""
    gpus: Counter[GpuModel] = Counter()
    for node in nodes:
        gpus[node.gpu_model] += node.gpus
    return min(gpus, key=lambda model: (-gpus[model], model), default=GpuModel(""))


def _family(preset: Fabric) -> GpuModel:
    """The GPUs a preset is of, which its name begins with."""
    return gpu_family(preset.name.split("-")[0])


def _node_type(
    model: GpuModel, nodes: Sequence[Node], plan: FabricPlan, usual: Fabric
) -> NodeLinks:
    """The preset's node, as large as the largest such node, with the NICs that are said."""
    said = plan.of(model)
    links = (PRESETS[said.fabric] if said.fabric else usual).default_node
    largest = max((node.gpus for node in nodes if node.gpu_model == model), default=1)
    return replace(
        links,
        gpus=max(1, largest),
        nics=links.nics if said.nics is None else said.nics,
        nic_bytes_per_s=said.nic_bytes_per_s or links.nic_bytes_per_s,
    )


def _levels(
    levels: Sequence[Level], nodes: Sequence[Node], preset: Fabric
) -> tuple[FabricLevel, ...]:
    known = {level.name: level for level in preset.levels}
    found = []
    for place, level in enumerate(levels):
        # Paths are widest first, levels closest first.
        width = len(levels) - place
        sizes = Counter(node.path[:width] for node in nodes)
        uplink = level.uplink
        usual = known.get(level.name, FabricLevel(name=level.name, nodes=1))
        found.append(
            FabricLevel(
                name=level.name,
                nodes=max(sizes.values(), default=1),
                oversubscription=uplink.oversubscription,
                hop_s=usual.hop_s if uplink.latency_s is None else uplink.latency_s,
                uplinks=uplink.parallel,
                is_nvlink=usual.is_nvlink if uplink.is_nvlink is None else uplink.is_nvlink,
                uplink_bytes_per_s=uplink.bytes_per_s,
            )
        )
    found.append(FabricLevel(name=CLUSTER_LEVEL, nodes=max(1, len(nodes))))
    return tuple(found)
