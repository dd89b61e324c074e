"""The adapter alone on a real control plane, behind a proxy that makes faults."""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.cluster import KubernetesCluster
from scheduler.adapters.kubernetes.keeper_times import KeeperTimes
from scheduler.adapters.kubernetes.nodes import NodeRules
from scheduler.adapters.kubernetes.watch import WatchTimes
from scheduler.domain.ids import Rank
from scheduler.domain.instants import seconds
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.topology import Node
from scheduler.ports.cluster import WorkerReport, WorkerState
from tests.cluster.api_objects import Object
from tests.cluster.cluster_fixtures import Place
from tests.cluster.control_plane import ReachedControlPlane
from tests.cluster.fault_proxy import FaultProxy
from tests.contract.cluster_worlds import LEVELS, RUNS, Deed
from tests.contract.kubernetes_world import KubernetesWorld
from tests.gangs import a_key
from tests.polling import DEADLINE_S, wait_until

KEY = a_key()
WATCH = WatchTimes(
    watch_s=2.0,
    silence_s_max=3.0,
    blink_s=0.5,
    retry_s_min=0.05,
    retry_s_max=0.4,
    doubt_s=0.5,
    settle_s=1.0,
)
KEEPER = KeeperTimes(
    unschedulable_s=0.5, image_s=0.5, start_s=0.5, excluded_s=60.0, retry_s_min=0.05, retry_s_max=1
)
NODES = NodeRules(levels=LEVELS, shrunk_after_s=1.0, ready_after_s=0.5)


class FaultyWorld:
    """Everything one test of faults needs."""

    def __init__(self, control_plane: ReachedControlPlane, folder: Path) -> None:
        self._at_end = ExitStack()
        self.control_plane = control_plane
        self.proxy = FaultProxy(control_plane.url, token=control_plane.token, ca=control_plane.ca)
        self.kubeconfig = folder / "kubeconfig"
        self.folder = folder

    def __enter__(self) -> Self:
        """Start proxy and adapter."""
        self._at_end.enter_context(self.proxy)
        self.control_plane.write_kubeconfig(self.kubeconfig, url=self.proxy.url)
        self.inner = KubernetesWorld(
            self.control_plane,
            self.folder,
            kubeconfig=self.kubeconfig,
            watch_times=WATCH,
            keeper_times=KEEPER,
            rules=NODES,
        )
        self._at_end.callback(self.inner.close)
        self._at_end.callback(self.proxy.clear)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop both."""
        self._at_end.close()

    @property
    def cluster(self) -> KubernetesCluster:
        """The adapter."""
        return self.inner.cluster

    @property
    def place(self) -> Place:
        """Namespace, nodes, kubelet."""
        return self.inner.place

    def prepare(self, *deeds: Deed, job: str = "job-1") -> AttemptKey:
        """Ask for a gang."""
        order = self.inner.order(list(deeds) or [RUNS], job=job)
        self.cluster.prepare(order)
        return order.attempt

    def make(self, *deeds: Deed, job: str = "job-1") -> AttemptKey:
        """Ask for a gang and wait until it is made."""
        key = self.prepare(*deeds, job=job)
        self.wait_for(key, *[WorkerState.MADE] * max(1, len(deeds)))
        return key

    def run(self, *deeds: Deed, job: str = "job-1") -> AttemptKey:
        """Make a gang and let it run."""
        key = self.make(*deeds, job=job)
        self.cluster.release(key)
        return key

    def stop_now(self, key: AttemptKey = KEY) -> None:
        """Stop a gang without a grace."""
        self.cluster.stop(key, kill_at=self.inner.in_time(seconds(0)))

    def reports(self, key: AttemptKey = KEY) -> list[WorkerReport]:
        """Reports of a gang, by rank."""
        found = [r for r in self.cluster.observe().workers if r.attempt == key]
        return sorted(found, key=lambda report: report.rank)

    def states(self, key: AttemptKey = KEY) -> list[WorkerState]:
        """States of a gang's workers, by rank."""
        return [report.state for report in self.reports(key)]

    def wait_for(
        self, key: AttemptKey, *states: WorkerState, deadline_s: float = DEADLINE_S
    ) -> None:
        """Until the workers are in these states."""
        wait_until(
            lambda: self.states(key) == list(states), f"{key}: {states}", deadline_s=deadline_s
        )

    def node(self, name: str = "n0") -> Node:
        """A node as the adapter tells it; a new one is awaited."""

        def found() -> list[Node]:
            return [node for node in self.cluster.observe().nodes if node.name == name]

        wait_until(lambda: bool(found()), f"{name} is seen")
        return found()[0]

    def pod(self, key: AttemptKey = KEY, rank: int = 0) -> Object | None:
        """A worker's pod."""
        path = f"{self.place.pods_path}/{names.pod_name(key, Rank(rank))}"
        return self.place.objects.find(path)

    def pod_path(self, key: AttemptKey = KEY, rank: int = 0) -> str:
        """Where a worker's pod is."""
        return f"{self.place.pods_path}/{names.pod_name(key, Rank(rank))}"

    def ungated_pods(self) -> list[str]:
        """Names of pods that may run or ran."""
        return [
            pod["metadata"]["name"]
            for pod in self.place.pods()
            if names.INSTANCE in pod["metadata"]["labels"] and "schedulingGates" not in pod["spec"]
        ]
