"""The chart on a real API server without nodes: schemas, pod security, rights, admission."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cluster.api_objects import ApiError, ApiObjects
from tests.cluster.control_plane import ReachedControlPlane
from tests.cluster.definitions import add_definitions
from tests.helm.helm_program import CHART, NAMESPACE, Helm, Manifest, pods_of
from tests.helm.value_sets import VALUE_SETS
from tests.polling import wait_until

PLACES = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "HTTPRoute": "/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes",
    "Ingress": "/apis/networking.k8s.io/v1/namespaces/{}/ingresses",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Namespace": "/api/v1/namespaces",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Pod": "/api/v1/namespaces/{}/pods",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "PrometheusRule": "/apis/monitoring.coreos.com/v1/namespaces/{}/prometheusrules",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ServiceMonitor": "/apis/monitoring.coreos.com/v1/namespaces/{}/servicemonitors",
    "ValidatingAdmissionPolicy": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    ),
    "ValidatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    ),
}
OF_OTHERS = {"HTTPRoute", "PrometheusRule", "ServiceMonitor"}
"""Kinds that a bare API server does not know: their projects publish the definitions."""
SERVER = f"system:serviceaccount:{NAMESPACE}:dally"
STRICTLY = {"dryRun": "All", "fieldValidation": "Strict"}
SERVER_MAY = [
    *(("create", "pods"), ("patch", "pods"), ("delete", "services"), ("watch", "configmaps")),
    ("get", "pods/log"),
]
SERVER_MAY_NOT = [
    *(("get", "secrets"), ("list", "secrets"), ("create", "pods/exec"), ("create", "rolebindings")),
    *(("create", "serviceaccounts/token"), ("impersonate", "users"), ("create", "jobs")),
    *(("patch", "services"), ("update", "pods"), ("patch", "persistentvolumes")),
    *(("update", "pods/status"), ("create", "pods/ephemeralcontainers"), ("bind", "roles")),
]


@pytest.fixture(scope="module")
def objects(control_plane: ReachedControlPlane) -> Iterator[ApiObjects]:
    """An admin's client; namespaces in which every pod must be restricted."""
    names = (NAMESPACE, "dally-jobs", "vision-jobs", "team-a", "team-b")
    client = control_plane.objects
    for name in names:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        client.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    for name in names:
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until(lambda path=account: client.find(path) is not None, f"{name} takes pods")  # type: ignore[misc]  # a default
    yield client
    for name in names:
        client.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_api_server_takes_every_object(helm: Helm, objects: ApiObjects, name: str) -> None:
    for manifest in helm.template(VALUE_SETS[name].values):
        if manifest["kind"] in OF_OTHERS or manifest["kind"] == "Namespace":
            continue
        path = PLACES[manifest["kind"]].format(manifest["metadata"].get("namespace", ""))
        objects.create(path, manifest, **STRICTLY)


def test_objects_of_others_keep_the_published_definitions(helm: Helm, objects: ApiObjects) -> None:
    add_definitions(objects)
    seen: set[str] = set()
    for values in VALUE_SETS.values():
        for manifest in helm.template(values.values):
            if manifest["kind"] in OF_OTHERS:
                path = PLACES[manifest["kind"]].format(manifest["metadata"]["namespace"])
                objects.create(path, manifest, **STRICTLY)
                seen.add(manifest["kind"])
    assert seen == OF_OTHERS


@pytest.mark.parametrize("name", VALUE_SETS)
def test_every_pod_passes_the_level_restricted(helm: Helm, objects: ApiObjects, name: str) -> None:
    """Deployments and Jobs are only warned about; their pods would be refused."""
    for what, spec in pods_of(helm.template(VALUE_SETS[name].values)):
        pod = {
            "metadata": {"name": "probe"},
            # Of what the pod refers to nothing exists here.
            "spec": {
                name: value
                for name, value in spec.items()
                if name not in ("priorityClassName", "serviceAccountName")
            },
        }
        path = PLACES["Pod"].format(NAMESPACE)
        made = objects.create(path, pod, **STRICTLY)
        assert made["metadata"]["name"] == "probe", what


@pytest.fixture
def installed(
    helm: Helm, objects: ApiObjects, control_plane: ReachedControlPlane, tmp_path: Path
) -> Iterator[Helm]:
    """Helm with a cluster where the chart is installed, with an exclusive and a shared pool."""
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "kubeconfig")
    there = Helm(program=helm.program, home=helm.home, kubeconfig=kubeconfig)
    there.run("install", *_RELEASE, values=_POOLS)
    yield there
    there.try_run("uninstall", "dally", "--namespace", NAMESPACE)
    claim = PLACES["PersistentVolumeClaim"].format(NAMESPACE) + "/dally-data"
    if objects.find(claim) is not None:
        objects.delete(claim)


_POOLS = {
    "jobNamespaces": {"create": False},
    "config": {
        "pools": [
            {"name": "a100", "nodeSelector": {"pool": "a100"}},
            {"name": "t4", "mode": "shared"},
        ]
    },
}
_RELEASE = ("dally", str(CHART), "--namespace", NAMESPACE)


@pytest.mark.usefixtures("installed")
def test_the_servers_account_has_exactly_its_rights(objects: ApiObjects) -> None:
    for verb, resource in SERVER_MAY:
        assert _may(objects, verb, resource, "dally-jobs"), (verb, resource)
        assert not _may(objects, verb, resource, "kube-system") or resource == "pods"
    for verb, resource in SERVER_MAY_NOT:
        for namespace in ("dally-jobs", NAMESPACE, ""):
            assert not _may(objects, verb, resource, namespace), (verb, resource, namespace)
    assert _may(objects, "watch", "nodes", "")
    assert _may(objects, "watch", "persistentvolumes", "")
    assert not _may(objects, "patch", "nodes", "")
    # For its shared pool it counts the pods of others.
    assert _may(objects, "list", "pods", "kube-system")
    assert not _may(objects, "delete", "pods", "kube-system")


@pytest.mark.usefixtures("installed")
def test_in_an_exclusive_pool_only_dally_takes_gpus(
    objects: ApiObjects, control_plane: ReachedControlPlane
) -> None:
    pool = [{"key": "dally.internal/pool", "operator": "Exists"}]
    anything = [{"operator": "Exists"}]
    # A policy holds a moment after it was made.
    wait_until(
        lambda: "only its workers get GPUs" in _refusal(objects, tolerations=pool),
        "the policy holds",
    )
    assert "only its workers get GPUs" in _refusal(objects, tolerations=anything)
    assert "may not name its node" in _refusal(objects, nodeName="n1")
    assert "only its workers" in _refusal(objects, tolerations=pool, gpu="nvidia.com/mig-1g.5gb")
    assert _refusal(objects, tolerations=[]) == ""
    assert _refusal(objects, tolerations=pool, gpu="example.com/fpga") == ""
    # Dally itself, and whoever is exempt.
    for user, namespace in ((SERVER, "dally-jobs"), ("", "kube-system")):
        answer = httpx2.post(
            f"{control_plane.url}{PLACES['Pod'].format(namespace)}?dryRun=All",
            json=_gpu_pod("nvidia.com/gpu", tolerations=pool),
            headers={
                "Authorization": f"Bearer {control_plane.token}",
                **({"Impersonate-User": user} if user else {}),
            },
            verify=False,
        )
        assert answer.is_success, answer.text


def test_a_release_lives_through_upgrade_rollback_and_uninstall(
    installed: Helm, objects: ApiObjects
) -> None:
    secret = PLACES["Secret"].format(NAMESPACE) + "/dally-admin-token"
    first = objects.get(secret)["data"]
    installed.run("upgrade", *_RELEASE, values={**_POOLS, "commonLabels": {"round": "two"}})
    assert objects.get(secret)["data"] == first, "the token survives an upgrade"
    assert objects.get(secret)["metadata"]["labels"]["round"] == "two"
    installed.run("rollback", "dally", "1", "--namespace", NAMESPACE)
    assert objects.get(secret)["data"] == first, "and a rollback"
    pod = _gpu_pod("nvidia.com/gpu", tolerations=[])
    objects.create(PLACES["Pod"].format("dally-jobs"), pod)
    installed.run("uninstall", "dally", "--namespace", NAMESPACE)
    assert objects.find(secret) is None
    deployment = PLACES["Deployment"].format(NAMESPACE) + "/dally"
    assert objects.find(deployment) is None
    claim = PLACES["PersistentVolumeClaim"].format(NAMESPACE) + "/dally-data"
    assert objects.find(claim) is not None, "the database stays"
    worker = PLACES["Pod"].format("dally-jobs") + "/probe"
    assert objects.find(worker) is not None, "training goes on"
    objects.delete(worker, grace_s=0)
    installed.run("install", *_RELEASE, values=_POOLS)
    assert objects.find(deployment) is not None, "a new install takes the volume over"


def test_namespaces_of_workers_outlive_the_release(
    helm: Helm, objects: ApiObjects, control_plane: ReachedControlPlane, tmp_path: Path
) -> None:
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "kubeconfig")
    there = Helm(program=helm.program, home=helm.home, kubeconfig=kubeconfig)
    values = {"jobNamespaces": {"names": ["workers-of-another"]}}
    release = ("other", str(CHART), "--namespace", NAMESPACE)
    path = f"{PLACES['Namespace']}/workers-of-another"
    there.run("install", *release, values=values)
    there.run("uninstall", "other", "--namespace", NAMESPACE)
    left = objects.get(path)
    assert left["status"]["phase"] == "Active"
    assert left["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    there.run("install", *release, values=values)
    there.run("uninstall", "other", "--namespace", NAMESPACE)
    objects.delete(path)


def _may(objects: ApiObjects, verb: str, resource: str, namespace: str) -> bool:
    name, _, sub = resource.partition("/")
    groups = {"jobs": "batch"} | dict.fromkeys(
        ("rolebindings", "roles"), "rbac.authorization.k8s.io"
    )
    attributes = {
        "verb": verb,
        "group": groups.get(name, ""),
        "resource": name,
        "subresource": sub,
        "namespace": namespace,
    }
    review = objects.create(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": SERVER, "resourceAttributes": attributes},
        },
    )
    allowed: bool = review["status"]["allowed"]
    return allowed


def _refusal(objects: ApiObjects, *, gpu: str = "nvidia.com/gpu", **spec: Any) -> str:
    """What is said to an admin who makes such a pod; empty: it would be made."""
    try:
        objects.create(PLACES["Pod"].format("team-a"), _gpu_pod(gpu, **spec), dryRun="All")
    except ApiError as error:
        return str(error)
    return ""


def _gpu_pod(gpu: str, **spec: Any) -> Manifest:
    container = {
        "name": "main",
        "image": "busybox:1",
        "resources": {"limits": {gpu: "1"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {"metadata": {"name": "probe"}, "spec": {"containers": [container], **spec}}
