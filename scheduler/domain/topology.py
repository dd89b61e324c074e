"""Levels, nodes and the tree of topology domains: static, built once per node generation, shared.

levels (closest first):  node < rack < block < cluster
a node's path:           ("b1", "r7")  = its block and its rack, widest first
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import GpuModel, LevelName, NodeName, PoolName
from scheduler.domain.resources import NOTHING, Resources

NODE_LEVEL = LevelName("node")
CLUSTER_LEVEL = LevelName("cluster")
"""The widest level: all nodes. Implicit, the last, and without a label."""

ABSENT_VALUES = frozenset({"", "unknown", "no-imds-data", "none", "n/a"})
"""Label values by which clouds say that they do not know where a node stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """What leads out of each domain of a level; what is not known is left out."""

    bytes_per_s: float = 0.0
    """Capacity, one direction; 0 where it is not known."""
    latency_s: float | None = None
    """Added to a message that leaves the domain; None: as the fabric has it."""
    oversubscription: float = 1.0
    """What the members of the domain can send together, divided by what its uplink carries."""
    parallel: int = 0
    """Equal links over which flows are hashed (ECMP); 0: taken as one fat link."""
    is_nvlink: bool | None = None
    """Whether the domain is one NVLink domain, so that inside it GPUs need no NIC; None: as the
    fabric has it."""

    def __post_init__(self) -> None:
        assert self.parallel >= 0
        assert self.bytes_per_s >= 0.0
        assert self.latency_s is None or self.latency_s >= 0.0
        assert self.oversubscription > 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One rung of the topology. `node` (the first) and `cluster` (the last) are implicit."""

    name: LevelName
    label: str = ""
    """Key of the node label whose value names the domain at this level."""
    uplink: Uplink = Uplink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine as the cluster reports it."""

    name: NodeName
    gpus: int
    """GPUs that our workers may use when the node is empty (foreign use already subtracted)."""
    gpus_foreign: int = 0
    """GPUs that pods of others hold at present; they come on top of `gpus`."""
    gpu_indices: tuple[int, ...] | None = None
    """Numbers of its GPUs where we say which worker gets which; None where the cluster says."""
    gpu_model: GpuModel = GpuModel("")
    resources: Resources = NOTHING
    """What our workers may use when the node is empty (foreign use already subtracted)."""
    resources_foreign: Resources = NOTHING
    """What pods of others hold at present, on top of `resources`."""
    workers_max: int | None = None
    """Pods of ours that the node takes at most; None for no limit."""
    overdrawn: tuple[str, ...] = ()
    """Resources of which others hold more than the node has: counted as 0, and reported."""
    path: tuple[str, ...] = ()
    """Domain value per level above `node`, widest first; "" where the label is missing."""
    labels: Mapping[str, str] = field(default_factory=dict)
    pool: PoolName = PoolName("default")
    is_ready: bool = True
    is_cordoned: bool = False
    unready_reason: str = ""
    taints: tuple[str, ...] = ()
    """Taints that our workers do not tolerate, as `key=value:effect`; they keep workers away."""
    volumes_beyond: frozenset[str] = frozenset()
    """Claims that are bound to volumes which can not be mounted here (`storage.claim_key`)."""
    exclusion: Exclusion | None = None
    """Why it is left alone for a while; None where it is not."""

    def __post_init__(self) -> None:
        assert self.gpus >= 0, self.name
        assert self.gpu_indices is None or len(self.gpu_indices) == self.gpus, self.name

    @property
    def takes_workers(self) -> bool:
        """Whether it is in order, so that new workers may come."""
        return self.is_ready and not (self.is_cordoned or self.taints or self.exclusion)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDomain:
    """One concrete node, rack, block, ...: a run of consecutive nodes of the tree."""

    level: int
    """0 is `node`."""
    path: tuple[str, ...]
    """Its identity: the names of all domains around it and its own, widest first."""
    nodes: range
    """Indices into `TopologyTree.nodes`."""
    children: range
    """Indices of its sub-domains one level closer; empty for a node."""
    parent: int
    """Index of the domain around it one level wider; -1 for the cluster."""
    is_known: bool
    """False where a label is missing: its nodes may stand anywhere, so nothing can be promised."""

    @property
    def name(self) -> str:
        """For people: the path with slashes."""
        return "/".join(part or "unknown" for part in self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyTree:
    """All topology domains of one node generation; build it with `topology_tree`."""

    levels: tuple[Level, ...]
    """Closest first: `node`, the configured levels, `cluster`."""
    nodes: tuple[NodeName, ...]
    """In topology order: the members of every domain are neighbours."""
    paths: tuple[tuple[str, ...], ...]
    """Per node, widest first, without the node's own name."""
    index_of: Mapping[NodeName, int]
    domains: tuple[tuple[TopologyDomain, ...], ...]
    """Per level, in topology order."""
    domain_of: tuple[tuple[int, ...], ...]
    """Per level and node: the index of the domain around the node."""
    homes: tuple[tuple[int, ...], ...]
    """Per node and level: the same, the other way round."""

    def level_index(self, name: LevelName) -> int | None:
        """Index of the level of that name; None if there is none."""
        for index, level in enumerate(self.levels):
            if level.name == name:
                return index
        return None

    def tier_of(self, nodes: Iterable[NodeName]) -> int:
        """The closest level at which one known domain holds all of `nodes`."""
        indices = [self.index_of[name] for name in nodes]
        first, last = min(indices), max(indices)
        for level, domain_of in enumerate(self.domain_of):
            home = domain_of[first]
            if home == domain_of[last] and self.domains[level][home].is_known:
                return level
        raise AssertionError("the cluster level holds every node")

    def matches(self, levels: Sequence[Level], nodes: Iterable[Node]) -> bool:
        """Whether a tree of these levels and nodes would be equal to this one."""
        if _all_levels(levels) != self.levels:
            return False
        width = len(self.levels) - 2
        count = 0
        for node in nodes:
            count += 1
            index = self.index_of.get(node.name)
            if index is None or self.paths[index] != _padded(node.path, width):
                return False
        return count == len(self.nodes)


def path_of(labels: Mapping[str, str], levels: Sequence[Level]) -> tuple[str, ...]:
    """The path of a node with these labels: one value per level (given closest first)."""
    values = (labels.get(level.label, "") for level in reversed(levels))
    return tuple("" if value in ABSENT_VALUES else value for value in values)


def topology_tree(levels: Sequence[Level], nodes: Iterable[Node]) -> TopologyTree:
    """The tree of `nodes` under the configured `levels` (closest first, without `node`)."""
    every_level = _all_levels(levels)
    width = len(every_level) - 2
    placed = sorted(
        ((_padded(node.path, width), node.name) for node in nodes),
        key=lambda item: (tuple((part == "", part) for part in item[0]), item[1]),
    )
    paths = tuple(path for path, _ in placed)
    names = tuple(name for _, name in placed)
    index_of = {name: index for index, name in enumerate(names)}
    assert len(index_of) == len(names), "node names are unique"
    keys: list[list[tuple[str, ...]]] = [
        [(*path, name) for path, name in placed],
        *([path[: width - step] for path in paths] for step in range(width)),
        [() for _ in placed],
    ]
    domain_of = tuple(_numbered(level_keys) for level_keys in keys)
    domains = tuple(_domains(level, keys[level], domain_of) for level in range(len(every_level)))
    return TopologyTree(
        levels=every_level,
        nodes=names,
        paths=paths,
        index_of=index_of,
        domains=domains,
        domain_of=domain_of,
        homes=tuple(zip(*domain_of, strict=True)),
    )


def _all_levels(configured: Sequence[Level]) -> tuple[Level, ...]:
    return (Level(name=NODE_LEVEL), *configured, Level(name=CLUSTER_LEVEL))


def _padded(path: tuple[str, ...], width: int) -> tuple[str, ...]:
    assert len(path) <= width, path
    return path + ("",) * (width - len(path))


def _numbered(keys: Sequence[tuple[str, ...]]) -> tuple[int, ...]:
    """Number of each key's run: equal keys are neighbours."""
    numbers: list[int] = []
    for index, key in enumerate(keys):
        if index == 0:
            numbers.append(0)
        else:
            numbers.append(numbers[-1] + (key != keys[index - 1]))
    return tuple(numbers)


def _domains(
    level: int, keys: Sequence[tuple[str, ...]], domain_of: tuple[tuple[int, ...], ...]
) -> tuple[TopologyDomain, ...]:
    found: list[TopologyDomain] = []
    start = 0
    numbers = domain_of[level]
    for stop in range(1, len(keys) + 1):
        if stop < len(keys) and numbers[stop] == numbers[start]:
            continue
        closer = domain_of[level - 1] if level > 0 else ()
        found.append(
            TopologyDomain(
                level=level,
                path=keys[start],
                nodes=range(start, stop),
                children=range(closer[start], closer[stop - 1] + 1) if level > 0 else range(0),
                parent=domain_of[level + 1][start] if level + 1 < len(domain_of) else -1,
                is_known=level == 0 or "" not in keys[start],
            )
        )
        start = stop
    return tuple(found)
