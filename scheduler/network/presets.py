"""Fabrics by name: links of the hardware people have, as constants fitted to measured points.

`python -m bench.fit_network` prints the fits; docs/network-model.md says what each rests on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.domain.ids import GpuModel, LevelName
from scheduler.network.fabric import Fabric, FabricLevel, NetworkLinks, NodeLinks
from scheduler.network.links import INSIDE, NETWORK
from scheduler.network.model_timing import gpu_family
from scheduler.network.units import gigabits_per_s


def _levels(nodes_per_rack: int, racks: int, oversubscription: float) -> tuple[FabricLevel, ...]:
    return (
        FabricLevel(
            name=LevelName("rack"), nodes=nodes_per_rack, oversubscription=oversubscription
        ),
        FabricLevel(name=LevelName("cluster"), nodes=nodes_per_rack * racks),
    )


def _fabric(
    name: str,
    source: str,
    *,
    node: NodeLinks,
    network: str,
    levels: tuple[FabricLevel, ...],
) -> Fabric:
    return Fabric(
        name=name, source=source, network=NETWORK[network], default_node=node, levels=levels
    )


def _node(
    inside: str,
    *,
    gpus: int = 8,
    nics: int = 8,
    gigabits: float = 400,
    packing_factor: float = 1.0,
) -> NodeLinks:
    return NodeLinks(
        gpus=gpus,
        inside=INSIDE[inside],
        nics=nics,
        nic_bytes_per_s=gigabits_per_s(gigabits),
        packing_factor=packing_factor,
    )


_SOURCES = "fitted to nccl_measured.csv"
_STEPS = "fitted to step times in placement_slowdowns.csv"

PRESETS: Mapping[str, Fabric] = {
    fabric.name: fabric
    for fabric in (
        _fabric(
            "v100-edr",
            f"DGX-1, 4 x EDR; {_SOURCES}",
            node=_node("nvlink2", nics=4, gigabits=100, packing_factor=1.087),
            network="infiniband",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "a100-hdr",
            f"DGX A100, 8 x HDR; {_SOURCES}",
            node=_node("nvlink3", gigabits=200, packing_factor=1.025),
            network="infiniband",
            levels=_levels(8, 16, 1.0),
        ),
        _fabric(
            "h100-ndr",
            f"DGX H100, 8 x NDR; {_SOURCES}",
            node=_node("nvlink4"),
            network="infiniband",
            levels=_levels(4, 32, 1.0),
        ),
        _fabric(
            "h200-ndr",
            f"HGX H200, 8 x NDR; {_SOURCES}",
            node=_node("nvlink4-h200"),
            network="infiniband",
            levels=_levels(4, 32, 1.0),
        ),
        _fabric(
            "b200-ndr",
            f"HGX B200, 8 x NDR; {_SOURCES}",
            node=_node("nvlink5"),
            network="infiniband",
            levels=_levels(4, 32, 1.0),
        ),
        _fabric(
            "gb200-nvl72",
            "18 nodes in one NVLink domain, 4 x NDR a node; NVLink after a published sweep",
            node=_node("nvlink5-nvl72", gpus=4, nics=4),
            network="infiniband",
            levels=(
                FabricLevel(name=LevelName("nvlink-domain"), nodes=18, is_nvlink=True),
                FabricLevel(name=LevelName("cluster"), nodes=144),
            ),
        ),
        _fabric(
            "a100-efa",
            f"p4d / p4de, 4 x 100 Gb/s EFA; {_SOURCES}",
            node=_node("nvlink3", nics=4, gigabits=100),
            network="efa-p4",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "h100-efa",
            f"p5, 32 x 100 Gb/s EFA; {_SOURCES}",
            node=_node("nvlink4-p5", nics=32, gigabits=100),
            network="efa-p5",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "h200-efa",
            f"p5en, 3200 Gb/s EFA v3; {_SOURCES}",
            node=_node("nvlink4-h200", nics=16, gigabits=200),
            network="efa",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "b200-efa",
            f"p6-b200, 8 x 400 Gb/s EFA v4; {_SOURCES}",
            node=_node("nvlink5"),
            network="efa-p6",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "a100-roce",
            "8 x 200 Gb/s RoCE; a tuned fabric, taken to behave like InfiniBand of its rate",
            node=_node("nvlink3", gigabits=200),
            network="roce",
            levels=_levels(4, 32, 1.0),
        ),
        _fabric(
            "h100-roce",
            "8 x 400 Gb/s RoCE; a tuned fabric, taken to behave like InfiniBand of its rate",
            node=_node("nvlink4"),
            network="roce",
            levels=_levels(2, 192, 1.0),
        ),
        _fabric(
            "t4-tcp",
            f"g4dn.12xlarge, 50 Gb/s TCP; {_STEPS}",
            node=_node("pcie-t4", gpus=4, nics=1, gigabits=50),
            network="tcp-cloud",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "rtx2080ti-ethernet",
            f"8 x RTX 2080 Ti on PCIe, Ethernet of unstated rate taken as 25 Gb/s; {_STEPS}",
            node=_node("pcie-rtx", nics=1, gigabits=25),
            network="tcp-lab",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "v100-tcp",
            f"8 x V100, 10 Gb/s TCP in a cloud; {_STEPS}",
            node=_node("nvlink2", nics=1, gigabits=10),
            network="tcp",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "p100-tcp",
            f"8 x P100 on PCIe, 10 Gb/s TCP in a cloud; {_STEPS}",
            node=_node("pcie-p100", nics=1, gigabits=10),
            network="tcp",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "p100-nvlink",
            "DGX-1 with P100: NVLink of half the links of V100",
            node=_node("nvlink1", nics=4, gigabits=100),
            network="infiniband",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "k80-tcp",
            f"p2.8xlarge, 10 Gb/s TCP; two chips share one board's power and slot; {_STEPS}",
            node=_node("pcie-k80", nics=1, gigabits=10, packing_factor=1.18),
            network="tcp",
            levels=_levels(16, 8, 1.0),
        ),
        _fabric(
            "rtx3090-roce",
            f"4 hosts, 2 racks, 2 spines, 50 Gb/s links (mCCS); {_SOURCES}",
            node=_node("pcie3", gpus=2, nics=2, gigabits=50),
            network="roce-50",
            levels=(
                FabricLevel(name=LevelName("rack"), nodes=2, oversubscription=2.0, uplinks=2),
                FabricLevel(name=LevelName("cluster"), nodes=4),
            ),
        ),
    )
}

_BY_GPU: Mapping[GpuModel, str] = {
    GpuModel("V100"): "v100-edr",
    GpuModel("A100"): "a100-hdr",
    GpuModel("H100"): "h100-ndr",
    GpuModel("H200"): "h200-ndr",
    GpuModel("B200"): "b200-ndr",
    GpuModel("GB200"): "gb200-nvl72",
    GpuModel("GB300"): "gb200-nvl72",
    GpuModel("T4"): "t4-tcp",
    GpuModel("P100"): "p100-tcp",
    GpuModel("K80"): "k80-tcp",
    GpuModel("RTX2080Ti"): "rtx2080ti-ethernet",
    GpuModel("RTX3090"): "rtx2080ti-ethernet",
}

UNKNOWN_GPU = "v100-tcp"
"""Preset of a cluster whose GPUs say nothing: a slow network errs on the side of staying close."""


def preset_for(gpu_model: str) -> Fabric:
    """The usual fabric of nodes with that GPU, where the configuration names none."""
    return PRESETS[_BY_GPU.get(gpu_family(gpu_model), UNKNOWN_GPU)]


def joined(fabrics: Mapping[GpuModel, Fabric], network: NetworkLinks) -> Fabric:
    """One cluster whose GPU models keep their own nodes, on one network."""
    first = next(iter(sorted(fabrics.items())))[1]
    return replace(
        first,
        name="+".join(sorted({fabric.name for fabric in fabrics.values()})),
        source="; ".join(sorted({fabric.source for fabric in fabrics.values()})),
        network=network,
        nodes_by_gpu_model={gpu: fabric.default_node for gpu, fabric in fabrics.items()},
    )


def with_levels(fabric: Fabric, levels: Sequence[FabricLevel]) -> Fabric:
    """The same links under another topology."""
    return replace(fabric, levels=tuple(levels))
