"""Topology presets: which node labels name the levels on which clouds, closest first.

A preset lists more levels than any one cluster has; those that no node carries are left out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.domain.ids import LevelName
from scheduler.domain.topology import ABSENT_VALUES, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The levels one source of labels knows."""

    name: str
    levels: tuple[Level, ...]
    """Closest first, without `node`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopology:
    """Levels found by looking at the labels of nodes."""

    preset: str
    """Name of the preset; empty if no label of any preset was found."""
    levels: tuple[Level, ...]
    nodes_without: Mapping[LevelName, int]
    """Nodes that miss the label of a level: they can not be part of a `required` placement."""


def _preset(name: str, *levels: tuple[str, str]) -> Preset:
    return Preset(
        name=name,
        levels=tuple(Level(name=LevelName(level), label=label) for level, label in levels),
    )


NVLINK_DOMAIN = Level(name=LevelName("nvlink-domain"), label="nvidia.com/gpu.clique")
"""Nodes whose GPUs share one NVLink fabric (multi-node NVLink); closer than any network level."""

PRESETS: tuple[Preset, ...] = (
    _preset(
        "topograph-v1",
        ("nvlink-sub-domain", "accelerator.topograph.run/sub-domain"),
        ("nvlink-domain", "accelerator.topograph.run/domain"),
        *((f"tier-{tier}", f"fabric.topograph.run/tier-{tier}") for tier in range(8)),
    ),
    _preset(
        "topograph-v0",
        ("nvlink-domain", "network.topology.nvidia.com/accelerator"),
        ("leaf", "network.topology.nvidia.com/leaf"),
        ("block", "network.topology.nvidia.com/block"),
        ("spine", "network.topology.nvidia.com/spine"),
        ("core", "network.topology.nvidia.com/core"),
        ("datacenter", "network.topology.nvidia.com/datacenter"),
    ),
    _preset(
        "aws",
        # Layer 1 is the widest; a fourth exists on some instance types and is then the closest.
        *(
            (f"layer-{layer}", f"topology.k8s.aws/network-node-layer-{layer}")
            for layer in (4, 3, 2)
        ),
        ("layer-1", "topology.k8s.aws/network-node-layer-1"),
        ("zone", "topology.kubernetes.io/zone"),
    ),
    _preset(
        "gcp",
        # A physical host (gce-topology-host) carries one GPU machine: that is our `node`.
        ("subblock", "cloud.google.com/gce-topology-subblock"),
        ("block", "cloud.google.com/gce-topology-block"),
        ("zone", "topology.kubernetes.io/zone"),
    ),
    _preset(
        "oci",
        ("local-block", "oci.oraclecloud.com/rdma.local_block_id"),
        ("network-block", "oci.oraclecloud.com/rdma.network_block_id"),
        ("hpc-island", "oci.oraclecloud.com/rdma.hpc_island_id"),
    ),
    _preset(
        "oci-host",
        ("rack", "oci.oraclecloud.com/host.rack_id"),
        ("network-block", "oci.oraclecloud.com/host.network_block_id"),
    ),
    _preset(
        "coreweave",
        ("leafgroup", "backend.coreweave.cloud/leafgroup"),
        ("fabric", "backend.coreweave.cloud/fabric"),
    ),
    _preset(
        "coreweave-ib",
        ("leafgroup", "ib.coreweave.cloud/leafgroup"),
        ("fabric", "ib.coreweave.cloud/fabric"),
    ),
    _preset(
        "zones",
        ("zone", "topology.kubernetes.io/zone"),
        ("region", "topology.kubernetes.io/region"),
    ),
    _preset("nvlink", (NVLINK_DOMAIN.name, NVLINK_DOMAIN.label)),
)
"""In the order in which they are tried: what says most about the network comes first."""


def preset(name: str) -> Preset | None:
    """The preset of that name; None if there is none."""
    return next((found for found in PRESETS if found.name == name), None)


def levels_present(
    levels: Sequence[Level], labels_by_node: Iterable[Mapping[str, str]]
) -> tuple[Level, ...]:
    """Those of `levels` whose label at least one node carries with a usable value."""
    counts = _carriers(levels, labels_by_node)
    return tuple(level for level in levels if counts[level.name])


def find_topology(labels_by_node: Sequence[Mapping[str, str]]) -> FoundTopology:
    """The levels of the first preset of which nodes carry labels.

    NVLink cliques come from another source than network labels, so they join any preset.
    """
    chosen, levels = "", tuple[Level, ...]()
    for candidate in PRESETS:
        own = _own_labels(candidate)
        if levels_present(own, labels_by_node):
            chosen, levels = candidate.name, levels_present(candidate.levels, labels_by_node)
            break
    if all(level.name != NVLINK_DOMAIN.name for level in levels):
        levels = (*levels_present((NVLINK_DOMAIN,), labels_by_node), *levels)
    carriers = _carriers(levels, labels_by_node)
    return FoundTopology(
        preset=chosen,
        levels=levels,
        nodes_without={
            level.name: len(labels_by_node) - carriers[level.name]
            for level in levels
            if carriers[level.name] < len(labels_by_node)
        },
    )


def _own_labels(candidate: Preset) -> tuple[Level, ...]:
    """Levels that only this source names: a zone label alone does not make a cloud's preset."""
    if candidate.name == "zones":
        return candidate.levels
    return tuple(
        level for level in candidate.levels if not level.label.startswith("topology.kubernetes.io/")
    )


def _carriers(
    levels: Sequence[Level], labels_by_node: Iterable[Mapping[str, str]]
) -> Counter[LevelName]:
    counts: Counter[LevelName] = Counter()
    for labels in labels_by_node:
        counts.update(
            level.name for level in levels if labels.get(level.label, "") not in ABSENT_VALUES
        )
    return counts
