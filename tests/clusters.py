"""Clusters as pictures: one line a rack, one number a node, the GPUs that are free on it.

r1: 8 8 4      nodes r1-n0 and r1-n1 with 8 free GPUs, r1-n2 with 4 of its 8
b2/r1: 8/4     a rack in a block; a node with 4 GPUs in all, 4 of them free... written free/total
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.domain.ids import GpuModel, LevelName, NodeName
from scheduler.domain.topology import Level, Node, TopologyTree, topology_tree
from scheduler.engine.free_gpus import FreeGpus

GPUS_PER_NODE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturedNode:
    """A node of a picture and how many of its GPUs are free."""

    node: Node
    free: int


def pictured(picture: str, *, model: str = "H100-80GB") -> tuple[PicturedNode, ...]:
    """The nodes of a picture; a rack's name may carry the names of the domains around it."""
    return tuple(_nodes(picture, GpuModel(model)))


def a_tree(picture: str) -> TopologyTree:
    """The topology tree of a picture: `rack`, and `block` where the picture has blocks."""
    found = pictured(picture)
    return topology_tree(levels_of(found), (item.node for item in found))


def levels_of(nodes: tuple[PicturedNode, ...]) -> tuple[Level, ...]:
    """The levels a picture needs, closest first."""
    names = ("rack", "block", "zone")[: max(len(item.node.path) for item in nodes)]
    return tuple(Level(name=LevelName(name), label=f"example.com/{name}") for name in names)


def a_cluster(picture: str) -> FreeGpus:
    """What is free in a picture."""
    found = pictured(picture)
    nodes = [item.node for item in found]
    free = FreeGpus(topology_tree(levels_of(found), nodes), nodes)
    for item in found:
        if item.free < item.node.gpus:
            free.take_worker(item.node.name, item.node.gpus - item.free)
    return free


def _nodes(picture: str, model: GpuModel) -> Iterator[PicturedNode]:
    for line in picture.strip().splitlines():
        home, _, counts = line.strip().partition(":")
        path = tuple("" if part == "?" else part for part in home.split("/"))
        for number, count in enumerate(counts.split()):
            left, _, total = count.partition("/")
            node = Node(
                name=NodeName(f"{home.replace('/', '-')}-n{number}"),
                gpus=int(total or GPUS_PER_NODE),
                gpu_model=model,
                path=path,
            )
            yield PicturedNode(node=node, free=int(left))
