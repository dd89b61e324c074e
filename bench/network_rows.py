"""The measured points as typed rows: collectives, placements compared, step times of models."""

import re
from dataclasses import dataclass
from pathlib import Path

from bench.network_table import Cells, UnusableRowError, Unused, read_csv, sorted_out
from scheduler.domain.communication import Collective
from scheduler.network.collectives import bus_factor
from scheduler.network.units import GB, MICROSECOND

_COLLECTIVES = {
    "allreduce": Collective.ALL_REDUCE,
    "allgather": Collective.ALL_GATHER,
    "reducescatter": Collective.REDUCE_SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
    "broadcast": Collective.BROADCAST,
    # Backwards, a reduce moves what a broadcast does.
    "reduce": Collective.BROADCAST,
    "sendrecv": Collective.SEND_RECEIVE,
}
"""By name, without what stands between its words."""

PLATEAU_BYTES = 8.0 * (1 << 30)
"""Size at which a plateau without a size is compared."""

BUS_RATE_MIN = 0.1 * GB
"""A rate printed with two digits says nothing below this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """One measured collective."""

    system: str
    gpu: str
    nodes: int
    gpus_per_node: int
    inside: str
    network: str
    nics_bytes_per_s: float
    """Line rate of a node's NICs; 0 where not stated."""
    collective: Collective
    algorithm: str
    size: float
    time_s: float
    kind: str
    notes: str

    @property
    def ranks(self) -> int:
        """GPUs taking part."""
        return self.nodes * self.gpus_per_node

    @property
    def family(self) -> str:
        """The system; the points of one chart are one system, however many sizes it has."""
        return f"{self.gpu} chart" if self.kind.startswith("chart") else self.system

    @property
    def wire(self) -> float:
        """Bytes on the wire of a ring."""
        return bus_factor(self.collective, self.ranks) * self.size


COLUMNS = ("system", "gpu", "nodes", "gpus", "collective", "size_bytes")
"""What nothing can stand in for; beside them, one of the time and the two rates."""


def collective_rows(path: Path) -> tuple[list[CollectiveRow], list[Unused]]:
    """The rows that say what ran where and how long it took, and those that do not."""
    return sorted_out(read_csv(path, COLUMNS), _system_of, _collective_row)


def _system_of(cells: Cells) -> str:
    return cells["system"] or f"unnamed system of {cells['gpu'] or 'unknown GPUs'}"


def _collective_row(cells: Cells) -> CollectiveRow:
    name = cells.needed("collective")
    collective = _COLLECTIVES.get(re.sub(r"[^a-z]", "", name.lower()))
    if collective is None:
        raise UnusableRowError(f"collective {name} is not modelled")
    ranks, nodes = _gang(cells)
    size = cells.positive("size_bytes") or PLATEAU_BYTES
    row = CollectiveRow(
        system=_system_of(cells),
        gpu=cells["gpu"],
        nodes=nodes,
        gpus_per_node=ranks // nodes,
        inside=cells["intra_link"],
        network=cells["network"],
        nics_bytes_per_s=(cells.number("nic_GBps_per_node") or 0.0) * GB,
        collective=collective,
        algorithm=cells["algo"],
        size=size,
        time_s=_time_s(cells, collective, size, ranks),
        kind=cells["kind"],
        notes=cells["notes"],
    )
    reason = _reason_against(row)
    if reason:
        raise UnusableRowError(reason)
    return row


def _gang(cells: Cells) -> tuple[int, int]:
    ranks, nodes = cells.count("gpus"), cells.count("nodes")
    if ranks is None or nodes is None:
        raise UnusableRowError("gpus or nodes are not stated")
    if ranks == 1:
        raise UnusableRowError("one GPU sends nothing")
    if ranks % nodes:
        raise UnusableRowError(f"{ranks} GPUs are not spread evenly over {nodes} nodes")
    return ranks, nodes


def _time_s(cells: Cells, collective: Collective, size: float, ranks: int) -> float:
    """The time, else what a rate with enough digits says of it."""
    microseconds = cells.positive("time_us")
    if microseconds is not None:
        return microseconds * MICROSECOND
    bus_rate = (cells.number("busbw_GBps") or 0.0) * GB
    if bus_rate >= BUS_RATE_MIN:
        return bus_factor(collective, ranks) * size / bus_rate
    rate = (cells.number("algbw_GBps") or 0.0) * GB
    if rate >= BUS_RATE_MIN:
        return size / rate
    raise UnusableRowError("no time, and a rate too small for its digits")


def _reason_against(row: CollectiveRow) -> str:
    """Why no model of the hardware could say it; empty if one could."""
    if re.search(r"problem|untuned", f"{row.system} {row.notes}", re.IGNORECASE):
        return "reported as a problem of that cluster"
    if row.nodes > 1 and not row.nics_bytes_per_s and not is_nvlink_network(row):
        return "NICs not stated"
    if row.gpu in ("", "unstated") and row.inside in ("", "unstated"):
        return "hardware not stated"
    if row.nodes > 1 and row.size <= 128 << 10 and row.gpu == "B200" and "P6" in row.system:
        return "warm-up"
    return ""


def is_nvlink_network(row: CollectiveRow) -> bool:
    """Whether the row's nodes are joined by NVLink switches."""
    return "NVL72" in f"{row.inside} {row.network} {row.system}"
