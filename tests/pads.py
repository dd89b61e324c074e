"""Scratch pads as pictures: one line a rack, one number a node, the GPUs that are free on it.

r1: 8 8 4      nodes r1-n0 and r1-n1 with 8 free GPUs, r1-n2 with 4 of its 8
b2/r1: 2/4     a rack in a block; a node with 4 GPUs, 2 of them free
?: 8           nodes that miss the label of their rack
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.ids import GpuModel, LevelName, NodeName, RoleName
from scheduler.domain.job import Slice
from scheduler.domain.placement import Placement
from scheduler.domain.resources import NOTHING, Resources
from scheduler.domain.topology import Level, Node, topology_tree
from scheduler.engine.free_gpus import FreeGpus

GPUS_PER_NODE = 8
LEVELS = ("rack", "block", "zone")


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturedNode:
    """A node of a picture and how many of its GPUs are free."""

    node: Node
    free: int


def pictured(picture: str, *, model: str = "H100-80GB") -> tuple[PicturedNode, ...]:
    """The nodes of a picture; a rack's name may carry the names of the domains around it."""
    return tuple(_nodes(picture, GpuModel(model)))


def a_pad(picture: str | Sequence[PicturedNode]) -> FreeGpus:
    """What is free in a picture."""
    found = pictured(picture) if isinstance(picture, str) else picture
    depth = max((len(item.node.path) for item in found), default=0)
    levels = [Level(name=LevelName(name), label=name) for name in LEVELS[:depth]]
    nodes = [item.node for item in found]
    free = FreeGpus(topology_tree(levels, nodes), nodes)
    for item in found:
        if item.free < item.node.gpus:
            free.take_worker(item.node.name, item.node.gpus - item.free)
    return free


def a_role_request(
    name: str = "worker",
    *,
    workers: int = 1,
    gpus: int = 8,
    resources: Resources = NOTHING,
    slices: Sequence[tuple[int, str]] = (),
    spread: tuple[str, int] | None = None,
) -> RoleRequest:
    """A role; slices as (workers, level), widest first; spread as (level, most workers)."""
    return RoleRequest(
        name=RoleName(name),
        workers=workers,
        gpus=gpus,
        resources=resources,
        slices=tuple(Slice(workers=size, within=LevelName(level)) for size, level in slices),
        spread_by=LevelName(spread[0]) if spread else None,
        spread_workers_max=spread[1] if spread else 0,
    )


def a_gang(
    workers: int = 1,
    gpus: int = 8,
    *,
    required: str = "",
    resources: Resources = NOTHING,
    slices: Sequence[tuple[int, str]] = (),
    spread: tuple[str, int] | None = None,
    roles: Sequence[RoleRequest] = (),
    models: Sequence[str] = (),
    excluded: Sequence[str] = (),
) -> GangRequest:
    """A gang; `roles` replaces the one role that the other arguments describe."""
    made = tuple(roles) or (
        a_role_request(
            workers=workers, gpus=gpus, resources=resources, slices=slices, spread=spread
        ),
    )
    return GangRequest(
        roles=made,
        required=LevelName(required) if required else None,
        models=tuple(GpuModel(model) for model in models),
        excluded=frozenset(NodeName(name) for name in excluded),
    )


def spots(placement: Placement, role: str = "worker") -> dict[str, int]:
    """Workers of one role per node."""
    return {a.node: a.workers for a in placement.assignments if a.role == role}


def _nodes(picture: str, model: GpuModel) -> Iterator[PicturedNode]:
    for line in picture.strip().splitlines():
        home, _, counts = line.strip().partition(":")
        path = tuple("" if part == "?" else part for part in home.split("/"))
        for number, count in enumerate(counts.split()):
            left, _, total = count.partition("/")
            gpus = int(total or max(GPUS_PER_NODE, int(left)))
            node = Node(
                name=NodeName(f"{home.replace('/', '-')}-n{number}"),
                gpus=gpus,
                gpu_model=model,
                path=path,
            )
            yield PicturedNode(node=node, free=int(left))
