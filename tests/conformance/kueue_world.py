"""The cluster of a Kueue case as ours: which nodes there are, what is free, who may use them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from scheduler.domain.gang import NodeFilter
from scheduler.domain.ids import LevelName, NodeName
from scheduler.domain.resources import Resources
from scheduler.domain.topology import NODE_LEVEL, Level, Node, topology_tree
from scheduler.engine.free_gpus import FreeGpus
from tests.conformance.forms import Json, UnreadableCaseError
from tests.conformance.selecting import (
    matches_labels,
    matches_term,
    matches_terms,
    untolerated,
)

HOSTNAME = "kubernetes.io/hostname"

Spots = Mapping[tuple[str, ...], int]
"""Pods per lowest domain, which is named by its full path."""


class KueueWorld:
    """Levels, nodes and free capacity of one case; its lowest level is our `node`."""

    def __init__(self, case: Json) -> None:
        self.keys: list[str] = case["levels"]
        self.is_host_lowest = self.keys[-1] == HOSTNAME
        self._members: dict[NodeName, list[Json]] = {}
        self._paths = {
            node["labels"][HOSTNAME]: self._path(node)
            for node in case["nodes"]
            if HOSTNAME in node["labels"]
        }
        pool = case.get("pool_node_labels") or {}
        for node in case["nodes"]:
            if _is_usable(node, self.keys) and matches_labels(node["labels"], pool):
                self._members.setdefault(self._name(self._path(node)), []).append(node)
        self._path_of = {name: self._path(nodes[0]) for name, nodes in self._members.items()}
        made = [self._node(name, nodes) for name, nodes in self._members.items()]
        above = [Level(name=LevelName(key), label=key) for key in reversed(self.keys[:-1])]
        self.free = FreeGpus(topology_tree(above, made), made)
        for use in case.get("already_placed") or ():
            self._use(use)

    @property
    def is_empty(self) -> bool:
        """Whether no node is left."""
        return not self._members

    def level(self, key: str) -> LevelName:
        """Our name for a level of the case."""
        return NODE_LEVEL if key == self.keys[-1] else LevelName(key)

    def index(self, key: str) -> int:
        """Place of a level, the widest first; -1 if there is no such level."""
        return self.keys.index(key) if key in self.keys else -1

    def has(self, path: tuple[str, ...]) -> bool:
        """Whether the lowest domain of that path is in use."""
        return self._name(path) in self._members

    def node_at(self, domain: Sequence[str]) -> NodeName:
        """Our node for a domain as cases write it: the host alone, or the full path."""
        return self._name(self.path_at(domain))

    def path_at(self, domain: Sequence[str]) -> tuple[str, ...]:
        """The full path of a domain as cases write it."""
        if len(domain) == len(self.keys) or not self.is_host_lowest:
            return tuple(domain)
        path = self._paths.get(domain[-1])
        if path is None:
            raise UnreadableCaseError(f"there is no node {'/'.join(domain)}")
        return path

    def path_of(self, name: NodeName) -> tuple[str, ...]:
        """The full path of one of our nodes."""
        return self._path_of[name]

    def spots_of(self, assignment: Sequence[Json]) -> Spots:
        """An assignment as a case writes it."""
        spots: Counter[tuple[str, ...]] = Counter()
        for part in assignment:
            spots[self.path_at(part["domain"])] += part["count"]
        return spots

    def domains_used(self, spots: Spots) -> list[int]:
        """How many domains of each level are used, the widest level first."""
        return [len({path[: depth + 1] for path in spots}) for depth in range(len(self.keys))]

    def filters(self, request: Json, case: Json) -> tuple[NodeFilter, ...]:
        """What keeps pods away from nodes; only where the lowest level is a host, as in Kueue."""
        if not self.is_host_lowest:
            return ()
        tolerations = [*(request.get("tolerations") or ()), *(case.get("pool_tolerations") or ())]
        required = (request.get("node_affinity") or {}).get("required") or []
        selector = request.get("node_selector") or {}
        return (
            self._filter("Tainted", lambda n: not untolerated(n.get("taints") or (), tolerations)),
            self._filter("NodeSelector", lambda n: matches_labels(n["labels"], selector)),
            self._filter(
                "NodeAffinity", lambda n: not required or matches_terms(n["labels"], required)
            ),
        )

    def preferences(self, request: Json) -> dict[NodeName, int]:
        """Weights of nodes, by the preferred affinity terms that they match."""
        preferred = (request.get("node_affinity") or {}).get("preferred") or []
        weights = {
            name: sum(
                term["weight"] for term in preferred if matches_term(nodes[0]["labels"], term)
            )
            for name, nodes in self._members.items()
        }
        return {name: weight for name, weight in weights.items() if weight}

    def _filter(self, reason: str, may_use: Callable[[Json], bool]) -> NodeFilter:
        return NodeFilter(
            reason=reason,
            allowed=frozenset(
                name
                for name, nodes in self._members.items()
                if all(may_use(node) for node in nodes)
            ),
        )

    def _path(self, node: Json) -> tuple[str, ...]:
        return tuple(node["labels"].get(key) or "" for key in self.keys)

    def _name(self, path: tuple[str, ...]) -> NodeName:
        return NodeName(path[-1] if self.is_host_lowest else "/".join(path))

    def _node(self, name: NodeName, members: Sequence[Json]) -> Node:
        free: Counter[str] = Counter()
        for member in members:
            free.update(member["free"])
        return Node(
            name=name,
            gpus=0,
            path=self._path(members[0])[:-1],
            resources=resources_of({key: max(0, amount) for key, amount in free.items()}),
            workers_max=max(0, free["pods"]),
        )

    def _use(self, use: Json) -> None:
        node = self.node_at(use["domain"])
        if self.has(self.path_at(use["domain"])):
            index = self.free.tree.index_of[node]
            self.free.change(index, 0, -use["count"], resources_of(use["per_pod"]))


def resources_of(amounts: Mapping[str, int]) -> Resources:
    """Amounts as cases write them, without pods and what is not asked for."""
    others = {
        key: amount
        for key, amount in amounts.items()
        if key not in {"cpu", "memory", "pods"} and amount
    }
    return Resources(
        cpu_milli=amounts.get("cpu", 0),
        memory_bytes=amounts.get("memory", 0),
        extended=tuple(sorted(others.items())),
    )


def _is_usable(node: Json, keys: Sequence[str]) -> bool:
    """Whether Kueue takes a node into its topology at all."""
    has_levels = all(node["labels"].get(key) for key in keys)
    return bool(has_levels and node.get("ready", True) and node.get("schedulable", True))
