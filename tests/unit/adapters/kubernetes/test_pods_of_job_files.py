"""What job files and admins say of pods, as pods have it; and that the checker holds both to it."""

import copy
from dataclasses import replace

import pytest

from scheduler.adapters.kubernetes.checking import violations
from scheduler.adapters.kubernetes.grants import STRICTEST
from scheduler.adapters.kubernetes.manifests import PodRenderer, RenderSettings
from scheduler.adapters.kubernetes.objects import JsonObject, Uid, at, parts, text
from scheduler.adapters.kubernetes.trial import too_large
from scheduler.domain.codec import Json
from scheduler.domain.gang import gang_request
from scheduler.domain.ids import AttemptNumber, ProjectName, Rank
from tests.unit.adapters.kubernetes.admins import (
    DEFAULT,
    POLICY,
    ROOTED,
    a_pod_of,
    a_spec,
    an_order_of,
    broken_by,
)

EVERYTHING: dict[str, Json] = {
    "podProfile": "rdma",
    "resources": {"memory": "8Gi", "sharedMemory": "2Gi"},
    "env": {"MINE": "user"},
    "volumes": [
        {"name": "a", "claim": "c", "mountPath": "/ckpt", "subPath": "run1"},
        {"name": "b", "scratch": "1Gi", "mountPath": "/fast"},
        {"name": "d", "shared": "datasets", "mountPath": "/data", "subPath": "imagenet"},
        {"name": "e", "configMap": "hyper", "mountPath": "/config", "readOnly": True},
        {"name": "f", "shared": "local", "mountPath": "/local"},
        {"name": "g", "shared": "models", "mountPath": "/models"},
    ],
    "secrets": [
        {"env": "WANDB", "secretRef": "wandb/key"},
        {"file": "/run/wandb", "secretRef": "wandb/key"},
    ],
    "checkpoint": {"path": "/ckpt/x"},
}


def everything() -> JsonObject:
    """A pod that has some of everything."""
    return a_pod_of(a_spec(EVERYTHING))


def container(pod: JsonObject) -> JsonObject:
    """The one that decides."""
    (main,) = parts(pod, "spec", "containers")
    return main


def volumes(pod: JsonObject) -> dict[str, JsonObject]:
    """Volumes by name."""
    return {text(volume, "name"): volume for volume in parts(pod, "spec", "volumes")}


def mounts(pod: JsonObject) -> dict[str, JsonObject]:
    """Mounts by volume."""
    return {text(m, "name"): m for m in parts(container(pod), "volumeMounts")}


def variables(pod: JsonObject) -> dict[str, JsonObject]:
    """Variables by name."""
    return {text(v, "name"): v for v in parts(container(pod), "env")}


def test_everything_that_is_granted_keeps_every_rule() -> None:
    assert broken_by(everything(), a_spec(EVERYTHING)) == []


def test_volumes_are_where_the_file_says() -> None:
    pod = everything()
    assert volumes(pod)["v-a"]["persistentVolumeClaim"] == {"claimName": "c"}
    assert mounts(pod)["v-a"] == {"name": "v-a", "mountPath": "/ckpt", "subPath": "run1"}
    assert volumes(pod)["v-b"]["emptyDir"] == {"sizeLimit": str(1 << 30)}
    assert volumes(pod)["v-d"]["nfs"] == {"server": "nfs", "path": "/data"}
    assert mounts(pod)["v-d"]["subPath"] == "public/imagenet"
    assert mounts(pod)["v-d"]["readOnly"] is True
    assert volumes(pod)["v-e"]["configMap"] == {"name": "hyper"}
    assert volumes(pod)["v-f"]["hostPath"] == {"path": "/mnt/local", "type": "Directory"}
    assert volumes(pod)["v-g"]["persistentVolumeClaim"] == {"claimName": "models"}
    assert text(variables(pod)["DALLY_CHECKPOINT_DIR"], "value") == "/ckpt/x"


def test_a_job_mounts_the_claims_of_its_namespace_and_those_of_shared_mounts() -> None:
    policy = replace(POLICY, namespace="jobs", namespaces={ROOTED: "rooted-jobs"})
    spec = a_spec(EVERYTHING)
    for project, namespace in ((DEFAULT, "jobs"), (ROOTED, "rooted-jobs")):
        completed = policy.completed(project, spec)
        claims = {volume.name: volume.claim for volume in completed.volumes if volume.claim}
        assert claims == {"a": f"{namespace}/c", "g": f"{namespace}/models"}
        (role,) = gang_request(completed).roles
        assert role.claims == (f"{namespace}/c", f"{namespace}/models")


def test_secrets_are_named_and_never_read() -> None:
    pod = everything()
    reference = at(variables(pod)["WANDB"], "valueFrom", "secretKeyRef")
    assert reference == {"name": "wandb", "key": "key"}
    assert at(volumes(pod)["s-1"], "secret", "secretName") == "wandb"
    assert mounts(pod)["s-1"]["mountPath"] == "/run/wandb"


def test_shared_memory_counts_on_top_of_the_memory() -> None:
    pod = everything()
    assert at(volumes(pod)["shm"], "emptyDir", "sizeLimit") == str(2 << 30)
    assert at(container(pod), "resources", "limits", "memory") == str(10 << 30)


def test_a_profile_adds_what_admins_say() -> None:
    pod = everything()
    limits = at(container(pod), "resources", "limits")
    assert isinstance(limits, dict)
    assert (limits["rdma/hca"], limits["hugepages-2Mi"]) == ("1", str(1 << 30))
    assert at(container(pod), "resources", "claims") == [{"name": "nic"}]
    assert at(pod, "spec", "resourceClaims") == [
        {"name": "nic", "resourceClaimTemplateName": "nic-template"}
    ]
    held = at(container(pod), "securityContext", "capabilities")
    assert held == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert at(pod, "metadata", "annotations", "k8s.v1.cni.cncf.io/networks") == "rdma-net"
    assert mounts(pod)["p-ib"]["mountPath"] == "/dev/infiniband"
    assert text(variables(pod)["NCCL_IB_HCA"], "value") == "mlx5"
    assert text(variables(pod)["MINE"], "value") == "user"
    (sidecar,) = parts(pod, "spec", "initContainers")
    assert (sidecar["name"], sidecar["restartPolicy"]) == ("exporter", "Always")


def test_a_project_says_whose_pods_they_are() -> None:
    pod = everything()
    assert at(pod, "spec", "serviceAccountName") == "trainer"
    assert at(pod, "spec", "imagePullSecrets") == [{"name": "registry"}]
    assert at(pod, "spec", "securityContext", "runAsUser") == 1000


def test_a_baseline_project_may_be_whoever_the_image_says() -> None:
    spec = a_spec(project=ROOTED)
    pod = a_pod_of(spec, ROOTED)
    assert at(pod, "spec", "securityContext") == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert container(pod)["securityContext"] == {}
    assert "HOME" not in variables(pod)
    assert broken_by(pod, spec, ROOTED) == []


def test_workers_of_an_mpi_job_run_the_command_or_an_agent_and_keep_every_rule() -> None:
    spec = a_spec({**EVERYTHING, "launcher": "mpi", "workers": 2, "command": ["mpirun", "$(X)"]})
    lead, agent = (a_pod_of(spec, rank=Rank(rank)) for rank in range(2))
    runtime = ["python3", "-m", "dally_runtime.mpi"]
    assert container(lead)["command"] == [*runtime, "lead", "--", "mpirun", "$$(X)"]
    assert container(agent)["command"] == [*runtime, "agent"]
    for pod in (lead, agent):
        assert broken_by(pod, spec) == []
        assert text(variables(pod)["DALLY_MPI_PORT"], "value") == "29501"
        secret = text(variables(pod)["DALLY_MPI_SECRET"], "value")
        assert len(secret) == 64
        assert secret == text(variables(lead)["DALLY_MPI_SECRET"], "value")


def test_each_attempt_of_an_mpi_job_has_a_secret_of_its_own() -> None:
    order = an_order_of(a_spec({"launcher": "mpi"}))
    settings = RenderSettings(
        instance="i", namespace_of=lambda _: "jobs", attempt_token=lambda key: f"token of {key}"
    )
    later = replace(order, attempt=order.attempt._replace(number=AttemptNumber(1)))
    pods = [PodRenderer(each, settings).pod(Rank(0), Uid("u")) for each in (order, later)]
    first, second = (text(variables(pod)["DALLY_MPI_SECRET"], "value") for pod in pods)
    assert first != second
    assert "token" not in str(pods)


def test_what_one_project_may_have_another_may_not() -> None:
    spec = a_spec(EVERYTHING)
    found = {broken.partition(":")[0] for broken in broken_by(a_pod_of(spec), spec, ROOTED)}
    assert found == {
        "user",
        "service account",
        "pull secrets",
        "volumes",
        "environment",
    }


def test_a_shared_mount_that_was_taken_away_is_not_mounted() -> None:
    spec = a_spec({"volumes": [{"name": "a", "shared": "models", "mountPath": "/models"}]})
    gone = replace(spec, volumes=(replace(spec.volumes[0], source="gone"),))
    assert broken_by(a_pod_of(gone), gone) == ["volumes: v-a is nothing"]


@pytest.mark.parametrize(
    "rule",
    [
        "sidecars",
        "security of the container",
        "service account",
        "pull secrets",
        "volumes",
        "environment",
        "resources",
        "annotations",
    ],
)
def test_what_admins_grant_is_refused_without_the_grant(rule: str) -> None:
    found = {broken.partition(":")[0] for broken in violations(everything(), STRICTEST)}
    assert rule in found


def test_a_secret_volume_shows_one_key_to_its_user_and_group_alone() -> None:
    changes: list[JsonObject] = [{"items": []}, {"defaultMode": 0o444}]
    for change in changes:
        pod = copy.deepcopy(everything())
        secret = volumes(pod)["s-1"]["secret"]
        assert isinstance(secret, dict)
        secret |= change
        assert "volumes: s-1 is a secret that is not granted" in broken_by(pod, a_spec(EVERYTHING))


def test_the_profile_of_a_project_holds_for_files_that_name_none() -> None:
    project = ProjectName("fast")
    pods = replace(POLICY.of(DEFAULT), profile="rdma")
    policy = replace(POLICY, projects={project: pods})
    spec = a_spec()
    assert policy.profile_name(project, spec, spec.roles[0]) == "rdma"


SETTINGS = RenderSettings(instance="test", namespace_of=lambda _: "jobs", policy=POLICY)


def test_a_gang_that_no_object_holds_is_told_with_its_numbers() -> None:
    (problem,) = too_large(SETTINGS, a_spec({"workers": 30_000}))
    assert (problem.pointer, problem.reason) == ("/spec/workers", "TooLarge")
    assert "30000 workers are too many" in problem.detail


def test_a_variable_that_linux_does_not_take_is_told() -> None:
    (problem,) = too_large(SETTINGS, a_spec({"workers": 3_000, "launcher": "tf"}))
    assert "TF_CONFIG" in problem.detail


def test_a_gang_of_usual_size_fits() -> None:
    assert too_large(SETTINGS, a_spec({"workers": 1_000})) == ()
