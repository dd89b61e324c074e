"""Nodes in our words: GPUs by what the node allots, less what pods of others hold; fits and starts
smoothed, so that a flapping device plugin or kubelet neither moves gangs nor draws new ones.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from queue import SimpleQueue

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.amounts import CPU, MEMORY, PODS, amounts_at, request_of, whole
from scheduler.adapters.kubernetes.cache import Change
from scheduler.adapters.kubernetes.objects import (
    JsonObject,
    Uid,
    at,
    condition_of,
    instant_of,
    labels_of,
    name_of,
    parts,
    text,
    uid_of,
)
from scheduler.adapters.kubernetes.reach import Reach
from scheduler.adapters.kubernetes.suspicion import Failure, SuspicionRules, Suspicions
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import GpuModel, JobId, NodeName, PoolName
from scheduler.domain.instants import Instant, after, seconds
from scheduler.domain.job import Outcome
from scheduler.domain.presets import find_topology
from scheduler.domain.resources import Resources, remainder
from scheduler.domain.topology import Level, Node, path_of

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
MODEL_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")

TOLERATED_TAINTS = frozenset(
    {
        *GPU_RESOURCES,
        names.POOL_TAINT,
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
    }
)
"""Taints our pods tolerate, or that say again what readiness and cordon say."""

_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_NO_AMOUNT = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes that belong together, by their labels."""

    name: PoolName
    selector: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRules:
    """How node objects are read."""

    levels: tuple[Level, ...] = ()
    """Levels with their labels, closest first; none: what the labels of the nodes show."""
    pools: tuple[Pool, ...] = ()
    gpu_resources: tuple[str, ...] = GPU_RESOURCES
    counted: tuple[str, ...] = ()
    """Other resources that workers may ask for, sorted: devices, huge pages."""
    shrunk_after_s: float = 60.0
    """GPUs that are missing for less time are only not given to anybody new."""
    ready_after_s: float = 10.0
    """A node that was not ready must have been well for so long before it is used again."""
    suspicion: SuspicionRules = field(default_factory=SuspicionRules)


@dataclass(slots=True)
class _Known:
    """What is remembered of one node."""

    seen: JsonObject
    gpus: int = -1
    """As last believed; -1 before the first look."""
    shrunk_at: float | None = None
    unready_at: float | None = None
    well_since: float | None = None
    replaced: bool = False
    """The name belonged to another machine, whose pods may still be there."""


class NodeBook:
    """All nodes; told of changes by caches, asked by `observe`. From any thread."""

    def __init__(
        self,
        rules: NodeRules,
        *,
        namespaces: tuple[str, ...] = (),
        has_older_pods: Callable[[NodeName, Instant], bool] = lambda _node, _since: False,
        now: Callable[[], float] = time.monotonic,
        instant: Callable[[], Instant] = lambda: Instant(0),
    ) -> None:
        """`namespaces`: where gangs may be.
        `has_older_pods`: whether pods of ours on a node are older than the node itself.
        `now` tells how time passes, `instant` what the clock of the service says."""
        self._rules = rules
        self._has_older_pods = has_older_pods
        self._now = now
        self._instant = instant
        self._lock = threading.RLock()
        self._known: dict[NodeName, _Known] = {}
        self._uids: dict[NodeName, Uid] = {}
        self._held: dict[NodeName, dict[Uid, Mapping[str, Decimal]]] = {}
        """What pods of others hold, by node and pod."""
        self._excluded: dict[NodeName, tuple[float, Exclusion]] = {}
        """Until when a node is left alone, by `now`, and what of it is told."""
        self._to_exclude: SimpleQueue[tuple[NodeName, str, float]] = SimpleQueue()
        self._suspicions = Suspicions(rules.suspicion)
        self._reach = Reach(namespaces)
        self._failures: SimpleQueue[Failure] = SimpleQueue()
        self._is_changed = True
        self._look_at: float | None = None
        """When the passing of time alone changes something."""
        self._nodes: tuple[Node, ...] = ()
        self._levels: tuple[Level, ...] = rules.levels

    def on_nodes(self, changes: list[Change]) -> None:
        """Node objects have changed."""
        with self._lock:
            for change in changes:
                self._take_node(change)
            self._is_changed = True

    def on_volumes(self, changes: list[Change]) -> None:
        """PersistentVolumes have come, changed or gone."""
        with self._lock:
            self._is_changed = self._reach.take_volumes(changes) or self._is_changed

    def on_foreign_pods(self, changes: list[Change]) -> None:
        """Pods of others have come, changed or gone."""
        with self._lock:
            for change in changes:
                if change.before is not None:
                    node = NodeName(text(change.before, "spec", "nodeName"))
                    self._held.get(node, {}).pop(uid_of(change.before), None)
                if change.after is not None and _holds(change.after):
                    node = NodeName(text(change.after, "spec", "nodeName"))
                    held = self._held.setdefault(node, {})
                    held[uid_of(change.after)] = request_of(change.after).amounts
            self._is_changed = True

    def exclude(self, node: NodeName, reason: str, *, for_s: float) -> None:
        """Do not use a node for a while."""
        # Only noted, without the lock: whoever calls may hold the lock of a cache, which a look at
        # the nodes may wait for.
        self._to_exclude.put((node, reason, for_s))

    def note_failure(self, node: NodeName, job: JobId, outcome: Outcome) -> None:
        """The first worker of a gang has ended badly there; only noted, as in `exclude`."""
        self._failures.put(Failure(node=node, job=job, outcome=outcome, at_s=self._now()))

    def gpu_resource(self, node: NodeName) -> str:
        """Name of the resource that a node's GPUs are."""
        with self._lock:
            known = self._known.get(node)
            return _gpu_resource(known.seen if known else {}, self._rules.gpu_resources)

    def exists(self, node: NodeName) -> bool:
        """Whether there is such a node."""
        with self._lock:
            return node in self._known

    def view(self) -> tuple[tuple[Level, ...], tuple[Node, ...]]:
        """Levels and nodes now; the same tuples while nothing has changed."""
        with self._lock:
            now = self._now()
            self._note_exclusions()
            if self._is_changed or (self._look_at is not None and now >= self._look_at):
                self._renew(now)
            return self._levels, self._nodes

    def _note_exclusions(self) -> None:
        while not self._to_exclude.empty():
            node, reason, for_s = self._to_exclude.get()
            self._leave_alone(node, reason, for_s=for_s)
        while not self._failures.empty():
            failure = self._failures.get()
            if suspicion := self._suspicions.note(failure):
                self._leave_alone(
                    failure.node,
                    suspicion.reason,
                    for_s=self._rules.suspicion.excluded_s,
                    is_for_programs=suspicion.is_for_programs,
                )

    def _leave_alone(
        self, node: NodeName, reason: str, *, for_s: float, is_for_programs: bool = False
    ) -> None:
        # The last trouble is told, though an earlier one would last longer: what is stored of that
        # one goes on, unless an admin has ended it, which is not known here.
        until_s, since = self._now() + for_s, self._instant()
        exclusion = Exclusion(
            reason=reason,
            since=since,
            until=after(since, seconds(for_s)),
            is_for_programs=is_for_programs,
        )
        self._excluded[node] = (until_s, exclusion)
        self._is_changed = True

    def _take_node(self, change: Change) -> None:
        if change.after is None:
            assert change.before is not None
            self._known.pop(NodeName(name_of(change.before)), None)
            self._reach.take_node(NodeName(name_of(change.before)), None)
            return
        name = NodeName(name_of(change.after))
        self._reach.take_node(name, change.after)
        known = self._known.setdefault(name, _Known(seen=change.after))
        if known.gpus < 0:
            # What it has at first sight is believed, also if nobody asks before it changes.
            known.gpus = self._allotted_gpus(change.after)
        last_uid = self._uids.get(name)
        if last_uid is not None and last_uid != uid_of(change.after):
            gpus = self._allotted_gpus(change.after)
            self._known[name] = known = _Known(seen=change.after, gpus=gpus, replaced=True)
        self._uids[name] = uid_of(change.after)
        known.seen = change.after

    def _renew(self, now: float) -> None:
        self._is_changed = False
        self._look_at = None
        self._excluded = {n: e for n, e in self._excluded.items() if e[0] > now}
        for until_s, _ in self._excluded.values():
            self._look_again_at(until_s)
        if not self._rules.levels:
            labels = [labels_of(known.seen) for _, known in sorted(self._known.items())]
            self._levels = find_topology(labels).levels
        nodes = tuple(self._node(name, known, now) for name, known in sorted(self._known.items()))
        if nodes != self._nodes:
            self._nodes = nodes

    def _look_again_at(self, at_s: float) -> None:
        self._look_at = at_s if self._look_at is None else min(self._look_at, at_s)

    def _node(self, name: NodeName, known: _Known, now: float) -> Node:
        seen = known.seen
        labels = labels_of(seen)
        allotted = amounts_at(seen, "status", "allocatable")
        held = self._foreign_use(name)
        gpu = _gpu_resource(seen, self._rules.gpu_resources)
        gpus, shrunk = self._smoothed_gpus(known, self._allotted_gpus(seen), now)
        unready = self._unready_reason(name, known, now)
        others = min(gpus, whole(held.get(gpu, _NO_AMOUNT)))
        foreign = _resources(held, self._rules.counted)
        left = remainder(_resources(allotted, self._rules.counted), foreign)
        return Node(
            name=name,
            gpus=gpus - others,
            gpus_foreign=others,
            gpu_model=GpuModel(next((labels[key] for key in MODEL_LABELS if key in labels), "")),
            resources=left.resources,
            resources_foreign=foreign,
            overdrawn=left.overdrawn,
            workers_max=max(0, whole(allotted.get(PODS, _NO_AMOUNT)) - whole(held[PODS])),
            path=path_of(labels, self._levels),
            labels=labels,
            pool=self._pool_of(labels),
            is_ready=not unready,
            is_cordoned=at(seen, "spec", "unschedulable") is True,
            unready_reason=unready,
            taints=(*_taints(seen), *shrunk),
            volumes_beyond=self._reach.beyond(name),
            exclusion=self._excluded[name][1] if name in self._excluded else None,
        )

    def _allotted_gpus(self, seen: JsonObject) -> int:
        gpu = _gpu_resource(seen, self._rules.gpu_resources)
        return whole(amounts_at(seen, "status", "allocatable").get(gpu, _NO_AMOUNT))

    def _foreign_use(self, name: NodeName) -> dict[str, Decimal]:
        total: dict[str, Decimal] = {PODS: _NO_AMOUNT}
        for amounts in self._held.get(name, {}).values():
            for resource, value in amounts.items():
                total[resource] = total.get(resource, _NO_AMOUNT) + value
        return total

    def _smoothed_gpus(self, known: _Known, gpus: int, now: float) -> tuple[int, tuple[str, ...]]:
        """The GPUs to count with, and the taint of a node that has just lost some."""
        if gpus >= known.gpus:
            known.gpus, known.shrunk_at = gpus, None
            return gpus, ()
        known.shrunk_at = now if known.shrunk_at is None else known.shrunk_at
        believed_at = known.shrunk_at + self._rules.shrunk_after_s
        if now >= believed_at:
            known.gpus, known.shrunk_at = gpus, None
            return gpus, ()
        self._look_again_at(believed_at)
        return known.gpus, (f"{names.PREFIX}gpus-missing={known.gpus - gpus}:NoSchedule",)

    def _unready_reason(self, name: NodeName, known: _Known, now: float) -> str:
        ready = condition_of(known.seen, "Ready")
        if text(ready, "status") != "True":
            known.unready_at, known.well_since = now, None
            return text(ready, "reason") or "its kubelet says nothing"
        if known.replaced:
            made = instant_of(text(known.seen, "metadata", "creationTimestamp"))
            if made is not None and self._has_older_pods(name, made):
                self._look_again_at(now + 1.0)
                return "the machine was replaced and pods of the one before are still there"
            known.replaced = False
        if known.unready_at is None:
            return ""
        known.well_since = now if known.well_since is None else known.well_since
        well_at = known.well_since + self._rules.ready_after_s
        if now < well_at:
            self._look_again_at(well_at)
            return "it has just come back"
        known.unready_at = None
        return ""

    def _pool_of(self, labels: Mapping[str, str]) -> PoolName:
        for pool in self._rules.pools:
            if pool.selector and pool.selector.items() <= labels.items():
                return pool.name
        return PoolName("default")


def _holds(pod: JsonObject) -> bool:
    is_over = text(pod, "status", "phase") in ("Succeeded", "Failed")
    return bool(text(pod, "spec", "nodeName")) and not is_over


def _gpu_resource(node: JsonObject, resources: tuple[str, ...]) -> str:
    allotted = amounts_at(node, "status", "allocatable")
    return next((name for name in resources if allotted.get(name, _NO_AMOUNT) > 0), resources[0])


def _resources(amounts: Mapping[str, Decimal], counted: tuple[str, ...]) -> Resources:
    return Resources(
        cpu_milli=whole(amounts.get(CPU, _NO_AMOUNT) * 1000),
        memory_bytes=whole(amounts.get(MEMORY, _NO_AMOUNT)),
        extended=tuple((name, whole(amounts.get(name, _NO_AMOUNT))) for name in counted),
    )


def _taints(node: JsonObject) -> tuple[str, ...]:
    return tuple(
        f"{text(taint, 'key')}={text(taint, 'value')}:{text(taint, 'effect')}"
        for taint in parts(node, "spec", "taints")
        if text(taint, "effect") in _KEEPS_AWAY and text(taint, "key") not in TOLERATED_TAINTS
    )
