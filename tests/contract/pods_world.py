"""What every world of the Kubernetes adapter shares: its orders, and how it is started again."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
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
from scheduler.domain.pod_policy import NO_POLICY, PodPolicy
from scheduler.domain.topology import Level, Node
from scheduler.ports.cluster import GangOrder
from tests.cluster.api_objects import ApiError, ApiObjects, Object
from tests.contract.cluster_worlds import NO_SUCH_COMMAND, Deed, WallClock
from tests.gangs import an_order
from tests.polling import wait_until

INSTANCE = "contract"
PATIENT = KeeperTimes()
QUICK = WatchTimes(retry_s_min=0.05, retry_s_max=0.5, doubt_s=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where the pods of one test are made, and of what."""

    objects: ApiObjects
    """An admin's client."""
    namespace: str
    kubeconfig: Path
    """The adapter's way to the API server."""
    nodes: tuple[Node, ...]
    """As the adapter is to tell them; gangs are put on the first."""
    image: str
    ledger: Path
    """A folder of this machine in which workers write down that they run."""
    policy: PodPolicy = NO_POLICY


class PodsWorld:
    """Gangs as pods, whoever runs them."""

    resolution = seconds(1)
    refusal = Outcome.ADMISSION_REJECTED

    def __init__(
        self,
        ground: Ground,
        rules: NodeRules,
        *,
        watch_times: WatchTimes = QUICK,
        keeper_times: KeeperTimes = PATIENT,
    ) -> None:
        """What is on `at_end` is done when the world ends."""
        self.at_end = ExitStack()
        self._ground = ground
        self._rules = rules
        self._watch_times = watch_times
        self._keeper_times = keeper_times
        self.archive = MemoryLogArchive()
        self.cluster: KubernetesCluster = self._new_cluster()

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self._ground.nodes

    @property
    def levels(self) -> tuple[Level, ...]:
        return self._rules.levels

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
            job=job,
            number=number,
            nodes={self.nodes[0].name: len(deeds)},
            roles=roles,
            are_gpus_chosen=False,
        )
        return replace(order, spec=replace(order.spec, image=self._ground.image))

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        wait_until(is_so, what)

    def settle(self) -> None:
        self.wait_until(lambda: self.cluster.is_idle, "everything asked for is done")

    def in_time(self, length: Duration) -> Instant:
        return Instant(WallClock().now() + length)

    def restart(self) -> None:
        self.cluster.close()
        self.cluster = self._new_cluster()

    def runs_of(self, job: str) -> int:
        path = self._ground.ledger / f"runs-{job}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def close(self) -> None:
        self.cluster.close()
        self.at_end.close()

    def a_cluster(
        self, *, instance: str = INSTANCE, kubeconfig: Path | None = None
    ) -> KubernetesCluster:
        """One more adapter on the same place; not started."""
        namespace = self._ground.namespace
        return KubernetesCluster(
            KubernetesSettings(
                access=Access(kubeconfig=kubeconfig or self._ground.kubeconfig),
                namespaces=(namespace,),
                render=RenderSettings(
                    instance=instance,
                    namespace_of=lambda _project: namespace,
                    policy=self._ground.policy,
                ),
                rules=self._rules,
                watch_times=self._watch_times,
                keeper_times=self._keeper_times,
                log_idle_s_max=1.0,
            ),
            WallClock(),
            self.archive,
        )

    def shell(self, script: str) -> Sequence[str]:
        """How a worker runs a script."""
        return ("sh", "-c", script)

    @property
    def seen_ledger(self) -> Path:
        """The folder of the ledger as workers see it."""
        return self._ground.ledger

    def _command(self, deed: Deed, job: str) -> tuple[str, ...]:
        if deed is NO_SUCH_COMMAND:
            return ("no-such-command",)
        noted = f"echo $DALLY_RANK >> {self.seen_ledger}/runs-{job}"
        return tuple(self.shell(f"{noted}; {deed.shell}"))

    def _new_cluster(self) -> KubernetesCluster:
        cluster = self.a_cluster()
        cluster.start()
        self.wait_until(lambda: cluster.is_well, "everything is listed")
        return cluster

    def _refuse_what_is_not_there(self) -> None:
        """No container is made before its gate opens, so a webhook's like says what is missing."""
        namespace, objects = self._ground.namespace, self._ground.objects
        validation = {
            "expression": "object.spec.containers[0].command[0] != 'no-such-command'",
            "message": "no such command: no-such-command",
        }
        policy: Object = {
            "metadata": {"name": namespace},
            "spec": {
                "matchConstraints": {"resourceRules": [_PODS_BEING_MADE]},
                "validations": [validation],
            },
        }
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        binding: Object = {
            "metadata": {"name": namespace},
            "spec": {
                "policyName": namespace,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": chosen},
            },
        }
        for kind, body in (("policies", policy), ("policybindings", binding)):
            path = f"/apis/admissionregistration.k8s.io/v1/validatingadmission{kind}"
            objects.create(path, body)
            self.at_end.callback(objects.delete, f"{path}/{namespace}")
        self.wait_until(self._is_refused, "the policy is in force")

    def _is_refused(self) -> bool:
        main = {"name": "main", "image": "test", "command": ["no-such-command"]}
        probe = {"metadata": {"name": "probe"}, "spec": {"containers": [main]}}
        path = f"/api/v1/namespaces/{self._ground.namespace}/pods"
        try:
            self._ground.objects.create(path, probe, dryRun="All")
        except ApiError as error:
            return "no such command" in str(error)
        return False


_PODS_BEING_MADE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
}
