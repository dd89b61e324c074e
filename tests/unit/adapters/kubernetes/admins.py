"""What the admin of a test allows, and pods of job files under it."""

from dataclasses import replace

from api.documents.document import Json
from api.job_files.spec_mapping import to_spec
from scheduler.adapters.kubernetes.checking import violations
from scheduler.adapters.kubernetes.grants import grants_of
from scheduler.adapters.kubernetes.manifests import PodRenderer, RenderSettings
from scheduler.adapters.kubernetes.objects import JsonObject, Uid
from scheduler.domain.ids import NodeName, ProjectName, QueueName, Rank
from scheduler.domain.job import JobSpec
from scheduler.domain.pod_policy import (
    PodPolicy,
    PodProfile,
    PodUser,
    ProfileMount,
    ProjectPods,
    SecurityLevel,
    SharedMount,
    Sidecar,
)
from scheduler.domain.reservation import Reservation
from scheduler.ports.cluster import GangOrder
from tests.gangs import an_order
from tests.unit.api.job_files.reading import AROUND, a_document, read

DEFAULT, ROOTED = ProjectName("default"), ProjectName("rooted")
FIRST = Rank(0)

POLICY = PodPolicy(
    projects={
        DEFAULT: ProjectPods(
            secrets=frozenset({"wandb"}),
            profiles=frozenset({"rdma"}),
            service_account="trainer",
            image_pull_secrets=("registry",),
        ),
        ROOTED: ProjectPods(
            level=SecurityLevel.BASELINE, user=PodUser(uid=None, gid=None, fs_group=None)
        ),
    },
    profiles={
        "rdma": PodProfile(
            annotations={"k8s.v1.cni.cncf.io/networks": "rdma-net"},
            resources=(("hugepages-2Mi", 1 << 30), ("rdma/hca", 1)),
            capabilities=("IPC_LOCK",),
            mounts=(
                ProfileMount(name="ib", host_path="/dev/infiniband", mount_path="/dev/infiniband"),
            ),
            env={"NCCL_IB_HCA": "mlx5", "MINE": "admin"},
            sidecars=(Sidecar(name="exporter", image="exporter:1", command=("run",)),),
            claims=(("nic", "nic-template"),),
        ),
        "root": PodProfile(capabilities=("SYS_ADMIN",)),
    },
    shared={
        "datasets": SharedMount(
            nfs_server="nfs", nfs_path="/data", sub_path="public", is_read_only=True
        ),
        "models": SharedMount(claim="models"),
        "local": SharedMount(host_path="/mnt/local"),
    },
)


def a_spec(fields: dict[str, Json] | None = None, project: ProjectName = DEFAULT) -> JobSpec:
    """The spec of a job file; raises InvalidSpecError with what is wrong with it."""
    around = replace(AROUND, pods=POLICY, project=project)
    file = read(a_document({"image": "registry/train:1", **(fields or {})}), around)
    spec = to_spec(file.spec, labels={}, default_queue=QueueName("default"))
    return POLICY.completed(project, spec)


def an_order_of(spec: JobSpec, project: ProjectName = DEFAULT) -> GangOrder:
    """Its gang, all on one node."""
    order = an_order()
    reservations = [
        Reservation(
            attempt=order.attempt,
            role=role.name,
            rank=Rank(0),
            node=NodeName("n0"),
            gpus=role.gpus_per_worker,
            resources=role.resources,
        )
        for role in spec.roles
        for _ in range(role.workers)
    ]
    numbered = tuple(replace(held, rank=Rank(rank)) for rank, held in enumerate(reservations))
    return replace(order, spec=spec, project=project, reservations=numbered)


def a_pod_of(spec: JobSpec, project: ProjectName = DEFAULT, *, rank: Rank = FIRST) -> JsonObject:
    """The pod of rank 0, or another one."""
    settings = RenderSettings(instance="test", namespace_of=lambda _: "jobs", policy=POLICY)
    return PodRenderer(an_order_of(spec, project), settings).pod(rank, Uid("anchor"))


def broken_by(pod: JsonObject, spec: JobSpec, project: ProjectName = DEFAULT) -> list[str]:
    """What the checker says of it, with what the admin grants."""
    name = POLICY.profile_name(project, spec, spec.roles[0])
    return violations(pod, grants_of(POLICY, project, name))
