"""What is free on every node, as arrays that change in place, and what crosses every uplink.

Who keeps counts of his own reads the log of changed nodes from where he stopped last time.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from scheduler.domain.gang import GangRequest
from scheduler.domain.ids import GpuModel, NodeName
from scheduler.domain.placement import Placement
from scheduler.domain.reservation import Reservation
from scheduler.domain.resources import NOTHING, Resources
from scheduler.domain.topology import Node, TopologyTree

SEATS_UNLIMITED = 1 << 20
"""Workers a node takes when nothing says how many."""

_SHUT = 1 << 40
"""Taken off a node's seats and GPUs while it is shut: more than any node has."""


class _Change(NamedTuple):
    """One change of a node: positive is freed. Resources are those of one worker."""

    node: int
    gpus: int
    workers: int
    resources: Resources


class FreeNodes:
    """The scratch pad: GPUs, seats, CPU, memory and other resources that nobody holds."""

    def __init__(self, tree: TopologyTree, nodes: Iterable[Node]) -> None:
        by_name = {node.name: node for node in nodes}
        self.tree = tree
        self.nodes: tuple[Node, ...] = tuple(by_name[name] for name in tree.nodes)
        """In the order of the tree, as all arrays here."""
        self.models: tuple[GpuModel, ...] = tuple(
            sorted({node.gpu_model for node in self.nodes if node.gpus > 0})
        )
        self.gpus_max = max((node.gpus for node in self.nodes), default=0)
        self.gpus = [node.gpus for node in self.nodes]
        self.seats = [
            SEATS_UNLIMITED if node.workers_max is None else node.workers_max for node in self.nodes
        ]
        self.cpu_milli = [node.resources.cpu_milli for node in self.nodes]
        self.memory_bytes = [node.resources.memory_bytes for node in self.nodes]
        self.extended = [dict(node.resources.extended) for node in self.nodes]
        self.uplinks = [[0] * len(domains) for domains in tree.domains]
        """Per level and domain: gangs that lie partly inside and partly outside."""
        self.log: list[int] = []
        """Nodes that changed, oldest first."""
        self.log_start = 0
        """Changes that have been dropped from the front of the log."""
        self.uplink_log: list[tuple[int, int]] = []
        """(level, domain) of uplinks above nodes that changed; those of nodes stand in the log."""
        self.uplink_log_start = 0
        self.counts_seats = any(node.workers_max is not None for node in self.nodes)
        """Whether any node limits how many workers it takes."""
        self._log_max = 4 * len(self.nodes) + 1024
        self._journal: list[_Change] = []
        self._uplink_journal: list[tuple[int, int, int]] = []
        self._trials = 0

    def gpus_on(self, name: NodeName) -> int:
        """Free GPUs of a node; 0 if more is held than it has."""
        return max(0, self.gpus[self.tree.index_of[name]])

    def overdrawn(self) -> tuple[tuple[NodeName, str], ...]:
        """Nodes of which more is held than they have, with the name of the resource."""
        kinds = (self.gpus, self.seats, self.cpu_milli, self.memory_bytes)
        if not any(self.extended) and min(min(kind, default=0) for kind in kinds) >= 0:
            return ()
        found: list[tuple[NodeName, str]] = []
        for index, name in enumerate(self.tree.nodes):
            left = {
                "gpus": self.gpus[index],
                "workers": self.seats[index],
                "cpu": self.cpu_milli[index],
                "memory": self.memory_bytes[index],
                **self.extended[index],
            }
            found.extend((name, resource) for resource, have in left.items() if have < 0)
        return tuple(found)

    def take(self, placement: Placement, request: GangRequest) -> None:
        """The workers of `placement` now hold what `request` asks for."""
        self._apply(placement, request, -1)

    def release(self, placement: Placement, request: GangRequest) -> None:
        """The workers of `placement` hold nothing any more."""
        self._apply(placement, request, 1)

    def take_worker(self, name: NodeName, gpus: int, resources: Resources = NOTHING) -> None:
        """One worker on a node holds this; nodes outside the tree are ignored."""
        index = self.tree.index_of.get(name)
        if index is not None:
            self.change(index, -gpus, -1, resources)

    def release_worker(self, name: NodeName, gpus: int, resources: Resources = NOTHING) -> None:
        """The opposite of `take_worker`."""
        index = self.tree.index_of.get(name)
        if index is not None:
            self.change(index, gpus, 1, resources)

    def hold(self, reservations: Sequence[Reservation]) -> None:
        """One gang holds what is reserved for it."""
        self._hold(reservations, -1)

    def let_go(self, reservations: Sequence[Reservation]) -> None:
        """The opposite of `hold`, of the same reservations."""
        self._hold(reservations, 1)

    def trial(self) -> "_Trial":
        """Whatever changes inside is put back after; trials may be nested."""
        return _Trial(self)

    def begin_trial(self) -> tuple[int, int]:
        """Where the journals stand: what comes after is put back by `end_trial`."""
        self._trials += 1
        return len(self._journal), len(self._uplink_journal)

    def end_trial(self, mark: int, uplink_mark: int) -> None:
        """Put back what has changed since the trial that began there."""
        self._trials -= 1
        undone, undone_uplinks = self._journal[mark:], self._uplink_journal[uplink_mark:]
        del self._journal[mark:], self._uplink_journal[uplink_mark:]
        trials, self._trials = self._trials, 0
        for change in reversed(undone):
            self.change(change.node, -change.gpus, -change.workers, change.resources)
        for level, domain, by in reversed(undone_uplinks):
            self._cross(level, (domain,), -by)
        self._trials = trials

    @contextmanager
    def without(self, names: Iterable[NodeName]) -> Iterator[None]:
        """Inside, no worker fits on these nodes."""
        shut = [self.tree.index_of[name] for name in names if name in self.tree.index_of]
        self.shut(shut)
        try:
            yield
        finally:
            self.open(shut)

    def shut(self, indices: Iterable[int]) -> None:
        """No worker fits on these nodes until they are opened."""
        self._shut(indices, -_SHUT)

    def open(self, indices: Iterable[int]) -> None:
        """The opposite of `shut`."""
        self._shut(indices, _SHUT)

    def change(self, index: int, gpus: int, workers: int, resources: Resources) -> None:
        """Free (or, negative, take) `gpus` in all and the resources of `workers` on one node."""
        self.gpus[index] += gpus
        self.seats[index] += workers
        if resources is not NOTHING:
            self._change_resources(index, workers, resources)
        self.log.append(index)
        if self._trials:
            self._journal.append(_Change(index, gpus, workers, resources))

    def _change_resources(self, index: int, workers: int, resources: Resources) -> None:
        self.cpu_milli[index] += workers * resources.cpu_milli
        self.memory_bytes[index] += workers * resources.memory_bytes
        if resources.extended:
            extended = self.extended[index]
            for name, need in resources.extended:
                extended[name] = extended.get(name, 0) + workers * need

    def changed_since(self, place: int) -> Sequence[int]:
        """Nodes that changed after a place in the log; all of them where that is simpler."""
        start = place - self.log_start
        if start < 0 or len(self.log) - start > len(self.nodes):
            return range(len(self.nodes))
        return self.log[start:]

    def _apply(self, placement: Placement, request: GangRequest, sign: int) -> None:
        index_of, roles, log = self.tree.index_of, request.roles, self.log
        start = len(log)
        if len(roles) == 1 and roles[0].resources is NOTHING and not self._trials:
            # The same without what is not needed here: this is done for every worker.
            each, gpus, seats = sign * roles[0].gpus, self.gpus, self.seats
            for assignment in placement.assignments:
                index = index_of.get(assignment.node)
                if index is not None:
                    gpus[index] += each * assignment.workers
                    seats[index] += sign * assignment.workers
                    log.append(index)
        else:
            for assignment in placement.assignments:
                index = index_of.get(assignment.node)
                if index is not None:
                    role = request.role(assignment.role)
                    workers = sign * assignment.workers
                    self.change(index, workers * role.gpus, workers, role.resources)
        if placement.tier:
            self._cross_all(set(log[start:]), -sign)
        if len(log) > self._log_max:
            self._forget_log()

    def _hold(self, reservations: Sequence[Reservation], sign: int) -> None:
        index_of, log = self.tree.index_of, self.log
        start = len(log)
        for held in reservations:
            index = index_of.get(held.node)
            if index is not None:
                self.change(index, sign * held.gpus, sign, held.resources)
        self._cross_all(set(log[start:]), -sign)
        if len(log) > self._log_max:
            self._forget_log()

    def _cross_all(self, nodes: set[int], by: int) -> None:
        """A gang on these nodes begins (1) or ceases (-1) to send over the uplinks between them."""
        level, crossed = 0, nodes
        while len(crossed) > 1:
            self._cross(level, crossed, by)
            domains = self.tree.domains[level]
            crossed = {domains[domain].parent for domain in crossed}
            level += 1

    def _cross(self, level: int, crossed: Collection[int], by: int) -> None:
        uplinks = self.uplinks[level]
        for domain in crossed:
            uplinks[domain] += by
        if level:
            self.uplink_log += [(level, domain) for domain in crossed]
        if self._trials:
            self._uplink_journal += [(level, domain, by) for domain in crossed]

    def _shut(self, indices: Iterable[int], by: int) -> None:
        for index in indices:
            self.gpus[index] += by
            self.seats[index] += by
            self.log.append(index)

    def _forget_log(self) -> None:
        """Drop what those who keep up have read; who has not looks at every node anyway."""
        dropped = len(self.log) - len(self.nodes)
        self.log_start += dropped
        del self.log[:dropped]
        self.uplink_log_start += len(self.uplink_log)
        self.uplink_log.clear()


class _Trial:
    """One trial; entered once."""

    __slots__ = ("_free", "_marks")

    def __init__(self, free: FreeNodes) -> None:
        self._free = free
        self._marks = (0, 0)

    def __enter__(self) -> None:
        self._marks = self._free.begin_trial()

    def __exit__(self, *_: object) -> None:
        self._free.end_trial(*self._marks)
