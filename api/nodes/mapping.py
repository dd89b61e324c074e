"""Nodes and topology -> what the server says of them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from api.nodes.schemas import DomainView, LevelView, NodeView, TopologyView
from api.times import render_instant
from scheduler.domain.cordon import Cordon
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import NodeName
from scheduler.domain.reservation import Reservation
from scheduler.domain.topology import NODE_LEVEL, Level, Node, TopologyTree, topology_tree


def gpus_held_by_node(reservations: Iterable[Reservation]) -> Counter[NodeName]:
    """GPUs that jobs hold on each node."""
    held: Counter[NodeName] = Counter()
    for reservation in reservations:
        held[reservation.node] += reservation.gpus
    return held


def to_node(
    node: Node,
    levels: Sequence[Level],
    *,
    gpus_held: int,
    jobs: list[str],
    cordon: Cordon | None,
    exclusion: Exclusion | None,
) -> NodeView:
    """One node with what is held on it, what an admin says of it, and why it is left alone now."""
    return NodeView(
        name=node.name,
        pool=node.pool,
        gpu_model=node.gpu_model,
        gpus=node.gpus,
        gpus_held=gpus_held,
        gpus_foreign=node.gpus_foreign,
        cpus=node.resources.cpu_milli / 1000,
        memory_bytes=node.resources.memory_bytes,
        path={level.name: part for level, part in zip(levels, reversed(node.path), strict=False)},
        labels=dict(node.labels),
        taints=list(node.taints),
        is_ready=node.is_ready,
        is_cordoned=node.is_cordoned or cordon is not None,
        is_draining=cordon is not None and cordon.is_drain,
        cordon_reason="" if cordon is None else cordon.reason,
        cordoned_by="" if cordon is None else cordon.by,
        left_alone_reason="" if exclusion is None else exclusion.reason,
        left_alone_until=None if exclusion is None else render_instant(exclusion.until),
        unready_reason=node.unready_reason,
        jobs=jobs,
    )


def to_topology(
    levels: Sequence[Level], nodes: Sequence[Node], held: Mapping[NodeName, int]
) -> TopologyView:
    """The whole tree, widest domain first."""
    tree = topology_tree(levels, nodes)
    gpus = {node.name: node.gpus for node in nodes}
    widest = len(tree.levels) - 1
    return TopologyView(
        levels=[LevelView(name=level.name, label=level.label) for level in tree.levels],
        domains=[
            _domain(tree, widest, number, gpus, held) for number in range(len(tree.domains[widest]))
        ],
    )


def _domain(
    tree: TopologyTree,
    level: int,
    number: int,
    gpus: Mapping[NodeName, int],
    held: Mapping[NodeName, int],
) -> DomainView:
    domain = tree.domains[level][number]
    members = [tree.nodes[index] for index in domain.nodes]
    is_lowest = tree.levels[level - 1].name == NODE_LEVEL
    return DomainView(
        level=tree.levels[level].name,
        name=domain.name,
        is_known=domain.is_known,
        nodes=len(members),
        gpus=sum(gpus[name] for name in members),
        gpus_held=sum(held.get(name, 0) for name in members),
        domains=[]
        if is_lowest
        else [_domain(tree, level - 1, child, gpus, held) for child in domain.children],
        node_names=list(members) if is_lowest else [],
    )
