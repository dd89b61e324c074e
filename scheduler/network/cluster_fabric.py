"""The fabric of a cluster as observed: its own levels and sizes, links as said or as is usual."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from scheduler.domain.ids import GpuModel
from scheduler.domain.links import FabricPlan
from scheduler.domain.topology import CLUSTER_LEVEL, Level, Node
from scheduler.network.fabric import Fabric, FabricLevel, NodeLinks
from scheduler.network.presets import PRESETS, preset_for

USUAL = FabricPlan()
"""Nothing is said: the usual links of each GPU model."""


def fabric_of_cluster(
    levels: Sequence[Level], nodes: Sequence[Node], plan: FabricPlan = USUAL
) -> Fabric:
    """Levels (closest first) and nodes as observed, with the links that `plan` names.

    Without a named preset the network is that of the GPU model most GPUs are of; its name breaks
    ties. Nodes of that model are the preset's; others are as usual for theirs.
    """
    gpus: Counter[GpuModel] = Counter()
    for node in nodes:
        gpus[node.gpu_model] += node.gpus
    models = sorted(gpus, key=lambda model: (-gpus[model], model))
    main_model = models[0] if models else GpuModel("")
    main = PRESETS[plan.preset] if plan.preset else preset_for(main_model)
    types = {
        model: _node_type(model, nodes, plan, main if model == main_model else preset_for(model))
        for model in models
    }
    return replace(
        main,
        default_node=types.get(main_model, main.default_node),
        nodes_by_gpu_model=types,
        levels=_levels(levels, nodes),
    )


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


def _levels(levels: Sequence[Level], nodes: Sequence[Node]) -> tuple[FabricLevel, ...]:
    found = []
    for place, level in enumerate(levels):
        # Paths are widest first, levels closest first.
        width = len(levels) - place
        sizes = Counter(node.path[:width] for node in nodes)
        found.append(
            FabricLevel(
                name=level.name,
                nodes=max(sizes.values(), default=1),
                oversubscription=level.uplink.oversubscription,
                hop_s=level.uplink.latency_s,
                uplinks=level.uplink.parallel,
                is_nvlink=level.uplink.is_nvlink,
                uplink_bytes_per_s=level.uplink.bytes_per_s,
            )
        )
    found.append(FabricLevel(name=CLUSTER_LEVEL, nodes=max(1, len(nodes))))
    return tuple(found)
