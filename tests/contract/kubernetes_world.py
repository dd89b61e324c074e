"""The Kubernetes adapter on a real control plane, for the Cluster suite."""

from contextlib import ExitStack
from pathlib import Path

from scheduler.adapters.kubernetes.keeper_times import KeeperTimes
from scheduler.adapters.kubernetes.nodes import NodeRules
from scheduler.adapters.kubernetes.watch import WatchTimes
from tests.cluster.cluster_fixtures import Place, a_place
from tests.cluster.control_plane import ReachedControlPlane
from tests.cluster.nodes import a_node
from tests.contract.cluster_worlds import LEVELS, NODES
from tests.contract.pods_world import PATIENT, QUICK, Ground, PodsWorld

RULES = NodeRules(levels=LEVELS)


class KubernetesWorld(PodsWorld):
    """Pods that the test's kubelet runs as processes."""

    def __init__(
        self,
        control_plane: ReachedControlPlane,
        folder: Path,
        *,
        kubeconfig: Path | None = None,
        watch_times: WatchTimes = QUICK,
        keeper_times: KeeperTimes = PATIENT,
        rules: NodeRules = RULES,
    ) -> None:
        """`kubeconfig`: another way to the control plane, e.g. through a proxy."""
        with ExitStack() as stack:
            self.place: Place = stack.enter_context(a_place(control_plane, folder / "kubelet"))
            for node in NODES:
                self.place.add_node(a_node(node.name, gpus=8, labels={"rack": node.path[0]}))
            ground = Ground(
                objects=self.place.objects,
                namespace=self.place.namespace,
                kubeconfig=kubeconfig or control_plane.kubeconfig,
                nodes=NODES,
                image="localhost/test:1",
                ledger=folder,
            )
            super().__init__(ground, rules, watch_times=watch_times, keeper_times=keeper_times)
            self.at_end.push(stack.pop_all())
