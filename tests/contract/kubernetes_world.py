"""The Kubernetes adapter on a real control plane, for the Cluster suite."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from scheduler.adapters.kubernetes.access import Access
from scheduler.adapters.kubernetes.cluster import KubernetesCluster, KubernetesSettings
from scheduler.adapters.kubernetes.keeper_times import KeeperTimes
from scheduler.adapters.kubernetes.manifests import RenderSettings
from scheduler.adapters.kubernetes.nodes import NodeRules
from scheduler.adapters.kubernetes.watch import WatchTimes
from scheduler.adapters.memory.log_archive import MemoryLogArchive
from scheduler.domain.ids import RoleName
from scheduler.domain.instants import Duration, Instant, seconds
from scheduler.domain.job import Outcome, Role
from scheduler.ports.cluster import GangOrder
from tests.cluster.api_objects import ApiError, Object
from tests.cluster.cluster_fixtures import Place, a_place
from tests.cluster.control_plane import ReachedControlPlane
from tests.cluster.nodes import a_node
from tests.contract.cluster_worlds import LEVELS, NO_SUCH_COMMAND, NODES, Deed, WallClock
from tests.gangs import an_order
from tests.polling import wait_until

INSTANCE = "contract"
PATIENT = KeeperTimes()
RULES = NodeRules(levels=LEVELS)
QUICK = WatchTimes(retry_s_min=0.05, retry_s_max=0.5, doubt_s=0.2)


class KubernetesWorld:
    """Pods that the test's kubelet runs as processes."""

    resolution = seconds(1)
    refusal = Outcome.ADMISSION_REJECTED

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
        self._folder = folder
        self._kubeconfig = kubeconfig or control_plane.kubeconfig
        self._watch_times = watch_times
        self._keeper_times = keeper_times
        self._rules = rules
        self._at_end = ExitStack()
        self.place: Place = self._at_end.enter_context(a_place(control_plane, folder / "kubelet"))
        for node in NODES:
            self.place.add_node(a_node(node.name, gpus=8, labels={"rack": node.path[0]}))
        self.archive = MemoryLogArchive()
        self.cluster: KubernetesCluster = self._new_cluster()

    def order(
        self, deeds: list[Deed], *, job: str = "job-1", number: int = 0, gpus: int = 1
    ) -> GangOrder:
        if NO_SUCH_COMMAND in deeds:
            self._refuse_what_is_not_there()
        roles = tuple(
            Role(
                name=RoleName(f"role{rank}"),
                workers=1,
                gpus_per_worker=gpus,
                command=self._command(deed, job),
            )
            for rank, deed in enumerate(deeds)
        )
        order = an_order(
            job=job, number=number, nodes={"n0": len(deeds)}, roles=roles, are_gpus_chosen=False
        )
        return replace(order, spec=replace(order.spec, image="localhost/test:1"))

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        wait_until(is_so, what)

    def settle(self) -> None:
        wait_until(lambda: self.cluster.is_idle, "everything asked for is done")

    def in_time(self, length: Duration) -> Instant:
        return Instant(WallClock().now() + length)

    def restart(self) -> None:
        self.cluster.close()
        self.cluster = self._new_cluster()

    def runs_of(self, job: str) -> int:
        path = self._folder / f"runs-{job}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def close(self) -> None:
        self.cluster.close()
        self._at_end.close()

    def _command(self, deed: Deed, job: str) -> tuple[str, ...]:
        if deed is NO_SUCH_COMMAND:
            return ("no-such-command",)
        return ("sh", "-c", f"echo $DALLY_RANK >> {self._folder}/runs-{job}; {deed.shell}")

    def a_cluster(
        self, *, instance: str = INSTANCE, kubeconfig: Path | None = None
    ) -> KubernetesCluster:
        """One more adapter on the same place; not started."""
        place = self.place
        return KubernetesCluster(
            KubernetesSettings(
                access=Access(kubeconfig=kubeconfig or self._kubeconfig),
                namespaces=(place.namespace,),
                render=RenderSettings(
                    instance=instance, namespace_of=lambda _project: place.namespace
                ),
                rules=self._rules,
                watch_times=self._watch_times,
                keeper_times=self._keeper_times,
                log_idle_s_max=1.0,
            ),
            WallClock(),
            self.archive,
        )

    def _new_cluster(self) -> KubernetesCluster:
        cluster = self.a_cluster()
        cluster.start()
        wait_until(lambda: cluster.is_well, "everything is listed")
        return cluster

    def _refuse_what_is_not_there(self) -> None:
        """No container is made before its gate opens, so a webhook's like says what is missing."""
        policy: Object = {
            "metadata": {"name": self.place.namespace},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["pods"],
                        }
                    ]
                },
                "validations": [
                    {
                        "expression": "object.spec.containers[0].command[0] != 'no-such-command'",
                        "message": "no such command: no-such-command",
                    }
                ],
            },
        }
        binding: Object = {
            "metadata": {"name": self.place.namespace},
            "spec": {"policyName": self.place.namespace, "validationActions": ["Deny"]},
        }
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        objects = self.place.objects
        objects.create(path, policy)
        self._at_end.callback(objects.delete, f"{path}/{self.place.namespace}")
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
        objects.create(path, binding)
        self._at_end.callback(objects.delete, f"{path}/{self.place.namespace}")
        probe = {
            "metadata": {"name": "probe"},
            "spec": {
                "containers": [{"name": "main", "image": "test", "command": ["no-such-command"]}]
            },
        }

        def is_refused() -> bool:
            try:
                objects.create(self.place.pods_path, probe, dryRun="All")
            except ApiError as error:
                return "no such command" in str(error)
            return False

        wait_until(is_refused, "the policy is in force")
