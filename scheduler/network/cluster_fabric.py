"""The fabric of a cluster as observed: its own levels and sizes, links after the GPUs it has."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from scheduler.domain.ids import GpuModel
from scheduler.domain.topology import CLUSTER_LEVEL, Level, Node
from scheduler.network.fabric import Fabric, FabricLevel, NodeLinks
from scheduler.network.presets import preset_for


def fabric_of_cluster(levels: Sequence[Level], nodes: Sequence[Node]) -> Fabric:
    """Levels (closest first) and nodes as observed, on the presets of their GPU models.

    The network is that of the GPU model most GPUs are of; its name breaks ties.
    """
    gpus: Counter[GpuModel] = Counter()
    for node in nodes:
        gpus[node.gpu_model] += node.gpus
    models = sorted(gpus, key=lambda model: (-gpus[model], model))
    main = preset_for(models[0] if models else "")
    return replace(
        main,
        default_node=_node_type(models[0], nodes) if models else main.default_node,
        nodes_by_gpu_model={model: _node_type(model, nodes) for model in models},
        levels=_levels(levels, nodes),
    )


def _node_type(model: GpuModel, nodes: Sequence[Node]) -> NodeLinks:
    """The preset's node, as large as the largest such node."""
    links = preset_for(model).default_node
    largest = max((node.gpus for node in nodes if node.gpu_model == model), default=1)
    return replace(links, gpus=max(1, largest))


def _levels(levels: Sequence[Level], nodes: Sequence[Node]) -> tuple[FabricLevel, ...]:
    found = []
    for place, level in enumerate(levels):
        # Paths are widest first, levels closest first.
        width = len(levels) - place
        sizes = Counter(node.path[:width] for node in nodes)
        found.append(FabricLevel(name=level.name, nodes=max(sizes.values(), default=1)))
    found.append(FabricLevel(name=CLUSTER_LEVEL, nodes=max(1, len(nodes))))
    return tuple(found)
