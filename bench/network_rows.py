"""The measured points as typed rows: collectives, placements compared, step times of models."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler.domain.communication import Collective
from scheduler.network.collectives import bus_factor
from scheduler.network.units import GB, MICROSECOND

_COLLECTIVES = {
    "all_reduce": Collective.ALL_REDUCE,
    "all_gather": Collective.ALL_GATHER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
    "all_to_all": Collective.ALL_TO_ALL,
    "broadcast": Collective.BROADCAST,
    "sendrecv": Collective.SEND_RECEIVE,
    "send_recv": Collective.SEND_RECEIVE,
}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """A row that is not compared, and why."""

    system: str
    reason: str


def read_csv(path: Path) -> Iterator[Mapping[str, str]]:
    """The rows of a CSV file with a header."""
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def collective_rows(path: Path) -> tuple[list[CollectiveRow], list[Unused]]:
    """The rows that say what ran where and how long it took, and those that do not."""
    used: list[CollectiveRow] = []
    unused: list[Unused] = []
    for raw in read_csv(path):
        row = _collective_row(raw)
        if isinstance(row, Unused):
            unused.append(row)
        else:
            used.append(row)
    return used, unused


def _collective_row(raw: Mapping[str, str]) -> CollectiveRow | Unused:
    system = raw["system"]
    collective = _COLLECTIVES.get(raw["collective"])
    if collective is None:
        return Unused(system=system, reason=f"collective {raw['collective']} is not modelled")
    ranks = int(raw["gpus"])
    rate = float(raw["busbw_GBps"] or 0) * GB
    size = float(raw["size_bytes"] or PLATEAU_BYTES)
    if raw["time_us"]:
        time_s = float(raw["time_us"]) * MICROSECOND
    elif rate >= BUS_RATE_MIN:
        time_s = bus_factor(collective, ranks) * size / rate
    else:
        return Unused(system=system, reason="no time, and a rate too small for its digits")
    nodes = int(raw["nodes"])
    return _checked(
        CollectiveRow(
            system=system,
            gpu=raw["gpu"],
            nodes=nodes,
            gpus_per_node=ranks // nodes,
            inside=raw["intra_link"],
            network=raw["network"],
            nics_bytes_per_s=float(raw["nic_GBps_per_node"] or 0) * GB,
            collective=collective,
            algorithm=raw["algo"],
            size=size,
            time_s=time_s,
            kind=raw["kind"],
            notes=raw["notes"],
        )
    )


def _checked(row: CollectiveRow) -> CollectiveRow | Unused:
    """Leaves out what no model of the hardware could say."""
    reason = ""
    if re.search(r"problem|untuned", f"{row.system} {row.notes}", re.IGNORECASE):
        reason = "reported as a problem of that cluster"
    elif row.nodes > 1 and not row.nics_bytes_per_s and not is_nvlink_network(row):
        reason = "NICs not stated"
    elif row.gpu == "unstated" and row.inside == "unstated":
        reason = "hardware not stated"
    elif row.nodes > 1 and row.size <= 128 << 10 and row.gpu == "B200" and "P6" in row.system:
        reason = "warm-up"
    return Unused(system=row.system, reason=reason) if reason else row


def is_nvlink_network(row: CollectiveRow) -> bool:
    """Whether the row's nodes are joined by NVLink switches."""
    return "NVL72" in f"{row.inside} {row.network} {row.system}"
