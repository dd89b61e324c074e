"""Small fabrics and workloads with round numbers."""

from dataclasses import replace

from scheduler.domain.communication import Strategy
from scheduler.domain.ids import LevelName
from scheduler.network.fabric import Fabric, FabricLevel, InsideLinks, NetworkLinks, NodeLinks
from scheduler.network.iteration import IterationTime, workload_time
from scheduler.network.shape import Shape, shape_of_counts
from scheduler.network.workload import Source, Workload

GBPS = 1e9


def a_fabric(
    *,
    gpus: int = 4,
    inside: float = 100.0,
    nics: int = 4,
    nic: float = 5.0,
    oversubscription: float = 1.0,
    nodes_per_rack: int = 4,
    racks: int = 4,
    **network: float,
) -> Fabric:
    """Nodes of 4 GPUs at 100 GB/s and 4 NICs of 5 GB/s; racks of 4 nodes; no latency at all."""
    return Fabric(
        name="toy",
        source="made up",
        network=NetworkLinks(**{"efficiency": 1.0, "overlap": 0.0, **network}),
        default_node=NodeLinks(
            gpus=gpus,
            inside=InsideLinks(ring_bytes_per_s=inside * GBPS, overlap=0.0),
            nics=nics,
            nic_bytes_per_s=nic * GBPS,
        ),
        levels=(
            FabricLevel(
                name=LevelName("rack"), nodes=nodes_per_rack, oversubscription=oversubscription
            ),
            FabricLevel(name=LevelName("cluster"), nodes=nodes_per_rack * racks),
        ),
    )


def a_shape(picture: str) -> Shape:
    """Ranks per node, racks separated by a bar: "4 4 | 4 4"."""
    counts: list[int] = []
    paths: list[tuple[str, str]] = []
    for number, rack in enumerate(picture.split("|")):
        for ranks in rack.split():
            counts.append(int(ranks))
            paths.append((f"r{number}", "c"))
    return shape_of_counts(counts, paths=paths)


def a_workload(strategy: Strategy = Strategy.DDP, **fields: object) -> Workload:
    """Three seconds of compute and 10 GB of gradients, nothing hidden."""
    plain = Workload(
        source=Source.DECLARED,
        strategy=strategy,
        gradient_bytes=10e9,
        compute_s=3.0,
        overlap=0.0,
        blocks=1,
    )
    return replace(plain, **fields)  # type: ignore[arg-type]  # fields are named by the test


def time_of(workload: Workload, picture: str, fabric: Fabric | None = None) -> IterationTime:
    """Its step on a toy fabric."""
    return workload_time(workload, a_shape(picture), fabric or a_fabric())
