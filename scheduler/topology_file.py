"""The `topology:` section of dallyd.yaml: levels and nodes, explicit or by pattern.

    topology:
      levels: [{name: rack}, {name: block}]     # closest first; node and cluster are implied
      nodes:
        - {name: gpu-01, gpus: 8, gpuModel: H100-80GB, in: {rack: r1, block: b1}}
        - {count: 4, gpus: 8, in: {rack: r2, block: b1}}           # r2-n0 ... r2-n3
      racks: [{name: r3, nodes: 4, gpus: 8, in: {block: b2}}]      # the same, said shorter

A level may say how many nodes one of its domains has (`nodes: 16`): nodes that do not say where
they stand then fill domains in turn.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from scheduler.domain.ids import GpuModel, LevelName, NodeName, PoolName
from scheduler.domain.links import FabricPlan, NodeLinksPlan
from scheduler.domain.quantities import QuantityError, parse_bytes, parse_cpus, parse_duration
from scheduler.domain.resources import Resources
from scheduler.domain.topology import CLUSTER_LEVEL, NODE_LEVEL, Level, Node, Uplink

COUNT_MAX = 100_000
GPUS_MAX = 1_024
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"
DEFAULT_LEVELS = ("rack",)


class Section(BaseModel):
    """One mapping of dallyd.yaml: camelCase names, and no others than those it knows."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, allow_inf_nan=False
    )


def quantity(parse: Callable[[object], int]) -> BeforeValidator:
    """Reads an amount with its unit."""

    def read(value: object) -> int:
        try:
            return parse(value)
        except QuantityError as error:
            raise PydanticCustomError("Quantity", "{text}", {"text": str(error)}) from error

    return BeforeValidator(read)


Cpus = Annotated[int, quantity(parse_cpus)]
Bytes = Annotated[int, quantity(parse_bytes)]
Time = Annotated[int, quantity(parse_duration)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Count = Annotated[int, Field(ge=1, le=COUNT_MAX)]
Gpus = Annotated[int, Field(ge=0, le=GPUS_MAX)]


class LevelSection(Section):
    """One level of the network above the nodes."""

    name: Name = Field(description="Name of the level, e.g. `rack`.")
    label: str = Field(default="", description="Node label that names the domain (Kubernetes).")
    nodes: Count | None = Field(
        default=None, description="Nodes in one domain, for nodes that do not say where they stand."
    )
    oversubscription: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Rate of the nodes of a domain over that of its uplinks.",
    )
    bandwidth: Bytes = Field(
        default=0, description="Bytes per second of a domain's uplinks, one direction; 0: unknown."
    )
    latency_seconds: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="Added to a message that leaves the domain; default: as the fabric has it.",
    )
    uplinks: int = Field(
        default=0,
        ge=0,
        le=COUNT_MAX,
        description="Equal uplinks over which flows are hashed (ECMP); 0: one fat link.",
    )
    nvlink: bool | None = Field(
        default=None,
        description="Each domain is one NVLink domain, as in GB200 NVL72; default: as the fabric "
        "has it.",
    )


class LinksSection(Section):
    """The links of the nodes with one GPU model; what is left out is as usual for that model."""

    gpu_model: str = Field(max_length=63, description="GPU model of the nodes.")
    fabric: str = Field(
        default="", description="Preset whose nodes these are like: NVLink or PCIe, NICs."
    )
    nics: int | None = Field(default=None, ge=0, le=GPUS_MAX, description="NICs per node.")
    nic_bandwidth: Bytes | None = Field(
        default=None, description="Bytes per second of one NIC, one direction, e.g. `50GB`."
    )


class NodeSection(Section):
    """One node, or `count` equal ones."""

    name: Name | None = Field(
        default=None, description="Name of the node; of several, what their names begin with."
    )
    count: Count = Field(default=1, description="How many equal nodes.")
    gpus: Gpus = Field(description="GPUs (or slots) of each.")
    gpu_model: str = Field(default="", max_length=63, description="GPU model, e.g. `H100-80GB`.")
    cpus: Cpus = Field(default=0, description="CPU cores of each; 0: those of the machine.")
    memory: Bytes = Field(default=0, description="Memory of each; 0: that of the machine.")
    pool: Name = Field(default="default", description="Pool they belong to.")
    within: dict[str, Name] = Field(
        default_factory=dict, alias="in", description="Domain by level, e.g. `{rack: r1}`."
    )


class RackSection(Section):
    """Equal nodes in one domain of the closest level."""

    name: Name = Field(description="Name of the domain; its nodes are NAME-n0, NAME-n1, ...")
    nodes: Count = Field(description="How many nodes.")
    gpus: Gpus = Field(description="GPUs (or slots) of each node.")
    gpu_model: str = Field(default="", max_length=63, description="GPU model of all.")
    cpus: Cpus = Field(default=0, description="CPU cores of each node; 0: those of the machine.")
    memory: Bytes = Field(default=0, description="Memory of each node; 0: that of the machine.")
    pool: Name = Field(default="default", description="Pool they belong to.")
    within: dict[str, Name] = Field(
        default_factory=dict, alias="in", description="Domains of the wider levels."
    )


class TopologySection(Section):
    """What the cluster looks like."""

    fabric: str = Field(
        default="",
        description="Preset of the network model: the network, and the nodes of its GPU family "
        "(`h100-roce`: all H100); empty: the usual one of the GPU model that most GPUs are of.",
    )
    links: tuple[LinksSection, ...] = Field(
        default=(), strict=False, description="Links of nodes, where they are not as usual."
    )
    levels: tuple[LevelSection, ...] = Field(
        default=(), strict=False, description="Levels above the node, closest first."
    )
    nodes: tuple[NodeSection, ...] = Field(default=(), strict=False, description="Nodes.")
    racks: tuple[RackSection, ...] = Field(
        default=(), strict=False, description="Nodes, said by domain of the closest level."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Levels (closest first) and nodes as a file describes them."""

    levels: tuple[Level, ...]
    nodes: tuple[Node, ...]
    links: FabricPlan = field(default_factory=FabricPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """One mistake of a file."""

    place: str
    """Where, e.g. `topology.nodes[2].gpus`."""
    detail: str


def topology_of(section: TopologySection) -> Topology:
    """The cluster the section describes; it has no problems."""
    plans = _level_sections(section)
    return Topology(
        levels=tuple(
            Level(
                name=LevelName(level.name),
                label=level.label,
                uplink=Uplink(
                    bytes_per_s=float(level.bandwidth),
                    latency_s=level.latency_seconds,
                    oversubscription=level.oversubscription,
                    parallel=level.uplinks,
                    is_nvlink=level.nvlink,
                ),
            )
            for level in plans
        ),
        nodes=tuple(node for node, _ in _nodes(section, plans)),
        links=_links(section),
    )


def _links(section: TopologySection) -> FabricPlan:
    return FabricPlan(
        preset=section.fabric,
        nodes=tuple(
            NodeLinksPlan(
                gpu_model=GpuModel(links.gpu_model),
                fabric=links.fabric,
                nics=links.nics,
                nic_bytes_per_s=links.nic_bandwidth,
            )
            for links in section.links
        ),
    )


def problems_of(section: TopologySection, fabrics: Collection[str]) -> Iterator[FileProblem]:
    """What is wrong with a section whose single values are right; `fabrics` are the presets."""
    yield from _link_problems(section, fabrics)
    plans = _level_sections(section)
    names = [level.name for level in plans]
    for index, level in enumerate(section.levels):
        place = f"topology.levels[{index}]"
        if level.name in {NODE_LEVEL, CLUSTER_LEVEL}:
            yield FileProblem(
                place=f"{place}.name", detail=f"{level.name} is implied; leave it out"
            )
        if names.count(level.name) > 1:
            yield FileProblem(place=f"{place}.name", detail=f"two levels are named {level.name}")
        if index and level.nodes and (closer := plans[index - 1].nodes) and level.nodes % closer:
            detail = f"{level.nodes} nodes are not made of whole {plans[index - 1].name}s"
            yield FileProblem(place=f"{place}.nodes", detail=detail)
    yield from _unknown_levels(section, names)
    counts = Counter(node.name for node, _ in _nodes(section, plans))
    for node, place in _nodes(section, plans):
        if counts[node.name] > 1:
            yield FileProblem(
                place=place, detail=f"{counts[node.name]} nodes are named {node.name}"
            )
            counts[node.name] = 0


def _link_problems(section: TopologySection, fabrics: Collection[str]) -> Iterator[FileProblem]:
    named = [("topology.fabric", section.fabric)]
    named += [(f"topology.links[{i}].fabric", said.fabric) for i, said in enumerate(section.links)]
    for place, fabric in named:
        if fabric and fabric not in fabrics:
            known = ", ".join(sorted(fabrics))
            yield FileProblem(
                place=place, detail=f"there is no fabric {fabric!r}; there are: {known}"
            )
    models = [links.gpu_model for links in section.links]
    for index, links in enumerate(section.links):
        place = f"topology.links[{index}]"
        if models.count(links.gpu_model) > 1:
            detail = (
                f"the links of {links.gpu_model!r} are said {models.count(links.gpu_model)} times"
            )
            yield FileProblem(place=f"{place}.gpuModel", detail=detail)
        if links.nic_bandwidth == 0:
            yield FileProblem(place=f"{place}.nicBandwidth", detail="must be more than 0")
    for index, level in enumerate(section.levels):
        if level.bandwidth and level.oversubscription != 1.0:
            detail = "says the same as bandwidth; leave one of them out"
            yield FileProblem(place=f"topology.levels[{index}].oversubscription", detail=detail)


def _unknown_levels(section: TopologySection, names: list[str]) -> Iterator[FileProblem]:
    for index, node in enumerate(section.nodes):
        for level in sorted(set(node.within) - set(names)):
            place = f"topology.nodes[{index}].in.{level}"
            yield FileProblem(place=place, detail=_no_such_level(names))
    for index, rack in enumerate(section.racks):
        for level in sorted(set(rack.within) - set(names[1:])):
            place = f"topology.racks[{index}].in.{level}"
            yield FileProblem(place=place, detail=_no_such_level(names[1:]))


def _no_such_level(names: list[str]) -> str:
    return f"no such level here; there are: {', '.join(names) or 'none'}"


def _level_sections(section: TopologySection) -> tuple[LevelSection, ...]:
    return section.levels or tuple(LevelSection(name=name) for name in DEFAULT_LEVELS)


def _nodes(
    section: TopologySection, levels: tuple[LevelSection, ...]
) -> Iterator[tuple[Node, str]]:
    """Every node, with the place in the file that describes it."""
    filled = [0] * len(levels)
    """Domains of each level that nodes without a place have begun so far."""
    for index, group in enumerate(section.nodes):
        for number in range(group.count):
            path = tuple(
                group.within.get(level.name)
                or (f"{level.name}-{begun + number // level.nodes + 1}" if level.nodes else "")
                for level, begun in zip(levels, filled, strict=True)
            )
            name = _node_name(group, number, path[0] if path else "", first=_first(section, index))
            yield _node(name, group, path), f"topology.nodes[{index}]"
        filled = [
            begun + (-(-group.count // level.nodes) if level.nodes else 0)
            for level, begun in zip(levels, filled, strict=True)
        ]
    for index, rack in enumerate(section.racks):
        path = (rack.name, *(rack.within.get(level.name, "") for level in levels[1:]))
        for number in range(rack.nodes):
            yield _node(f"{rack.name}-n{number}", rack, path), f"topology.racks[{index}]"


def _first(section: TopologySection, index: int) -> int:
    """Number of the first node of an unnamed group that stands nowhere."""
    return sum(group.count for group in section.nodes[:index])


def _node_name(group: NodeSection, number: int, rack: str, *, first: int) -> str:
    if group.name is not None:
        return group.name if group.count == 1 else f"{group.name}-n{number}"
    return f"{rack}-n{number}" if group.within and rack else f"n{first + number}"


def _node(name: str, said: NodeSection | RackSection, path: tuple[str, ...]) -> Node:
    return Node(
        name=NodeName(name),
        gpus=said.gpus,
        gpu_model=GpuModel(said.gpu_model),
        resources=Resources(cpu_milli=said.cpus, memory_bytes=said.memory),
        path=tuple(reversed(path)),
        pool=PoolName(said.pool),
    )
