"""The objects of a gang, rendered from an allow-list: what is not written here no pod of ours has.

anchor (ConfigMap)  owns the rest, so that deleting it removes all; keeps the order of the gang
Service             headless, so that ranks find each other by name before they are ready
pods                gated, pinned to their nodes by affinity, under their project's security level
"""

import base64
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.adapters.kubernetes import names, security
from scheduler.adapters.kubernetes.mounts import GANG_FOLDER, Mounted, mounted
from scheduler.adapters.kubernetes.objects import JsonObject, Uid, text
from scheduler.domain.codec import Json, dump, from_json, to_json
from scheduler.domain.ids import NodeName, ProjectName, Rank, RoleName
from scheduler.domain.instants import Duration
from scheduler.domain.job import Launcher, Role
from scheduler.domain.pod_policy import (
    NO_POLICY,
    PodPolicy,
    PodProfile,
    ProjectPods,
    Sidecar,
)
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.worker_environment import (
    GangFacts,
    MpiRelay,
    WorkerAddress,
    hostfile_text,
    worker_command,
    worker_environment,
)
from scheduler.ports.cluster import GangOrder

RENDEZVOUS_PORT = 29_500
MPI_PORT = 29_501
ANCHOR_BYTES_MAX = 1_000_000
"""Of a ConfigMap's data; the API server takes 1 MiB with everything around it."""
GRACE_S_MIN = 1
"""0 would take the object away while the process may still run."""

ORDER, HOSTS, HOSTFILE = "order", "hosts", "hostfile"
LONG_VALUE = 1024
"""A list of hosts that is longer stands once, in the anchor, and not in every pod."""

_KEEPS_PODS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderSettings:
    """What the server says about every gang."""

    instance: str
    """Id of this install; the database makes it."""
    namespace_of: Callable[[ProjectName], str]
    attempt_token: Callable[[AttemptKey], str] = lambda _attempt: ""
    api_url: str = ""
    """Where pods reach the API; empty where they can not."""
    policy: PodPolicy = NO_POLICY
    gpu_resource: Callable[[NodeName], str] = lambda _node: "nvidia.com/gpu"


class TooLargeError(Exception):
    """The gang does not fit into the objects that describe it."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the gang's description takes {size} bytes of at most {ANCHOR_BYTES_MAX}")
        self.size = size


def anchor(order: GangOrder, settings: RenderSettings) -> JsonObject:
    """The object that owns a gang. Raises TooLargeError."""
    facts = _facts(order, settings)
    packed = base64.b64encode(zlib.compress(to_json(order).encode(), 9)).decode()
    hosts, hostfile = _hosts(facts), hostfile_text(facts)
    size = len(packed) + len(hosts) + len(hostfile)
    if size > ANCHOR_BYTES_MAX:
        raise TooLargeError(size)
    data: JsonObject = {HOSTS: hosts, HOSTFILE: hostfile}
    digest = hashlib.sha256(to_json(order).encode()).hexdigest()[:32]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(order, settings, names.gang_name(order.attempt), digest),
        "immutable": True,
        "data": data,
        "binaryData": {ORDER: packed},
    }


def order_of(anchor_object: JsonObject) -> GangOrder:
    """The order an anchor keeps. Raises ValueError."""
    try:
        packed = base64.b64decode(text(anchor_object, "binaryData", ORDER))
        return from_json(GangOrder, zlib.decompress(packed).decode())
    except zlib.error as error:
        raise ValueError(f"the anchor keeps no order: {error}") from error


def service(order: GangOrder, settings: RenderSettings, owner: Uid) -> JsonObject:
    """The names of the ranks: published before any of them is ready."""
    name = names.gang_name(order.attempt)
    spec: JsonObject = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {**names.attempt_labels(settings.instance, order.attempt)},
    }
    metadata = _metadata(order, settings, name, digest="")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "ownerReferences": _owner(name, owner)},
        "spec": spec,
    }


class PodRenderer:
    """Renders the pods of one gang."""

    def __init__(self, order: GangOrder, settings: RenderSettings) -> None:
        self.order = order
        self._settings = settings
        self._facts = _facts(order, settings)
        self._roles: dict[RoleName, Role] = {role.name: role for role in order.spec.roles}
        self._pods = settings.policy.of(order.project)
        self._profiles = {
            role.name: settings.policy.profile(order.project, order.spec, role.name)
            for role in order.spec.roles
        }

    def pod(self, rank: Rank, owner: Uid) -> JsonObject:
        """The gated pod of one rank."""
        order, held = self.order, self.order.reservations[rank]
        spec = self._spec(rank)
        digest = hashlib.sha256(dump(spec).encode()).hexdigest()[:32]
        name = names.pod_name(order.attempt, rank)
        metadata = _metadata(order, self._settings, name, digest)
        labels, annotations = metadata["labels"], metadata["annotations"]
        assert isinstance(labels, dict)
        assert isinstance(annotations, dict)
        labels |= {names.RANK: str(rank), names.ROLE: held.role}
        annotations |= {**self._profiles[held.role].annotations, **_KEEPS_PODS}
        annotations[names.GPUS] = str(held.gpus)
        gang = names.gang_name(order.attempt)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "ownerReferences": _owner(gang, owner)},
            "spec": spec,
        }

    def _spec(self, rank: Rank) -> JsonObject:
        order, held, pods = self.order, self.order.reservations[rank], self._pods
        profile, mounts = self._profiles[held.role], self._mounts(rank)
        spec: JsonObject = {
            "hostname": names.pod_name(order.attempt, rank),
            "subdomain": names.gang_name(order.attempt),
            "schedulingGates": [{"name": names.GATE}],
            "affinity": _pinned_to(held.node),
            "tolerations": _tolerations(),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace_s(order.spec.checkpoint.grace),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "imagePullSecrets": [{"name": name} for name in pods.image_pull_secrets],
            "securityContext": security.of_pod(pods),
            "containers": [self._container(rank, mounts)],
            "volumes": [each.volume for each in mounts],
        }
        if pods.service_account:
            spec["serviceAccountName"] = pods.service_account
        if profile.sidecars:
            spec["initContainers"] = [_sidecar(each, pods) for each in profile.sidecars]
        if profile.claims:
            spec["resourceClaims"] = [
                {"name": name, "resourceClaimTemplateName": template}
                for name, template in profile.claims
            ]
        return spec

    def _mounts(self, rank: Rank) -> list[Mounted]:
        held = self.order.reservations[rank]
        return mounted(
            self.order,
            self._roles[held.role],
            held.resources.memory_bytes,
            policy=self._settings.policy,
            profile=self._profiles[held.role],
            files=(HOSTFILE,),
        )

    def _container(self, rank: Rank, mounts: list[Mounted]) -> JsonObject:
        held = self.order.reservations[rank]
        profile = self._profiles[held.role]
        variables = worker_environment(self._facts, rank)
        command = [_literal(word) for word in worker_command(self._facts, rank, variables)]
        given = {**self._home(), **profile.env}
        container: JsonObject = {
            "name": names.MAIN_CONTAINER,
            "image": self.order.spec.image,
            "command": [*command],
            "env": [*self._env({**given, **variables}), *self._secrets()],
            "resources": self._amounts(rank, profile),
            "securityContext": security.of_container(self._pods, profile.capabilities),
            "volumeMounts": [each.mount for each in mounts],
        }
        if self.order.spec.working_dir:
            container["workingDir"] = self.order.spec.working_dir
        return container

    def _home(self) -> dict[str, str]:
        """A uid that the image does not know has no name and no home of its own."""
        user = self._pods.user
        return {} if user.uid is None else {"HOME": user.home, "USER": "dally"}

    def _secrets(self) -> list[Json]:
        return [
            {
                "name": use.env,
                "valueFrom": {"secretKeyRef": {"name": use.secret, "key": use.key}},
            }
            for use in self.order.spec.secrets
            if use.env
        ]

    def _env(self, variables: dict[str, str]) -> list[Json]:
        gang = names.gang_name(self.order.attempt)
        found: list[Json] = []
        for name, value in variables.items():
            if name == "DALLY_HOSTS" and len(value) > LONG_VALUE:
                source: Json = {"configMapKeyRef": {"name": gang, "key": HOSTS}}
                found.append({"name": name, "valueFrom": source})
            else:
                found.append({"name": name, "value": _literal(value)})
        return found

    def _amounts(self, rank: Rank, profile: PodProfile) -> JsonObject:
        held = self.order.reservations[rank]
        amounts: JsonObject = {}
        if held.resources.cpu_milli:
            amounts["cpu"] = f"{held.resources.cpu_milli}m"
        if held.resources.memory_bytes:
            amounts["memory"] = str(held.resources.memory_bytes)
        if held.gpus:
            amounts[self._settings.gpu_resource(held.node)] = str(held.gpus)
        amounts |= {name: str(amount) for name, amount in profile.resources}
        # CPU is asked for and not capped: cores that nobody uses may be used.
        limits = {name: value for name, value in amounts.items() if name != "cpu"}
        found: JsonObject = {"requests": amounts, "limits": limits}
        if profile.claims:
            found["claims"] = [{"name": name} for name, _ in profile.claims]
        return found


def grace_s(grace: Duration) -> int:
    """Whole seconds of a grace, rounded up."""
    return max(GRACE_S_MIN, -(-grace // 1_000_000))


def _facts(order: GangOrder, settings: RenderSettings) -> GangFacts:
    gang = names.gang_name(order.attempt)
    return GangFacts(
        attempt=order.attempt,
        project=order.project,
        name=order.name,
        spec=order.spec,
        reservations=order.reservations,
        addresses=tuple(
            WorkerAddress(
                host=f"{names.pod_name(order.attempt, held.rank)}.{gang}", port=RENDEZVOUS_PORT
            )
            for held in order.reservations
        ),
        hostfile=f"{GANG_FOLDER}/{HOSTFILE}",
        checkpoint_dir=order.spec.checkpoint.path,
        deadline=order.deadline,
        api_url=settings.api_url,
        api_token=settings.attempt_token(order.attempt) if settings.api_url else "",
        mpi_relay=_mpi_relay(order, settings),
    )


def _mpi_relay(order: GangOrder, settings: RenderSettings) -> MpiRelay | None:
    if order.spec.launcher is not Launcher.MPI:
        return None
    # Not the token itself, which lets its bearer report steps to the service.
    secret = hashlib.sha256(f"mpi {settings.attempt_token(order.attempt)}".encode()).hexdigest()
    return MpiRelay(port=MPI_PORT, secret=secret)


def _hosts(facts: GangFacts) -> str:
    return ",".join(address.host for address in facts.addresses)


def _metadata(order: GangOrder, settings: RenderSettings, name: str, digest: str) -> JsonObject:
    labels: JsonObject = {
        **names.attempt_labels(settings.instance, order.attempt),
        names.EPOCH: str(order.epoch),
        names.JOB_NAME: order.name,
        names.PROJECT: order.project,
        names.QUEUE: order.spec.queue,
        names.MANAGED_BY: names.MANAGER,
    }
    annotations: JsonObject = {names.WORKERS: str(len(order.reservations))}
    if digest:
        annotations[names.SPEC_HASH] = digest
    return {
        "name": name,
        "namespace": settings.namespace_of(order.project),
        "labels": labels,
        "annotations": annotations,
    }


def _sidecar(sidecar: Sidecar, pods: ProjectPods) -> JsonObject:
    """One that ends when the worker has ended, whatever it is doing."""
    amounts: JsonObject = {}
    if sidecar.cpu_milli:
        amounts["cpu"] = f"{sidecar.cpu_milli}m"
    if sidecar.memory_bytes:
        amounts["memory"] = str(sidecar.memory_bytes)
    container: JsonObject = {
        "name": sidecar.name,
        "image": sidecar.image,
        "restartPolicy": "Always",
        "env": [{"name": name, "value": _literal(value)} for name, value in sidecar.env.items()],
        "resources": {"requests": amounts},
        "securityContext": security.of_container(pods, ()),
    }
    if sidecar.command:
        container["command"] = [_literal(word) for word in sidecar.command]
    return container


def _owner(name: str, uid: Uid) -> Json:
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}]


def _pinned_to(node: NodeName) -> Json:
    """By affinity, not by nodeName: kube-scheduler still checks that there is room."""
    field: Json = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [field]}]
            }
        }
    }


def _tolerations() -> Json:
    # The node's own troubles are ours to judge: without a time limit nobody else evicts.
    return [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": names.POOL_TAINT, "operator": "Exists"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    ]


def _literal(value: str) -> str:
    """Text that Kubernetes leaves as it is: our own variables are filled in already."""
    return value.replace("$", "$$")
