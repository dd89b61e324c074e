"""Which class of hardware a measured row belongs to, and the constants of all classes from rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

from bench.network_fit import fit_inside, fit_network
from bench.network_rows import CollectiveRow, is_nvlink_network
from scheduler.domain.communication import Collective
from scheduler.domain.ids import LevelName
from scheduler.network.fabric import (
    Fabric,
    FabricLevel,
    InsideLinks,
    NetworkLinks,
    NodeLinks,
    RankOrder,
)
from scheduler.network.groups import Group, whole_gang
from scheduler.network.links import INSIDE, NETWORK
from scheduler.network.model_timing import gpu_family
from scheduler.network.shape import Shape, shape_of_counts
from scheduler.network.transfer import bus_rate, collective_cost
from scheduler.network.units import MIB, gigabytes_per_s

SMALL_BYTES = 16 << 20
"""Rows up to this size say what the latency is."""

GENERAL: Mapping[str, str] = {
    "nvlink4-p5": "nvlink4",
    "nvlink4-azure": "nvlink4",
    "nvlink4-h200": "nvlink4",
    "efa-p4": "efa",
    "efa-p5": "efa",
    "efa-p6": "efa",
    "roce": "infiniband",
    "roce-50": "infiniband",
}
"""The wider class of a class: what stands in for it where it was never measured."""

_SWITCHED = frozenset({"nvlink4", "nvlink5"})
"""Generations whose switches add up."""

_GAIN = frozenset({"efa", "efa-p4", "efa-p5"})
"""Network classes of which two-node rows are known to beat the NICs."""

_GENERATIONS: Mapping[str, str] = {
    "V100": "nvlink2",
    "A100": "nvlink3",
    "H100": "nvlink4",
    "H200": "nvlink4-h200",
    "B200": "nvlink5",
    "GB200": "nvlink5-nvl72",
    "GB300": "nvlink5-nvl72",
}

_NVLINK_GBPS = {"nvlink2": 150, "nvlink3": 300, "nvlink4": 450, "nvlink5": 900}
"""NVLink rate of a GPU, one direction, as the vendor states it."""

PRIOR_INSIDE: Mapping[str, InsideLinks] = {
    **{
        name: InsideLinks(
            ring_bytes_per_s=gigabytes_per_s(0.8 * rate),
            switch_bytes_per_s=gigabytes_per_s(0.68 * rate if name in _SWITCHED else 0),
            pairwise_bytes_per_s=gigabytes_per_s(0.72 * rate),
            base_s=35e-6,
            root_s=12e-9,
        )
        for name, rate in _NVLINK_GBPS.items()
    },
    **{
        f"pcie{version}": InsideLinks(ring_bytes_per_s=gigabytes_per_s(rate), base_s=30e-6)
        for version, rate in ((3, 12), (4, 24), (5, 48))
    },
}
"""What data sheets and rules of thumb say, before any row is looked at."""

PRIOR_NETWORK: Mapping[str, NetworkLinks] = {
    "infiniband": NetworkLinks(
        efficiency=0.93,
        base_s=60e-6,
        hop_s=5e-6,
        root_hop_s=10e-9,
        root_bytes_max=64 * MIB,
        root_nic_bytes_per_s=gigabytes_per_s(400),
    ),
    "efa": NetworkLinks(
        efficiency=0.93,
        base_s=100e-6,
        root_hop_s=30e-9,
        root_nic_bytes_per_s=gigabytes_per_s(400),
    ),
    "tcp": NetworkLinks(efficiency=0.8, base_s=200e-6),
}

_INSTANCES: Sequence[tuple[str, str, str]] = (
    ("p5.48", "H100", "nvlink4-p5"),
    ("azure", "H100", "nvlink4-azure"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The fitted constants of all classes."""

    inside: Mapping[str, InsideLinks]
    network: Mapping[str, NetworkLinks]


COMMITTED = Constants(inside=INSIDE, network=NETWORK)


def inside_class(row: CollectiveRow) -> str:
    """Class of the links inside the row's nodes."""
    text = row.inside.lower()
    system = row.system.lower()
    family = gpu_family(row.gpu)
    if "pcie" in text and ("nvlink" not in text or "no nvlink" in text):
        return next((f"pcie{n}" for n in (5, 4, 3) if f"pcie{n}" in text), "pcie3")
    if is_nvlink_network(row):
        return "nvlink5-nvl72"
    for word, gpu, name in _INSTANCES:
        if word in system and family == gpu:
            return name
    for version in (2, 3, 4, 5):
        if family not in _GENERATIONS and f"nvlink{version}" in text:
            return f"nvlink{version}"
    return _GENERATIONS.get(family, "nvlink3")


def network_class(row: CollectiveRow) -> str:
    """Class of the network between the row's nodes."""
    text = f"{row.system} {row.network}".lower()
    if "efa" in text or "aws" in text:
        names = {"p4d": "efa-p4", "p5.48": "efa-p5", "p6": "efa-p6"}
        return next((name for word, name in names.items() if word in text), "efa")
    if "tcp" in text:
        return "tcp"
    if "mccs" in text:
        return "roce-50"
    if "roce" in text or "rdma" in text or "cx5" in text:
        return "roce"
    if "gbe" in text or "ethernet" in text:
        return "tcp"
    return "infiniband"


def fabric_of(row: CollectiveRow, constants: Constants) -> Fabric:
    """The row's cluster."""
    inside = constants.inside[inside_class(row)]
    if row.algorithm.startswith("Ring"):
        inside = replace(inside, switch_bytes_per_s=0.0)
    name = network_class(row)
    network = constants.network[name]
    if "SHARP" in row.algorithm and row.nodes > 1:
        network = replace(
            network, switch_factor=constants.network["infiniband-sharp"].switch_factor
        )
    nics = row.gpus_per_node
    node = NodeLinks(
        gpus=row.gpus_per_node,
        inside=inside,
        nics=nics,
        nic_bytes_per_s=row.nics_bytes_per_s / nics,
    )
    levels: tuple[FabricLevel, ...] = (
        FabricLevel(name=LevelName("cluster"), nodes=max(1, row.nodes)),
    )
    if "mCCS" in row.system:
        # Two racks of two hosts, two spines, 50 Gb/s between switches.
        hosts = row.nodes // 2
        way_out = 2 * 6.25e9
        oversubscription = hosts * node.nics_bytes_per_s / way_out
        rack = FabricLevel(
            name=LevelName("rack"), nodes=hosts, oversubscription=oversubscription, uplinks=2
        )
        levels = (rack, *levels)
    if is_nvlink_network(row):
        levels = (replace(levels[0], is_nvlink=True),)
    return Fabric(
        name=row.system,
        source="",
        network=network,
        default_node=node,
        levels=levels,
        rank_order=RankOrder.ALTERNATING if "unaware" in row.algorithm else RankOrder.SORTED,
    )


@cache
def shape_of_row(nodes: int, gpus_per_node: int, racks: int) -> Shape:
    """The row's placement."""
    paths = [(f"r{node * racks // nodes}", "c") for node in range(nodes)] if racks > 1 else ()
    return shape_of_counts([gpus_per_node] * nodes, paths=paths)


def predicted_s(row: CollectiveRow, constants: Constants) -> float:
    """The model's time for the row."""
    fabric = fabric_of(row, constants)
    return collective_cost(
        row.collective, row.size, group_of(row, fabric), fabric, node=fabric.default_node
    ).total_s


def group_of(row: CollectiveRow, fabric: Fabric) -> Group:
    """All ranks of the row."""
    racks = 2 if len(fabric.levels) > 1 else 1
    return whole_gang(shape_of_row(row.nodes, row.gpus_per_node, racks))


def fit_all(rows: Sequence[CollectiveRow]) -> Constants:
    """Constants of every class from these rows; a class without rows stands on its wider one's."""
    single = [row for row in rows if row.nodes == 1]
    several = [
        row
        for row in rows
        if row.nodes > 1 and not is_nvlink_network(row) and "SHARP" not in row.algorithm
    ]
    inside = dict(INSIDE)
    for name in _wider_first(PRIOR_INSIDE, GENERAL):
        start = inside[GENERAL[name]] if name in GENERAL else PRIOR_INSIDE[name]
        own = [row for row in single if name in _classes(inside_class(row))]
        inside[name] = _fit_inside(own, start) if own else start
    network = dict(NETWORK)
    for name in _wider_first(PRIOR_NETWORK, GENERAL):
        start_network = network[GENERAL[name]] if name in GENERAL else PRIOR_NETWORK[name]
        members = [row for row in several if name in _classes(network_class(row))]
        if members:
            start_network = _fit_network(members, start_network, has_gain=name in _GAIN)
        network[name] = replace(start_network, overlap=NETWORK[name].overlap)
    network["infiniband-sharp"] = _fit_sharp(rows, network["infiniband"])
    return Constants(inside=inside, network=network)


def _wider_first(priors: Iterable[str], general: Mapping[str, str]) -> list[str]:
    names = set(priors)
    return sorted(names - set(general)) + sorted(n for n in general if general[n] in names)


def _classes(name: str) -> tuple[str, ...]:
    """A class and its wider class."""
    return (name, GENERAL[name]) if name in GENERAL else (name,)


def _fit_inside(rows: Sequence[CollectiveRow], start: InsideLinks) -> InsideLinks:
    sums = [row for row in rows if row.collective is Collective.ALL_REDUCE]
    has_small = any(row.size <= SMALL_BYTES for row in sums)
    return fit_inside(
        rows, start, has_switch=start.switch_bytes_per_s > 0, keeps_latency=not has_small
    )


def _fit_network(
    rows: Sequence[CollectiveRow], start: NetworkLinks, *, has_gain: bool
) -> NetworkLinks:
    has_small = any(row.size <= SMALL_BYTES for row in rows)
    return fit_network(
        rows,
        start,
        line_s=_line_s,
        has_two_node_gain=has_gain,
        has_ring_hops=all("mCCS" in row.system for row in rows),
        keeps_latency=not has_small,
    )


def _line_s(row: CollectiveRow) -> float:
    """Seconds of the row's bytes at line rate, through NICs, uplinks and hashed paths."""
    perfect = Constants(inside=INSIDE, network=dict.fromkeys(NETWORK, NetworkLinks(efficiency=1.0)))
    fabric = fabric_of(row, perfect)
    rate = bus_rate(row.collective, group_of(row, fabric), fabric, fabric.default_node)
    return row.wire / rate


def _fit_sharp(rows: Sequence[CollectiveRow], infiniband: NetworkLinks) -> NetworkLinks:
    """How much faster large all-reduces are where InfiniBand switches add up."""
    gains = [
        row.wire / row.time_s / (infiniband.efficiency * row.nics_bytes_per_s)
        for row in rows
        if "SHARP" in row.algorithm and row.nodes > 1
    ]
    return replace(infiniband, switch_factor=median(gains)) if gains else infiniband
