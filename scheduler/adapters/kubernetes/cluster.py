"""Gangs as pods on a Kubernetes cluster: the Cluster and LogSource ports.

                     ┌── watch nodes ──────────▶ NodeBook ─┐
API server ──────────┼── watch pods of others ─▶           ├──▶ views ──▶ observe
   ▲                 └── watch our pods ───────▶ Keeper ───┘
   └── anchor, Service, gated pods, gates, deletions ◀── Keeper ◀── prepare, release, stop, forget
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from scheduler.adapters.kubernetes import manifests, names
from scheduler.adapters.kubernetes.access import Access
from scheduler.adapters.kubernetes.budget import Budget
from scheduler.adapters.kubernetes.cache import Change, ObjectCache
from scheduler.adapters.kubernetes.calls import GangCalls
from scheduler.adapters.kubernetes.client import ApiServer
from scheduler.adapters.kubernetes.errors import ApiFailure
from scheduler.adapters.kubernetes.gang import FoundAnchor
from scheduler.adapters.kubernetes.keeper import Keeper
from scheduler.adapters.kubernetes.keeper_times import KeeperTimes
from scheduler.adapters.kubernetes.log_keeping import EndedLogs
from scheduler.adapters.kubernetes.log_reading import KubernetesLogs
from scheduler.adapters.kubernetes.log_tails import IDLE_S_MAX, LogTails
from scheduler.adapters.kubernetes.manifests import RenderSettings
from scheduler.adapters.kubernetes.nodes import NodeBook, NodeRules
from scheduler.adapters.kubernetes.objects import instant_of, parts, text, uid_of
from scheduler.adapters.kubernetes.pods import PodFacts
from scheduler.adapters.kubernetes.sweeping import SWEEP_S, Sweeper
from scheduler.adapters.kubernetes.watch import (
    PAGE,
    Reflector,
    Resource,
    WatchTimes,
    collection,
    selecting,
)
from scheduler.adapters.views import Views
from scheduler.domain.errors import ClusterUnavailableError
from scheduler.domain.ids import Epoch, NodeName, Rank
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.clock import Clock
from scheduler.ports.cluster import ClusterView, GangOrder
from scheduler.ports.log_archive import LogArchive
from scheduler.ports.log_source import LogChunk

START_LOOK_S = 0.05

Emit = Callable[[str, Mapping[str, str | int | float | bool | None]], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """What the server says about its cluster."""

    access: Access
    namespaces: tuple[str, ...]
    """Where gangs may be."""
    render: RenderSettings
    rules: NodeRules = field(default_factory=NodeRules)
    requests_per_second: float = 100.0
    watch_times: WatchTimes = field(default_factory=WatchTimes)
    keeper_times: KeeperTimes = field(default_factory=KeeperTimes)
    sweep_s: float = SWEEP_S
    """How often is looked for anchors that nobody comes back for."""
    log_idle_s_max: float = IDLE_S_MAX
    """A log that nobody has read from for so long is not followed any more."""


class KubernetesCluster:
    """Cluster and LogSource ports on pods: a context manager, or `start` and `close`."""

    def __init__(
        self,
        settings: KubernetesSettings,
        clock: Clock,
        archive: LogArchive,
        *,
        term: Callable[[], Epoch | None] = lambda: Epoch(0),
        may_write: Callable[[], bool] = lambda: True,
        may_sweep: Callable[[], bool] = lambda: True,
        on_change: Callable[[], None] = lambda: None,
        emit: Emit = lambda _name, _facts: None,
    ) -> None:
        """`term` is the leadership term as last told: what was asked for in another one is void.
        `may_write` is asked before each write, `may_sweep` before anything is removed that the
        loop has not asked for; `on_change` is called when there are news; `emit` is told of
        requests and lists, for metrics."""
        self._settings = settings
        self._archive = archive
        self._on_change = on_change
        self._reflectors: list[Reflector] = []
        self._budget = Budget(settings.requests_per_second)
        self._emit = emit
        self._server = ApiServer(
            settings.access, self._budget, may_write=may_write, on_answer=self._tell_answer
        )
        self._views = Views((), ())
        self._nodes = NodeBook(
            settings.rules,
            namespaces=settings.namespaces,
            has_older_pods=self._has_older_pods,
            instant=clock.now,
        )
        self._tails = LogTails(self._server, self._pod_of, idle_s_max=settings.log_idle_s_max)
        self._ended = EndedLogs(self._server, archive, self._tails, clock)
        self._logs = KubernetesLogs(self._pod_of, self._tails, archive, self._ended)
        render = replace(settings.render, gpu_resource=self._nodes.gpu_resource)
        self._keeper = Keeper(
            GangCalls(self._server, render),
            render,
            views=self._views,
            nodes=self._nodes,
            logs=self._ended,
            clock=clock,
            times=settings.keeper_times,
            term=term,
            on_change=on_change,
        )
        self._caches: Mapping[str, ObjectCache] = {
            namespace: ObjectCache(self._keeper.on_pods) for namespace in settings.namespaces
        }
        self._sweeper = Sweeper(
            self._keeper, self._anchors, may_sweep=may_sweep, every_s=settings.sweep_s
        )
        self._reflectors = [*self._own_reflectors(), *self._shared_reflectors()]
        self._is_started = False
        self._closing = threading.Event()
        self._starter = threading.Thread(
            target=self._take_over, name="kubernetes-start", daemon=True
        )

    def start(self) -> None:
        """Begin; what is there is taken over as soon as the API server answers."""
        for reflector in self._reflectors:
            reflector.start()
        self._starter.start()

    def close(self) -> None:
        """Let go; pods run on and the next server adopts them."""
        self._closing.set()
        self._budget.close()
        for reflector in self._reflectors:
            reflector.close()
        self._starter.join()
        self._sweeper.close()
        self._keeper.close()
        self._ended.close()
        self._tails.close()
        self._server.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Cluster

    def observe(self, after: int | None = None) -> ClusterView:
        """The present view, whole or as changes. Raises ClusterUnavailableError."""
        if self._keeper.failure is not None:
            message = f"the Kubernetes executor has failed: {self._keeper.failure!r}"
            raise ClusterUnavailableError(message)
        self._views.set_nodes(*self._nodes.view())
        is_well = self.is_well
        return self._views.view(after, is_reachable=is_well, is_complete=is_well)

    def prepare(self, order: GangOrder) -> None:
        """Have the gated pods made."""
        self._keeper.prepare(order)

    def release(self, attempt: AttemptKey) -> None:
        """Have the gates opened."""
        self._keeper.release(attempt)

    def stop(self, attempt: AttemptKey, *, kill_at: Instant) -> None:
        """Have the pods deleted, with a grace."""
        self._keeper.stop(attempt, kill_at)

    def forget(self, attempt: AttemptKey) -> None:
        """Have what is left removed."""
        self._keeper.forget(attempt)

    def order_of(self, attempt: AttemptKey) -> GangOrder | None:
        """By which order a gang was made, if that is known by now."""
        return self._keeper.order_of(attempt)

    def disown(self, attempt: AttemptKey) -> None:
        """Have our label taken from a gang."""
        self._keeper.disown(attempt)

    # LogSource

    def read(self, attempt: AttemptKey, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
        """Bytes of a worker's log."""
        return self._logs.read(attempt, rank, offset=offset, bytes_max=bytes_max)

    def tail_offset(self, attempt: AttemptKey, rank: Rank, *, lines: int) -> int:
        """Offset of the last `lines` lines."""
        return self._logs.tail_offset(attempt, rank, lines=lines)

    def offset_since(self, attempt: AttemptKey, rank: Rank, *, since: Instant) -> int:
        """Offset of the first byte written at or after `since`."""
        return self._logs.offset_since(attempt, rank, since=since)

    # For operators

    @property
    def is_well(self) -> bool:
        """Whether everything is in line with the API server."""
        return self._is_started and all(reflector.is_well for reflector in self._reflectors)

    @property
    def is_idle(self) -> bool:
        """Whether everything asked for that could be done now has been."""
        return self._keeper.is_idle

    @property
    def requests(self) -> int:
        """Requests to the API server so far."""
        return self._budget.taken

    @property
    def log_followers(self) -> int:
        """Streams of logs that are open."""
        self._tails.sweep()
        return self._tails.followers

    def check(self) -> None:
        """Raise ClusterUnavailableError with what is wrong, unless all is well."""
        if self.is_well and not self._budget.is_open:
            return
        troubles = [reflector.trouble for reflector in self._reflectors if reflector.trouble]
        raise ClusterUnavailableError(next(iter(troubles), "the first look is not over yet"))

    # Inside

    def _tell_answer(self, method: str, outcome: str) -> None:
        self._emit("kubernetes_answer", {"method": method, "outcome": outcome})
        self._emit(
            "kubernetes_state",
            {
                "is_held_back": self._budget.is_open,
                "waited_s": self._budget.waited_s,
                "lists": sum(reflector.lists for reflector in self._reflectors),
                "in_line": sum(reflector.is_well for reflector in self._reflectors),
            },
        )

    def _own_reflectors(self) -> list[Reflector]:
        selector = selecting({names.INSTANCE: self._settings.render.instance})
        return [
            Reflector(
                self._server,
                Resource(
                    path=collection(namespace, "pods"), selectors=(("labelSelector", selector),)
                ),
                cache,
                times=self._settings.watch_times,
                on_health=self._on_change,
            )
            for namespace, cache in self._caches.items()
        ]

    def _shared_reflectors(self) -> list[Reflector]:
        foreign = (
            ("labelSelector", f"{names.INSTANCE}!={self._settings.render.instance}"),
            ("fieldSelector", "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"),
        )
        times = self._settings.watch_times
        return [
            Reflector(
                self._server,
                Resource(path="/api/v1/nodes"),
                ObjectCache(self._take_nodes),
                times=times,
                on_health=self._on_change,
            ),
            Reflector(
                self._server,
                Resource(
                    path="/api/v1/pods", selectors=foreign, is_confirmed=False, is_optional=True
                ),
                ObjectCache(self._nodes.on_foreign_pods),
                times=times,
                on_health=self._on_change,
            ),
            Reflector(
                self._server,
                Resource(path="/api/v1/persistentvolumes", is_optional=True),
                ObjectCache(self._take_volumes),
                times=times,
                on_health=self._on_change,
            ),
        ]

    def _take_nodes(self, changes: list[Change]) -> None:
        self._nodes.on_nodes(changes)
        self._on_change()

    def _take_volumes(self, changes: list[Change]) -> None:
        self._nodes.on_volumes(changes)
        self._on_change()

    def _take_over(self) -> None:
        """Once everything has been listed: adopt the gangs there are."""
        while not self._closing.wait(START_LOOK_S):
            if not all(each.lists or each.is_forbidden for each in self._reflectors):
                continue
            try:
                self._keeper.start(self._caches, self._anchors())
            except ApiFailure as failure:
                _log.info("not_taken_over %s", failure.message)
                continue
            self._sweeper.start()
            self._is_started = True
            self._on_change()
            return

    def _anchors(self) -> list[FoundAnchor]:
        found: list[FoundAnchor] = []
        for namespace in self._settings.namespaces:
            selector = selecting({names.INSTANCE: self._settings.render.instance})
            query = {"labelSelector": selector, "limit": str(PAGE)}
            while True:
                page = self._server.get(collection(namespace, "configmaps"), query)
                for each in parts(page, "items"):
                    try:
                        order = manifests.order_of(each)
                    except ValueError:
                        _log.warning("anchor_unreadable %s", text(each, "metadata", "name"))
                        continue
                    anchor = FoundAnchor(uid=uid_of(each), namespace=namespace, order=order)
                    found.append(anchor)
                if not text(page, "metadata", "continue"):
                    break
                query = {**query, "continue": text(page, "metadata", "continue")}
        return found

    def _pod_of(self, attempt: AttemptKey, rank: Rank) -> PodFacts | None:
        return self._keeper.pod_of(attempt, rank)

    def _has_older_pods(self, node: NodeName, since: Instant) -> bool:
        """Whether pods of ours are bound to a node that are older than it."""
        for cache in self._caches.values():
            for pod in cache.all():
                made = instant_of(text(pod, "metadata", "creationTimestamp"))
                is_here = text(pod, "spec", "nodeName") == node
                is_over = text(pod, "status", "phase") in ("Succeeded", "Failed")
                if is_here and not is_over and made is not None and made < since:
                    return True
        return False
