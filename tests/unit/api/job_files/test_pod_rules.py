"""What a job file must say, and may say, where workers are pods."""

from dataclasses import replace

import pytest

from api.documents.document import Json
from api.job_files.spec_mapping import to_spec
from scheduler.domain.ids import PoolName, ProjectName, QueueName
from scheduler.domain.pod_policy import (
    PodPolicy,
    PodProfile,
    ProfileMount,
    ProjectPods,
    SharedMount,
)
from scheduler.domain.storage import SecretUse, Volume, VolumeKind
from tests.unit.api.job_files.reading import AROUND, a_document, problems, read

POLICY = PodPolicy(
    projects={
        ProjectName("default"): ProjectPods(
            secrets=frozenset({"wandb"}),
            profiles=frozenset({"rdma"}),
            shared=frozenset({"datasets", "archive"}),
        ),
    },
    profiles={
        "rdma": PodProfile(
            resources=(("rdma/hca", 1),),
            mounts=(ProfileMount(name="ib", host_path="/dev/infiniband", mount_path="/ib"),),
        ),
        "root": PodProfile(),
    },
    pool_profiles={PoolName("h100"): "rdma"},
    shared={
        "datasets": SharedMount(claim="datasets"),
        "archive": SharedMount(claim="archive", is_read_only=True),
        "secret-sauce": SharedMount(claim="sauce"),
    },
)
ON_PODS = replace(AROUND, pods=POLICY)
CLAIMS = replace(
    ON_PODS,
    pods=PodPolicy(projects={ProjectName("default"): ProjectPods(claims=frozenset({"mine"}))}),
)

Spec = dict[str, Json]


def a_volume(**more: Json) -> Spec:
    """A file with one volume."""
    return {"volumes": [{"name": "v", "mountPath": "/data", **more}]}


def a_secret(**more: Json) -> Spec:
    """A file with one secret."""
    return {"secrets": [{"secretRef": "wandb/key", **more}]}


BROKEN = [
    pytest.param({"image": None}, "/spec/image", "MissingField", id="no image"),
    pytest.param({"image": "--privileged"}, "/spec/image", "InvalidValue", id="an option"),
    pytest.param({"image": "a b"}, "/spec/image", "InvalidValue", id="an image with a space"),
    pytest.param({"podProfile": "rdmaa"}, "/spec/podProfile", "UnknownPodProfile", id="profile"),
    pytest.param({"podProfile": "root"}, "/spec/podProfile", "NotAllowed", id="its profile"),
    pytest.param(a_volume(), "/spec/volumes/0", "InvalidValue", id="no kind"),
    pytest.param(
        a_volume(claim="c", scratch="1Gi"), "/spec/volumes/0", "InvalidValue", id="two kinds"
    ),
    pytest.param(
        a_volume(claim="A B"), "/spec/volumes/0/claim", "InvalidName", id="a claim's name"
    ),
    pytest.param(
        a_volume(configMap="jabcdefghij-a0"),
        "/spec/volumes/0/configMap",
        "ReservedName",
        id="another gang's ConfigMap",
    ),
    pytest.param(
        a_volume(shared="dataset"), "/spec/volumes/0/shared", "UnknownSharedMount", id="shared"
    ),
    pytest.param(
        a_volume(shared="secret-sauce"), "/spec/volumes/0/shared", "NotAllowed", id="its shared"
    ),
    pytest.param(
        a_volume(scratch=0), "/spec/volumes/0/scratch", "OutOfRange", id="a scratch of nothing"
    ),
    pytest.param(
        a_volume(claim="c", subPath="../x"), "/spec/volumes/0/subPath", "InvalidValue", id="up"
    ),
    pytest.param(
        a_volume(claim="c", subPath="/x"), "/spec/volumes/0/subPath", "InvalidValue", id="the root"
    ),
    pytest.param(
        a_volume(claim="c", mountPath="/"),
        "/spec/volumes/0/mountPath",
        "InvalidValue",
        id="the whole container",
    ),
    pytest.param(
        a_volume(claim="c", mountPath="/a:b"),
        "/spec/volumes/0/mountPath",
        "InvalidValue",
        id="a colon",
    ),
    pytest.param(
        a_volume(claim="c", mountPath="/dev/shm/"),  # noqa: S108 - inside the container
        "/spec/volumes/0/mountPath",
        "ReservedName",
        id="the shared memory",
    ),
    pytest.param(
        a_volume(claim="c", mountPath="/proc/1"),
        "/spec/volumes/0/mountPath",
        "ReservedName",
        id="processes",
    ),
    pytest.param(
        a_volume(claim="c", mountPath="/./etc/dally"),
        "/spec/volumes/0/mountPath",
        "ReservedName",
        id="the gang's folder",
    ),
    pytest.param(
        {
            "volumes": [
                {"name": "a", "claim": "c", "mountPath": "/data"},
                {"name": "a", "claim": "c", "mountPath": "/data2"},
            ]
        },
        "/spec/volumes/1/name",
        "DuplicateName",
        id="a name twice",
    ),
    pytest.param(
        {
            "volumes": [
                {"name": "a", "claim": "c", "mountPath": "/data"},
                {"name": "b", "claim": "c", "mountPath": "/data/"},
            ]
        },
        "/spec/volumes/1/mountPath",
        "DuplicateName",
        id="a place twice",
    ),
    pytest.param(
        {"podProfile": "rdma", **a_volume(claim="c", mountPath="/ib")},
        "/spec/volumes/0/mountPath",
        "DuplicateName",
        id="the profile's place",
    ),
    pytest.param(
        {"pool": "h100", **a_volume(claim="c", mountPath="/ib")},
        "/spec/volumes/0/mountPath",
        "DuplicateName",
        id="the place of the pool's profile",
    ),
    pytest.param(a_secret(), "/spec/secrets/0", "InvalidValue", id="a secret for nothing"),
    pytest.param(
        a_secret(env="A", file="/a"), "/spec/secrets/0", "InvalidValue", id="a secret for two"
    ),
    pytest.param(
        a_secret(env="A", secretRef="admin/key"),
        "/spec/secrets/0/secretRef",
        "NotAllowed",
        id="their secret",
    ),
    pytest.param(
        a_secret(env="A", secretRef="a b/key"),
        "/spec/secrets/0/secretRef",
        "InvalidName",
        id="a secret's name",
    ),
    pytest.param(a_secret(env="A-B"), "/spec/secrets/0/env", "InvalidName", id="its variable"),
    pytest.param(
        a_secret(env="LD_PRELOAD"), "/spec/secrets/0/env", "ReservedName", id="our variable"
    ),
    pytest.param(
        {"env": {"A": "1"}, **a_secret(env="A")},
        "/spec/secrets/0/env",
        "DuplicateName",
        id="a variable twice",
    ),
    pytest.param(
        a_secret(file="/etc/dally/x"), "/spec/secrets/0/file", "ReservedName", id="a file of ours"
    ),
    pytest.param(
        {"checkpoint": {"path": "/ckpt"}},
        "/spec/checkpoint/path",
        "CheckpointNotKept",
        id="a checkpoint in the container",
    ),
    pytest.param(
        {"checkpoint": {"path": "/data/ckpt"}, **a_volume(scratch="1Gi")},
        "/spec/checkpoint/path",
        "CheckpointNotKept",
        id="a checkpoint on scratch",
    ),
    pytest.param(
        {"checkpoint": {"path": "/data/ckpt"}, **a_volume(claim="c", readOnly=True)},
        "/spec/checkpoint/path",
        "CheckpointNotKept",
        id="a checkpoint that can not be written",
    ),
    pytest.param(
        {"checkpoint": {"path": "/data/ckpt"}, **a_volume(shared="archive")},
        "/spec/checkpoint/path",
        "CheckpointNotKept",
        id="a checkpoint on what admins keep from being written",
    ),
    pytest.param(
        {"checkpoint": {"path": "/database"}, **a_volume(claim="c")},
        "/spec/checkpoint/path",
        "CheckpointNotKept",
        id="a checkpoint beside the volume",
    ),
    pytest.param(
        {
            "checkpoint": {"path": "/data/tmp/x"},
            "volumes": [
                {"name": "a", "claim": "c", "mountPath": "/data"},
                {"name": "b", "scratch": "1Gi", "mountPath": "/data/tmp"},
            ],
        },
        "/spec/checkpoint/path",
        "CheckpointNotKept",
        id="a checkpoint on scratch inside a claim",
    ),
]


@pytest.mark.parametrize(("spec", "pointer", "reason"), BROKEN)
def test_a_broken_rule_of_pods_is_told_by_pointer_and_reason(
    spec: Spec, pointer: str, reason: str
) -> None:
    document = a_document({"image": "registry/train:1", **spec})
    found = [(problem.pointer, problem.reason) for problem in problems(document, ON_PODS)]
    assert found == [(pointer, reason)]


def test_a_claim_that_is_not_the_projects_is_refused() -> None:
    document = a_document({"image": "i", **a_volume(claim="theirs")})
    (problem,) = problems(document, CLAIMS)
    assert (problem.pointer, problem.reason) == ("/spec/volumes/0/claim", "NotAllowed")
    assert "projects[].pods.claims" in problem.detail
    assert not problems(a_document({"image": "i", **a_volume(claim="mine")}), CLAIMS)


def test_a_secret_must_be_named_with_its_key() -> None:
    document = a_document({"image": "i", "secrets": [{"env": "A", "secretRef": "wandb"}]})
    (problem,) = problems(document, ON_PODS)
    assert "SECRET/KEY" in problem.detail


def test_a_file_with_everything_means_what_it_says() -> None:
    document = a_document(
        {
            "image": "registry/train:1",
            "podProfile": "rdma",
            "resources": {"memory": "8Gi", "sharedMemory": "2Gi"},
            "volumes": [
                {"name": "a", "claim": "c", "mountPath": "/ckpt", "subPath": "run1"},
                {"name": "b", "scratch": "1Gi", "mountPath": "/fast"},
                {"name": "d", "shared": "datasets", "mountPath": "/data", "readOnly": True},
                {"name": "e", "configMap": "hyper", "mountPath": "/config"},
            ],
            "secrets": [
                {"env": "WANDB", "secretRef": "wandb/key"},
                {"file": "/run/wandb", "secretRef": "wandb/key"},
            ],
            "checkpoint": {"path": "/ckpt/x"},
        }
    )
    file = read(document, ON_PODS)
    spec = to_spec(file.spec, labels={}, default_queue=QueueName("default"))
    spec = replace(POLICY, namespace="jobs").completed(ProjectName("default"), spec)
    (role,) = spec.roles
    assert role.shared_memory_bytes == 2 << 30
    assert role.resources.memory_bytes == 10 << 30
    assert role.resources.extended == (("rdma/hca", 1),)
    assert spec.volumes[0] == Volume(
        name="a",
        kind=VolumeKind.CLAIM,
        source="c",
        mount_path="/ckpt",
        sub_path="run1",
        claim="jobs/c",
    )
    assert spec.volumes[1].bytes_max == 1 << 30
    assert spec.secrets[1] == SecretUse(secret="wandb", key="key", file="/run/wandb")  # noqa: S106 - a name


def test_shared_memory_without_memory_asks_for_none() -> None:
    file = read(a_document({"resources": {"sharedMemory": "2Gi"}}))
    (role,) = to_spec(file.spec, labels={}, default_queue=QueueName("default")).roles
    assert (role.resources.memory_bytes, role.shared_memory_bytes) == (0, 2 << 30)
