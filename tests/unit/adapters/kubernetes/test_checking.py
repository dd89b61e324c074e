"""The rules over the final pod: what we render keeps all, and each rule catches what it is for."""

import copy
from collections.abc import Callable

import pytest

from scheduler.adapters.kubernetes.checking import RULES, violations
from scheduler.adapters.kubernetes.objects import JsonObject, parts
from scheduler.domain.codec import Json
from tests.unit.adapters.kubernetes.pod_objects import a_rendered_pod

Change = Callable[[JsonObject, JsonObject, JsonObject], None]
"""Changes a pod, its spec and its container."""


def an_image_pod() -> JsonObject:
    """A pod that keeps every rule."""
    pod = a_rendered_pod()
    parts(pod, "spec", "containers")[0]["image"] = "registry.example.com/train:1"
    return pod


def put(name: str, value: Json) -> Change:
    def change(_pod: JsonObject, spec: JsonObject, _container: JsonObject) -> None:
        spec[name] = value

    return change


def put_in_container(name: str, value: Json) -> Change:
    def change(_pod: JsonObject, _spec: JsonObject, container: JsonObject) -> None:
        container[name] = value

    return change


def put_in(part: str, name: str, value: Json) -> Change:
    def change(_pod: JsonObject, spec: JsonObject, _container: JsonObject) -> None:
        found = spec[part]
        assert isinstance(found, dict)
        found[name] = value

    return change


def put_in_metadata(name: str, value: Json) -> Change:
    def change(pod: JsonObject, _spec: JsonObject, _container: JsonObject) -> None:
        metadata = pod["metadata"]
        assert isinstance(metadata, dict)
        metadata[name] = value

    return change


def add(part: str, value: Json) -> Change:
    def change(_pod: JsonObject, spec: JsonObject, _container: JsonObject) -> None:
        found = spec[part]
        assert isinstance(found, list)
        found.append(value)

    return change


def add_to_container(part: str, value: Json) -> Change:
    def change(_pod: JsonObject, _spec: JsonObject, container: JsonObject) -> None:
        found = container[part]
        assert isinstance(found, list)
        found.append(value)

    return change


def env(name: str, **source: Json) -> Change:
    return add_to_container("env", {"name": name, **source})


def volume(**kind: Json) -> Change:
    return add("volumes", {"name": "v", **kind})


def mount(path: str, **more: Json) -> Change:
    return add_to_container("volumeMounts", {"name": "shm", "mountPath": path, **more})


def security(**values: Json) -> Change:
    return put_in_container("securityContext", {**values})


YES: Json = True
NO: Json = False
SAFE: JsonObject = {
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
}
FREE: JsonObject = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

HOSTILE: dict[str, tuple[str, Change]] = {
    "the host's network": ("fields of the pod", put("hostNetwork", YES)),
    "the host's processes": ("fields of the pod", put("hostPID", YES)),
    "the host's IPC": ("fields of the pod", put("hostIPC", YES)),
    "a service account": ("service account", put("serviceAccountName", "admin")),
    "a pull secret": ("pull secrets", put("imagePullSecrets", [{"name": "admin"}])),
    "a node by name": ("fields of the pod", put("nodeName", "n1")),
    "another scheduler": ("fields of the pod", put("schedulerName", "mine")),
    "a priority class": ("fields of the pod", put("priorityClassName", "system-node-critical")),
    "a runtime class": ("fields of the pod", put("runtimeClassName", "privileged")),
    "host aliases": ("fields of the pod", put("hostAliases", [{"ip": "1.2.3.4"}])),
    "DNS settings": ("fields of the pod", put("dnsConfig", {"nameservers": ["1.2.3.4"]})),
    "init containers": (
        "sidecars",
        put("initContainers", [{"name": "x", "image": "x", "restartPolicy": "Always", **SAFE}]),
    ),
    "ephemeral containers": ("fields of the pod", put("ephemeralContainers", [{"name": "x"}])),
    "shared processes": ("fields of the pod", put("shareProcessNamespace", YES)),
    "topology spread": ("fields of the pod", put("topologySpreadConstraints", [{}])),
    "the host's users": ("fields of the pod", put("hostUsers", YES)),
    "resource claims": (
        "resources",
        put("resourceClaims", [{"name": "x", "resourceClaimTemplateName": "theirs"}]),
    ),
    "another device": (
        "resources",
        put_in_container("resources", {"limits": {"example.com/device": "1"}}),
    ),
    "a deadline of its own": ("fields of the pod", put("activeDeadlineSeconds", 5)),
    "readiness gates": ("fields of the pod", put("readinessGates", [{"conditionType": "x"}])),
    "a node selector": ("fields of the pod", put("nodeSelector", {"a": "b"})),
    "a hook": ("fields of the container", put_in_container("lifecycle", {"postStart": {}})),
    "a probe": ("fields of the container", put_in_container("livenessProbe", {"httpGet": {}})),
    "whole secrets": ("fields of the container", put_in_container("envFrom", [{}])),
    "block devices": ("fields of the container", put_in_container("volumeDevices", [{}])),
    "ports of the host": ("fields of the container", put_in_container("ports", [{"hostPort": 1}])),
    "a terminal": ("fields of the container", put_in_container("tty", YES)),
    "arguments apart": ("fields of the container", put_in_container("args", ["x"])),
    "a restart policy": ("fields of the container", put_in_container("restartPolicy", "Always")),
    "a second container": ("one container", add("containers", {"name": "x", "image": "x"})),
    "another name": ("one container", put_in_container("name", "x")),
    "no image": ("image", put_in_container("image", "")),
    "an image that is an option": ("image", put_in_container("image", "--privileged")),
    "an image with a space": ("image", put_in_container("image", "a b")),
    "root": ("user", put_in("securityContext", "runAsUser", 0)),
    "root's group": ("user", put_in("securityContext", "runAsGroup", 0)),
    "root's files": ("user", put_in("securityContext", "fsGroup", 0)),
    "perhaps root": ("user", put_in("securityContext", "runAsNonRoot", NO)),
    "kernel settings": ("security of the pod", put_in("securityContext", "sysctls", [{}])),
    "SELinux": ("security of the pod", put_in("securityContext", "seLinuxOptions", {})),
    "more groups": ("security of the pod", put_in("securityContext", "supplementalGroups", [0])),
    "any system call": (
        "security of the pod",
        put_in("securityContext", "seccompProfile", {"type": "Unconfined"}),
    ),
    "privileged": ("security of the container", security(**FREE, privileged=True)),
    "unmasked proc": ("security of the container", security(**FREE, procMount="Unmasked")),
    "root in the container": ("security of the container", security(**FREE, runAsUser=0)),
    "escalation": (
        "security of the container",
        security(allowPrivilegeEscalation=True, capabilities={"drop": ["ALL"]}),
    ),
    "a capability": (
        "security of the container",
        security(
            allowPrivilegeEscalation=False,
            capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]},
        ),
    ),
    "no security": ("security of the container", security()),
    "a token": ("service account", put("automountServiceAccountToken", YES)),
    "service links": ("service links", put("enableServiceLinks", YES)),
    "a path of the host": ("volumes", volume(hostPath={"path": "/"})),
    "a secret": ("volumes", volume(secret={"secretName": "admin"})),
    "a projected token": ("volumes", volume(projected={"sources": [{}]})),
    "a claim without a name": ("volumes", volume(persistentVolumeClaim={})),
    "NFS": ("volumes", volume(nfs={"server": "x", "path": "/"})),
    "a driver": ("volumes", volume(csi={"driver": "x"})),
    "an image as a volume": ("volumes", volume(image={"reference": "x"})),
    "a scratch without a limit": ("volumes", volume(emptyDir={})),
    "two sources": ("volumes", volume(emptyDir={"sizeLimit": "1"}, hostPath={"path": "/"})),
    "another gang's ConfigMap": ("volumes", volume(configMap={"name": "jabcdefghij-a0"})),
    "a variable of another ConfigMap": (
        "environment",
        env("X", valueFrom={"configMapKeyRef": {"name": "theirs", "key": "x"}}),
    ),
    "a way up": ("mounts", mount("/a/../../etc")),
    "a way out of a volume": ("mounts", mount("/a", subPath="../..")),
    "a path of a volume from the root": ("mounts", mount("/a", subPath="/etc")),
    "a part by a variable": ("mounts", mount("/a", subPathExpr="$(HOME)")),
    "devices": ("places", mount("/dev/mem")),
    "processes": ("places", mount("/proc/1")),
    "the whole container": ("places", mount("/")),
    "the gang's folder": ("places", mount("/etc/dally")),
    "one place twice": ("places", mount("/dev/shm")),  # noqa: S108 - inside the container
    "propagation": ("mounts", mount("/a", mountPropagation="Bidirectional")),
    "a volume that is not there": (
        "mounts",
        add_to_container("volumeMounts", {"name": "x", "mountPath": "/x"}),
    ),
    "a secret's variable": (
        "environment",
        env("X", valueFrom={"secretKeyRef": {"name": "s", "key": "k"}}),
    ),
    "a field's variable": (
        "environment",
        env("X", valueFrom={"fieldRef": {"fieldPath": "spec.nodeName"}}),
    ),
    "a variable's name": ("environment", env("A=B", value="x")),
    "a NUL in a variable": ("environment", env("X", value="a\0b")),
    "no command": ("command", put_in_container("command", [])),
    "a NUL in the command": ("command", put_in_container("command", ["a\0b"])),
    "no gate": ("gate", put("schedulingGates", [])),
    "another gate": ("gate", put("schedulingGates", [{"name": "example.com/other"}])),
    "no pin": ("pinned", put("affinity", {})),
    "a pin by label": (
        "pinned",
        put(
            "affinity",
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a"}]}]
                    }
                }
            },
        ),
    ),
    "affinity to pods": ("pinned", put_in("affinity", "podAffinity", {})),
    "restarts": ("restart policy", put("restartPolicy", "Always")),
    "no grace": ("grace", put("terminationGracePeriodSeconds", 0)),
    "a day of grace": ("grace", put("terminationGracePeriodSeconds", 86_400)),
    "no labels": ("ours", put_in_metadata("labels", {})),
    "no owner": ("ours", put_in_metadata("ownerReferences", [])),
    "finalizers": ("ours", put_in_metadata("finalizers", ["example.com/keep"])),
    "another controller's annotation": (
        "annotations",
        put_in_metadata("annotations", {"sidecar.istio.io/inject": "true"}),
    ),
    "AppArmor by annotation": (
        "annotations",
        put_in_metadata(
            "annotations", {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}
        ),
    ),
    "every taint": ("tolerations", add("tolerations", {"operator": "Exists"})),
}
"""What somebody might want a pod to have: the rule that must catch it, and how it gets there."""


def hostile(name: str) -> JsonObject:
    pod = copy.deepcopy(an_image_pod())
    spec = pod["spec"]
    assert isinstance(spec, dict)
    HOSTILE[name][1](pod, spec, parts(pod, "spec", "containers")[0])
    return pod


def test_what_we_render_keeps_every_rule() -> None:
    assert violations(an_image_pod()) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pod_breaks_the_rule_that_is_there_for_it(name: str) -> None:
    broken = [found.partition(":")[0] for found in violations(hostile(name))]
    assert HOSTILE[name][0] in broken


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_without_a_rule_some_hostile_pod_would_pass(rule: str) -> None:
    alone = [
        name
        for name in HOSTILE
        if [found.partition(":")[0] for found in violations(hostile(name))] == [rule]
    ]
    assert alone, f"no pod breaks {rule} alone: leaving the rule out would not show"


def test_there_are_sixty_and_more() -> None:
    assert len(HOSTILE) >= 60
