"""Topology files: levels, nodes and links of a cluster, as the simulator reads them.

    fabric: v100-edr                               # a preset of the network model
    levels:                                        # closest first; `node` and the whole are implied
      - {name: rack, nodes: 16, oversubscription: 4}
      - {name: block, nodes: 128, oversubscription: 2}
    nodes:                                         # numbered in this order
      - {count: 231, gpus: 8, gpuModel: V100-16GB}
      - {count: 321, gpus: 2, gpuModel: P100}

Each group of nodes begins a new domain of every level, so machines of one kind share racks.
`oversubscription` is the rate of the nodes in a domain over that of its uplinks; it may be left out
(1), and so may `levels` and `fabric` (then the network model takes the usual one of the GPU model).
As in dallyd.yaml, a level may say `bandwidth` (of the uplinks of one domain) instead, and besides
`latencySeconds`, parallel `uplinks` and `nvlink: true`; `links: [{gpuModel, fabric, nics,
nicBandwidth}]` says what is not usual about the nodes with one GPU model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import cast

import yaml

from scheduler.domain.ids import GpuModel, LevelName, NodeName
from scheduler.domain.links import NodeLinksPlan
from scheduler.domain.quantities import QuantityError, parse_bytes
from scheduler.domain.topology import Level, Node, Uplink
from simulator.errors import TopologyError


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPlan:
    """One level above `node`."""

    name: LevelName
    nodes: int
    """Nodes in one of its domains."""
    oversubscription: float = 1.0
    bandwidth: float = 0.0
    """Bytes per second out of one domain; 0: what oversubscription leaves."""
    latency_s: float | None = None
    """Added when a message leaves a domain; None: as the fabric has it."""
    uplinks: int = 0
    """Parallel uplinks over which flows are hashed; 0: one fat link."""
    is_nvlink: bool | None = None
    """Whether a domain is one NVLink domain; None: as the fabric has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Equal nodes."""

    count: int
    gpus: int
    gpu_model: GpuModel = GpuModel("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A cluster to simulate."""

    name: str
    levels: tuple[LevelPlan, ...]
    """Closest first."""
    groups: tuple[NodeGroup, ...]
    fabric: str = ""
    """Preset of the network model; empty for the usual one of the model most GPUs are of."""
    links: tuple[NodeLinksPlan, ...] = ()
    """What is not usual about the links of nodes, by GPU model."""

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(group.count * group.gpus for group in self.groups)

    @property
    def gpus_per_node_max(self) -> int:
        """GPUs of the largest node."""
        return max(group.gpus for group in self.groups)

    def domain_levels(self) -> tuple[Level, ...]:
        """The levels as the scheduler knows them."""
        return tuple(
            Level(
                name=level.name,
                uplink=Uplink(
                    bytes_per_s=level.bandwidth,
                    latency_s=level.latency_s,
                    oversubscription=level.oversubscription,
                    parallel=level.uplinks,
                    is_nvlink=level.is_nvlink,
                ),
            )
            for level in self.levels
        )

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, by name."""
        return tuple(self._nodes())

    def _nodes(self) -> Iterator[Node]:
        digits = len(str(sum(group.count for group in self.groups)))
        number = 0
        first_domains = [0] * len(self.levels)
        for group in self.groups:
            for place in range(group.count):
                path = tuple(
                    f"{level.name}-{first + place // level.nodes + 1}"
                    for level, first in zip(self.levels, first_domains, strict=True)
                )
                number += 1
                yield Node(
                    name=NodeName(f"n{number:0{digits}}"),
                    gpus=group.gpus,
                    gpu_model=group.gpu_model,
                    path=tuple(reversed(path)),
                )
            first_domains = [
                first - -group.count // level.nodes
                for level, first in zip(self.levels, first_domains, strict=True)
            ]


def plain_topology(
    *, nodes: int, gpus_per_node: int, racks: int = 1, oversubscription: float = 1.0
) -> Topology:
    """So many equal nodes, spread evenly over the racks."""
    if min(nodes, gpus_per_node, racks) < 1 or racks > nodes:
        raise TopologyError(
            "--nodes", 0, f"{nodes} nodes of {gpus_per_node} GPUs do not fill {racks} racks"
        )
    rack = LevelPlan(
        name=LevelName("rack"), nodes=-(-nodes // racks), oversubscription=oversubscription
    )
    return Topology(
        name=f"{nodes}x{gpus_per_node}" + (f"/{racks}" if racks > 1 else ""),
        levels=(rack,),
        groups=(NodeGroup(count=nodes, gpus=gpus_per_node),),
    )


def as_counter(topology: Topology) -> Topology:
    """The same GPUs as one pool, where it does not matter where they are."""
    group = NodeGroup(count=1, gpus=topology.gpus)
    return Topology(name=f"{topology.name} as a counter", levels=(), groups=(group,))


def read_topology(path: Path) -> Topology:
    """The topology of a file. Raises TopologyError, naming the field."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", -1) + 1
        raise TopologyError(path.name, line, "is not YAML") from error
    return _topology(_Section(path.name, "", document), name=path.stem)


class _Section:
    """Typed access to one mapping of the file."""

    def __init__(self, source: str, where: str, value: object) -> None:
        self._source = source
        self._where = where
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self.error("", "is not a mapping of names")
        self._value = cast("Mapping[str, object]", value)

    def only(self, *names: str) -> None:
        """Refuse every other name."""
        for name in sorted(set(self._value) - set(names)):
            raise self.error(name, f"is not known here; known are {', '.join(names)}")

    def text(self, name: str) -> str:
        """A string; empty if it is left out."""
        value = self._value.get(name, "")
        if not isinstance(value, str):
            raise self.error(name, f"{value!r} is not a string")
        return value

    def count(self, name: str) -> int:
        """A whole number from 1."""
        value = self._value.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.error(name, f"{value!r} is not a whole number from 1")
        return value

    def optional_count(self, name: str) -> int | None:
        """A whole number from 1; None if it is left out."""
        return self.count(name) if name in self._value else None

    def optional_flag(self, name: str) -> bool | None:
        """True or false; None if it is left out."""
        value = self._value.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(name, f"{value!r} is not true or false")
        return value

    def optional_rate(self, name: str) -> float | None:
        """Bytes per second, as `50GB` or a number; None if it is left out."""
        if name not in self._value:
            return None
        try:
            rate = parse_bytes(self._value[name])
        except QuantityError as error:
            raise self.error(name, str(error)) from error
        if not rate:
            raise self.error(name, "must be more than 0")
        return float(rate)

    def optional_seconds(self, name: str) -> float | None:
        """Seconds from 0 on; None if it is left out."""
        value = self._value.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
            raise self.error(name, f"{value!r} is not a number of seconds")
        return float(value)

    def factor(self, name: str) -> float:
        """A number above 0; 1 if it is left out."""
        value = self._value.get(name, 1.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
            raise self.error(name, f"{value!r} is not a number above 0")
        return float(value)

    def sections(self, name: str) -> list["_Section"]:
        """A list of mappings; empty if it is left out."""
        value = self._value.get(name, [])
        if not isinstance(value, list):
            raise self.error(name, "is not a list")
        return [
            _Section(self._source, f"{self._where}{name}[{place}].", each)
            for place, each in enumerate(value)
        ]

    def error(self, name: str, detail: str) -> TopologyError:
        """The error that this field is wrong."""
        return TopologyError(self._source, 0, detail, field=f"{self._where}{name}".rstrip("."))


def _topology(section: _Section, *, name: str) -> Topology:
    section.only("fabric", "levels", "links", "nodes")
    groups = tuple(_group(each) for each in section.sections("nodes"))
    if not groups:
        raise section.error("nodes", "names no nodes")
    levels = tuple(_level(each) for each in section.sections("levels"))
    _check_levels(section, levels)
    links = tuple(_links(each) for each in section.sections("links"))
    if len({said.gpu_model for said in links}) < len(links):
        raise section.error("links", "the links of a GPU model are said twice")
    return Topology(
        name=name, levels=levels, groups=groups, fabric=section.text("fabric"), links=links
    )


def _links(section: _Section) -> NodeLinksPlan:
    section.only("gpuModel", "fabric", "nics", "nicBandwidth")
    return NodeLinksPlan(
        gpu_model=GpuModel(section.text("gpuModel")),
        fabric=section.text("fabric"),
        nics=section.optional_count("nics"),
        nic_bytes_per_s=section.optional_rate("nicBandwidth"),
    )


def _group(section: _Section) -> NodeGroup:
    section.only("count", "gpus", "gpuModel")
    return NodeGroup(
        count=section.count("count"),
        gpus=section.count("gpus"),
        gpu_model=GpuModel(section.text("gpuModel")),
    )


def _level(section: _Section) -> LevelPlan:
    section.only(
        "name", "nodes", "oversubscription", "bandwidth", "latencySeconds", "uplinks", "nvlink"
    )
    bandwidth = section.optional_rate("bandwidth")
    if bandwidth and section.factor("oversubscription") != 1.0:
        raise section.error("oversubscription", "says the same as bandwidth; leave one of them out")
    name = section.text("name")
    if not name or name in {"node", "cluster"}:
        raise section.error("name", f"{name!r} can not be the name of a level")
    return LevelPlan(
        name=LevelName(name),
        nodes=section.count("nodes"),
        oversubscription=section.factor("oversubscription"),
        bandwidth=bandwidth or 0.0,
        latency_s=section.optional_seconds("latencySeconds"),
        uplinks=section.optional_count("uplinks") or 0,
        is_nvlink=section.optional_flag("nvlink"),
    )


def _check_levels(section: _Section, levels: Sequence[LevelPlan]) -> None:
    for closer, wider in pairwise(levels):
        if wider.nodes % closer.nodes:
            raise section.error(
                "levels",
                f"a {wider.name} of {wider.nodes} nodes is not made of whole {closer.name}s",
            )
    if len({level.name for level in levels}) < len(levels):
        raise section.error("levels", "two levels have one name")
