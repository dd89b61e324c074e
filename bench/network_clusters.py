"""The fabrics behind rows that name their machines in words."""

from dataclasses import replace
from functools import lru_cache

from bench.network_steps import StepRow
from scheduler.domain.communication import Strategy
from scheduler.network.fabric import Fabric, RankOrder
from scheduler.network.iteration import workload_time
from scheduler.network.links import INSIDE
from scheduler.network.presets import UNKNOWN_GPU, preset_for
from scheduler.network.shape import Shape, shape_of_counts
from scheduler.network.workload import Source, Workload


def preset_name(row: StepRow) -> str:
    """The preset whose machines the row's are."""
    network = row.network.lower()
    if row.gpu == "RTX3090" and "leaf" in network:
        return "rtx3090-roce"
    if "ethernet" in network or "tcp" in network or "gbe" in network:
        names = {"V100": "v100-tcp", "P100": "p100-tcp", "K80": "k80-tcp"}
        if row.gpu in names:
            return names[row.gpu]
    if "roce" in network and row.gpu in ("A100", "H100"):
        return f"{row.gpu.lower()}-roce"
    if row.inside == "NVLink1":
        return "p100-nvlink"
    if row.gpu == "not in repo":
        return UNKNOWN_GPU
    return preset_for(row.gpu).name


def fabric_at(row: StepRow, fabric: Fabric, variant: str = "") -> Fabric:
    """The row's cluster: nodes as large as its placement needs, and what the variant changes."""
    node = fabric.default_node
    ranks = max(row.ranks_by_node)
    if ranks > node.gpus:
        node = replace(node, gpus=ranks)
    if variant in ("nvlink", "pcie"):
        # Consumer cards reach each other through the host where no bridge joins them.
        node = replace(node, inside=INSIDE["nvlink-bridge" if variant == "nvlink" else "pcie-rtx"])
    fabric = replace(fabric, default_node=node)
    if variant == "alternating":
        fabric = replace(fabric, rank_order=RankOrder.ALTERNATING)
    return fabric


@lru_cache(maxsize=4096)
def shape_at(ranks_by_node: tuple[int, ...], racks: int) -> Shape:
    """The placement: in one rack, or over two halves."""
    nodes = len(ranks_by_node)
    paths = [(f"r{node * racks // nodes}", "c") for node in range(nodes)] if racks > 1 else ()
    return shape_of_counts(ranks_by_node, paths=paths)


def workload_of(row: StepRow) -> Workload:
    """Data-parallel training with the row's numbers."""
    return Workload(
        source=Source.DECLARED,
        strategy=Strategy.DDP,
        gradient_bytes=row.gradient_bytes,
        compute_s=row.compute_s,
        accumulation_steps=row.accumulation_steps,
    )


def predicted_step_s(
    row: StepRow,
    fabric: Fabric,
    *,
    ranks_by_node: tuple[int, ...] = (),
    variant: str = "",
) -> float:
    """The model's step time of the row's job, at its own placement or another."""
    ranks = ranks_by_node or row.ranks_by_node
    racks = 2 if fabric.name == "rtx3090-roce" else 1
    cluster = fabric_at(replace(row, ranks_by_node=ranks), fabric, variant)
    return workload_time(workload_of(row), shape_at(ranks, racks), cluster).total_s
