"""The scratch pad of decisions: what is free on each node, with a what-if that undoes itself."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.ids import GpuModel, NodeName
from scheduler.domain.placement import Placement
from scheduler.domain.resources import NOTHING, Resources
from scheduler.domain.topology import Node, TopologyTree

_UNBOUNDED = 1_000_000
"""Workers that need nothing countable: so many fit on any node."""


class FreeGpus:
    """GPUs and other resources that nobody holds. The one mutable thing of a cycle."""

    def __init__(self, tree: TopologyTree, nodes: Iterable[Node]) -> None:
        by_name = {node.name: node for node in nodes}
        self.tree = tree
        self.nodes = tuple(by_name[name] for name in tree.nodes)
        self.models: tuple[GpuModel, ...] = tuple(
            sorted({node.gpu_model for node in self.nodes if node.gpus > 0})
        )
        self._gpus = [node.gpus for node in self.nodes]
        self._cpu_milli = [node.resources.cpu_milli for node in self.nodes]
        self._memory_bytes = [node.resources.memory_bytes for node in self.nodes]
        self._extended = [dict(node.resources.extended) for node in self.nodes]
        self._journal: list[tuple[int, int, Resources, int]] = []
        self._trials = 0

    def gpus_on(self, name: NodeName) -> int:
        """Free GPUs of a node; negative if more is held than it has."""
        return self._gpus[self.tree.index_of[name]]

    def take(self, placement: Placement, request: GangRequest) -> None:
        """The workers of `placement` now hold what `request` asks for."""
        for index, gpus, resources in self._held(placement, request):
            self._change(index, gpus, resources, -1)

    def release(self, placement: Placement, request: GangRequest) -> None:
        """The workers of `placement` hold nothing any more."""
        for index, gpus, resources in self._held(placement, request):
            self._change(index, gpus, resources, 1)

    def take_worker(self, name: NodeName, gpus: int, resources: Resources = NOTHING) -> None:
        """One worker on a node of the tree holds this; other nodes are ignored."""
        index = self.tree.index_of.get(name)
        if index is not None:
            self._change(index, gpus, resources, -1)

    def release_worker(self, name: NodeName, gpus: int, resources: Resources = NOTHING) -> None:
        """The opposite of `take_worker`."""
        index = self.tree.index_of.get(name)
        if index is not None:
            self._change(index, gpus, resources, 1)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Whatever changes inside is put back after; trials may be nested."""
        mark = len(self._journal)
        self._trials += 1
        try:
            yield
        finally:
            self._trials -= 1
            undone = self._journal[mark:]
            del self._journal[mark:]
            for index, gpus, resources, sign in reversed(undone):
                self._apply(index, gpus, resources, -sign)

    def workers_fit(self, index: int, role: RoleRequest) -> int:
        """How many workers of `role` the node at `index` has room for, eligible or not."""
        bounds = [_UNBOUNDED]
        if role.gpus:
            bounds.append(self._gpus[index] // role.gpus)
        if role.resources.cpu_milli:
            bounds.append(self._cpu_milli[index] // role.resources.cpu_milli)
        if role.resources.memory_bytes:
            bounds.append(self._memory_bytes[index] // role.resources.memory_bytes)
        extended = self._extended[index]
        bounds.extend(extended.get(name, 0) // need for name, need in role.resources.extended)
        return max(0, min(bounds))

    def _held(
        self, placement: Placement, request: GangRequest
    ) -> Iterator[tuple[int, int, Resources]]:
        roles: Mapping[str, RoleRequest] = {role.name: role for role in request.roles}
        for assignment in placement.assignments:
            index = self.tree.index_of.get(assignment.node)
            role = roles[assignment.role]
            if index is None:
                continue
            for _ in range(assignment.workers):
                yield index, role.gpus, role.resources

    def _change(self, index: int, gpus: int, resources: Resources, sign: int) -> None:
        self._apply(index, gpus, resources, sign)
        if self._trials:
            self._journal.append((index, gpus, resources, sign))

    def _apply(self, index: int, gpus: int, resources: Resources, sign: int) -> None:
        self._gpus[index] += sign * gpus
        self._cpu_milli[index] += sign * resources.cpu_milli
        self._memory_bytes[index] += sign * resources.memory_bytes
        extended = self._extended[index]
        for name, need in resources.extended:
            extended[name] = extended.get(name, 0) + sign * need
