"""Clusters and gangs for the placement benchmarks: racks of 32 nodes with 8 GPUs, a stated mix."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.ids import GpuModel, LevelName, NodeName, RoleName
from scheduler.domain.placement import Placement
from scheduler.domain.topology import Level, Node, TopologyTree, topology_tree
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang

NODES_PER_RACK = 32
RACKS_PER_BLOCK = 20
GPUS_PER_NODE = 8
GPUS_PER_RACK = NODES_PER_RACK * GPUS_PER_NODE

LEVELS = (
    Level(name=LevelName("rack"), label="rack"),
    Level(name=LevelName("block"), label="block"),
)

MIX = {1: 0.40, 2: 0.15, 4: 0.15, 8: 0.20, 16: 0.05, 32: 0.03, 64: 0.02}
"""Share of gangs by GPUs: most are small and most GPUs go to large ones, as in public traces."""


def nodes_of(racks: int) -> list[Node]:
    """All nodes of so many racks."""
    return [
        Node(
            name=NodeName(f"r{rack:04d}-n{number:02d}"),
            gpus=GPUS_PER_NODE,
            gpu_model=GpuModel("H100-80GB"),
            path=(f"b{rack // RACKS_PER_BLOCK:03d}", f"r{rack:04d}"),
        )
        for rack in range(racks)
        for number in range(NODES_PER_RACK)
    ]


def tree_of(nodes: list[Node]) -> TopologyTree:
    """Their topology tree."""
    return topology_tree(LEVELS, nodes)


def a_request(gpus: int) -> GangRequest:
    """A gang of so many GPUs: whole nodes if it needs more than one."""
    workers = max(1, gpus // GPUS_PER_NODE)
    role = RoleRequest(name=RoleName("worker"), workers=workers, gpus=min(gpus, GPUS_PER_NODE))
    return GangRequest(roles=(role,))


@dataclass(slots=True, kw_only=True)
class Fleet:
    """A cluster at work: gangs end in no particular order, and others take their places."""

    free: FreeGpus
    gpus: int
    chance: random.Random
    requests: dict[int, GangRequest] = field(
        default_factory=lambda: {gpus: a_request(gpus) for gpus in MIX}
    )
    running: list[tuple[Placement, GangRequest]] = field(default_factory=list)
    held: int = 0

    def fill(self, load: float) -> None:
        """Start gangs until `load` of the GPUs are held, then replace twice as many as run."""
        for request in self.wanted():
            if self.held + request.gpus > load * self.gpus:
                break
            self.start(request)
        for request in self.wanted(2 * len(self.running)):
            self.make_room(request, load)
            self.start(request)

    def wanted(self, count: int | None = None) -> Iterator[GangRequest]:
        """Gangs by the mix."""
        sizes, shares = list(MIX), list(MIX.values())
        while count is None or count > 0:
            batch = 1024 if count is None else min(1024, count)
            for gpus in self.chance.choices(sizes, shares, k=batch):
                yield self.requests[gpus]
            count = None if count is None else count - batch

    def start(self, request: GangRequest) -> bool:
        """Place and take; False if there is no room."""
        found = place_gang(request, self.free)
        if not isinstance(found, Placement):
            return False
        self.free.take(found, request)
        self.running.append((found, request))
        self.held += request.gpus
        return True

    def make_room(self, request: GangRequest, load: float) -> None:
        """End gangs until this one would not exceed the load."""
        while self.held + request.gpus > load * self.gpus:
            placement, ended = self.any_running()
            self.free.release(placement, ended)

    def any_running(self) -> tuple[Placement, GangRequest]:
        """A gang that ends now; what it held is not released yet."""
        index = self.chance.randrange(len(self.running))
        self.running[index], self.running[-1] = self.running[-1], self.running[index]
        placement, request = self.running.pop()
        self.held -= request.gpus
        return placement, request
