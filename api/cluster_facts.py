"""What requests need to know of the cluster, read from the store every few seconds at most."""

from threading import Lock

from scheduler.control.estimating import Distances
from scheduler.control.fitting import EmptyCluster, Refusal
from scheduler.domain.instants import SECOND, Duration, Instant, after
from scheduler.domain.job import JobSpec
from scheduler.domain.links import FabricPlan
from scheduler.ports.clock import Clock
from scheduler.ports.job_store import JobStore

KEPT_FOR = Duration(2 * SECOND)
"""A cluster of thousands of nodes is not read again for every job that is submitted."""


class ClusterFacts:
    """The cluster as last observed."""

    def __init__(self, store: JobStore, clock: Clock, links: FabricPlan) -> None:
        self._store = store
        self._clock = clock
        self._links = links
        self._lock = Lock()
        self._cluster: EmptyCluster | None = None
        self._distances: tuple[EmptyCluster, Distances] | None = None
        self._read_at = Instant(0)

    def distances(self) -> Distances:
        """What distance costs on the cluster of now; kept while its nodes are the same."""
        cluster = self.now()
        with self._lock:
            if self._distances is None or self._distances[0] is not cluster:
                found = Distances(cluster.levels, cluster.nodes, self._links)
                self._distances = (cluster, found)
            return self._distances[1]

    def now(self) -> EmptyCluster:
        """The cluster, at most KEPT_FOR old; an unobserved one is looked for each time."""
        with self._lock:
            return self._now()

    def refusal(self, spec: JobSpec) -> Refusal | None:
        """Why the cluster can never hold such a gang; None if it can."""
        with self._lock:
            return self._now().refusal(spec)

    def _now(self) -> EmptyCluster:
        now = self._clock.now()
        if (
            self._cluster is None
            or not self._cluster.is_observed
            or now >= after(self._read_at, KEPT_FOR)
        ):
            levels, nodes = self._store.topology()
            is_same = (
                self._cluster is not None
                and self._cluster.nodes == nodes
                and self._cluster.levels == levels
            )
            if not is_same:
                self._cluster = EmptyCluster(levels, nodes)
            self._read_at = now
        assert self._cluster is not None
        return self._cluster
