"""What a rendered pod must not have, checked apart from what renders it: rules over the final pod.

The pod security level of the project, and our own: nothing of a user's may steer kube-scheduler,
reach the node, or carry rights of a service account. What admins grant beyond that is named.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.grants import STRICTEST, Grants
from scheduler.adapters.kubernetes.objects import JsonObject, at, parts, text, texts
from scheduler.domain.pod_policy import SecurityLevel

POD_FIELDS = frozenset(
    {
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "enableServiceLinks",
        "hostname",
        "imagePullSecrets",
        "initContainers",
        "resourceClaims",
        "restartPolicy",
        "schedulingGates",
        "securityContext",
        "serviceAccountName",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "volumes",
    }
)
CONTAINER_FIELDS = frozenset(
    {
        "command",
        "env",
        "image",
        "name",
        "resources",
        "securityContext",
        "volumeMounts",
        "workingDir",
    }
)
SIDECAR_FIELDS = CONTAINER_FIELDS - {"volumeMounts", "workingDir"} | {"restartPolicy"}
POD_SECURITY_FIELDS = frozenset(
    {
        "runAsNonRoot",
        "runAsUser",
        "runAsGroup",
        "fsGroup",
        "fsGroupChangePolicy",
        "seccompProfile",
    }
)
CONTAINER_SECURITY_FIELDS = frozenset({"allowPrivilegeEscalation", "capabilities"})
FOREIGN_PREFIXES = ("cluster-autoscaler.kubernetes.io/", "karpenter.sh/", names.PREFIX)
COUNTED = frozenset({"cpu", "memory", "nvidia.com/gpu", "amd.com/gpu"})
GRACE_S_MAX = 3600
SECRET_FILE_MODE_MAX = 0o440
IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,511}")
VARIABLE = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")
GANG_NAME = re.compile(r"j[0-9a-z]{10}-a[0-9]+")
SENSITIVE = ("/dev", "/proc", "/sys")
"""Folders that only what an admin mounts may lie in."""

Broken = Iterator[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that must hold."""

    name: str
    broken_by: Callable[[JsonObject, Grants], Broken]
    """Yields what breaks it."""


def violations(pod: JsonObject, grants: Grants = STRICTEST) -> list[str]:
    """Every broken rule, with what breaks it; empty for a pod that may be made."""
    return [f"{rule.name}: {what}" for rule in RULES for what in rule.broken_by(pod, grants)]


def _unknown_fields(pod: JsonObject, _grants: Grants) -> Broken:
    yield from sorted(_keys(pod, "spec") - POD_FIELDS)


def _unknown_container_fields(pod: JsonObject, _grants: Grants) -> Broken:
    for container in _containers(pod):
        yield from sorted(container.keys() - CONTAINER_FIELDS)


def _not_one_container(pod: JsonObject, _grants: Grants) -> Broken:
    found = [text(container, "name") for container in _containers(pod)]
    if found != [names.MAIN_CONTAINER]:
        yield ", ".join(found) or "none"


def _sidecars(pod: JsonObject, grants: Grants) -> Broken:
    for sidecar in parts(pod, "spec", "initContainers"):
        name = text(sidecar, "name")
        if (name, text(sidecar, "image")) not in grants.sidecars:
            yield f"{name} is none that an admin made"
        if text(sidecar, "restartPolicy") != "Always":
            yield f"{name} would have to end before the worker begins"
        yield from sorted(sidecar.keys() - SIDECAR_FIELDS)


def _bad_image(pod: JsonObject, _grants: Grants) -> Broken:
    for container in _containers(pod):
        if not IMAGE.fullmatch(text(container, "image")):
            yield text(container, "image") or "no image is named, and Kubernetes needs one"


def _user(pod: JsonObject, grants: Grants) -> Broken:
    security = at(pod, "spec", "securityContext")
    wanted = {"runAsUser": grants.uid, "runAsGroup": grants.gid, "fsGroup": grants.fs_group}
    for name, value in wanted.items():
        if at(security, name) != value:
            yield f"{name} is {at(security, name)}, not {value}"
    if grants.level is SecurityLevel.RESTRICTED:
        if at(security, "runAsNonRoot") is not True:
            yield "runAsNonRoot is not true"
        if not at(security, "runAsUser"):
            yield "runAsUser is 0 or missing"


def _pod_security(pod: JsonObject, _grants: Grants) -> Broken:
    yield from sorted(_keys(pod, "spec", "securityContext") - POD_SECURITY_FIELDS)
    if text(pod, "spec", "securityContext", "seccompProfile", "type") != "RuntimeDefault":
        yield "seccompProfile is not RuntimeDefault"


def _container_security(pod: JsonObject, grants: Grants) -> Broken:
    for container in _containers(pod):
        yield from _security_of(container, grants, grants.capabilities)
    for container in parts(pod, "spec", "initContainers"):
        yield from _security_of(container, grants, frozenset())


def _security_of(container: JsonObject, grants: Grants, capabilities: frozenset[str]) -> Broken:
    yield from sorted(_keys(container, "securityContext") - CONTAINER_SECURITY_FIELDS)
    yield from sorted(_keys(container, "securityContext", "capabilities") - {"add", "drop"})
    added = _words(container, "securityContext", "capabilities", "add")
    yield from (f"the capability {name}" for name in sorted(added - capabilities))
    if grants.level is SecurityLevel.RESTRICTED:
        if at(container, "securityContext", "allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation is not false"
        if at(container, "securityContext", "capabilities", "drop") != ["ALL"]:
            yield "capabilities are not all dropped"


def _service_account(pod: JsonObject, grants: Grants) -> Broken:
    if at(pod, "spec", "automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken is not false"
    if text(pod, "spec", "serviceAccountName") != grants.service_account:
        yield f"{text(pod, 'spec', 'serviceAccountName') or 'none'} is not the project's"


def _pull_secrets(pod: JsonObject, grants: Grants) -> Broken:
    for reference in parts(pod, "spec", "imagePullSecrets"):
        if text(reference, "name") not in grants.pull_secrets:
            yield text(reference, "name")


def _service_links(pod: JsonObject, _grants: Grants) -> Broken:
    if at(pod, "spec", "enableServiceLinks") is not False:
        yield "enableServiceLinks is not false"


def _volumes(pod: JsonObject, grants: Grants) -> Broken:
    for volume in parts(pod, "spec", "volumes"):
        kinds = sorted(volume.keys() - {"name"})
        allowed = None if len(kinds) != 1 else _VOLUMES.get(kinds[0])
        if allowed is None:
            yield f"{text(volume, 'name')} is {' and '.join(kinds) or 'nothing'}"
        elif not allowed(volume, text(pod, "spec", "subdomain"), grants):
            yield f"{text(volume, 'name')} is a {kinds[0]} that is not granted"


def _is_own_or_users(volume: JsonObject, own: str, _grants: Grants) -> bool:
    name = text(volume, "configMap", "name")
    is_well_formed = _keys(volume, "configMap") <= {"name", "items"}
    return is_well_formed and (name == own or (bool(name) and not GANG_NAME.fullmatch(name)))


def _is_limited(volume: JsonObject, _own: str, _grants: Grants) -> bool:
    return bool(text(volume, "emptyDir", "sizeLimit"))


def _is_claim_of_project(volume: JsonObject, _own: str, grants: Grants) -> bool:
    name = text(volume, "persistentVolumeClaim", "claimName")
    is_alone = _keys(volume, "persistentVolumeClaim") == {"claimName"}
    return is_alone and bool(name) and (grants.claims is None or name in grants.claims)


def _is_secret_file(volume: JsonObject, _own: str, grants: Grants) -> bool:
    mode = at(volume, "secret", "defaultMode")
    is_narrow = isinstance(mode, int) and not mode & ~SECRET_FILE_MODE_MAX
    is_one_key = len(parts(volume, "secret", "items")) == 1
    return is_narrow and is_one_key and text(volume, "secret", "secretName") in grants.secrets


def _is_granted_export(volume: JsonObject, _own: str, grants: Grants) -> bool:
    return (text(volume, "nfs", "server"), text(volume, "nfs", "path")) in grants.nfs


def _is_granted_path(volume: JsonObject, _own: str, grants: Grants) -> bool:
    return text(volume, "hostPath", "path") in grants.host_paths


_VOLUMES: dict[str, Callable[[JsonObject, str, Grants], bool]] = {
    "configMap": _is_own_or_users,
    "emptyDir": _is_limited,
    "persistentVolumeClaim": _is_claim_of_project,
    "secret": _is_secret_file,
    "nfs": _is_granted_export,
    "hostPath": _is_granted_path,
}
"""Kinds of volumes a pod may have at all, and when."""


def _mounts(pod: JsonObject, _grants: Grants) -> Broken:
    known = {text(volume, "name") for volume in parts(pod, "spec", "volumes")}
    for container in _containers(pod):
        for mount in parts(container, "volumeMounts"):
            path, inner = text(mount, "mountPath"), text(mount, "subPath")
            if text(mount, "name") not in known or ".." in path.split("/") or ":" in path:
                yield path
            if inner.startswith("/") or ".." in inner.split("/"):
                yield f"{path}: the part {inner}"
            if mount.keys() - {"name", "mountPath", "readOnly", "subPath"}:
                yield f"{path}: {', '.join(sorted(mount.keys()))}"


def _places(pod: JsonObject, _grants: Grants) -> Broken:
    """Nobody hides what the runtime or the service puts into a container."""
    by_admin = {text(v, "name") for v in parts(pod, "spec", "volumes") if "hostPath" in v}
    for container in _containers(pod):
        taken: set[str] = set()
        for mount in parts(container, "volumeMounts"):
            path, name = "/" + text(mount, "mountPath").strip("/"), text(mount, "name")
            is_sensitive = path == "/" or f"/{path.split('/')[1]}" in SENSITIVE
            is_ours = (name, path) == ("shm", "/dev/shm")  # noqa: S108 - inside the container
            if path in taken or (is_sensitive and not is_ours and name not in by_admin):
                yield path
            if name != "gang" and (path == "/etc/dally" or path.startswith("/etc/dally/")):
                yield path
            taken.add(path)


def _environment(pod: JsonObject, grants: Grants) -> Broken:
    own = text(pod, "spec", "subdomain")
    for container in (*_containers(pod), *parts(pod, "spec", "initContainers")):
        for variable in parts(container, "env"):
            name = text(variable, "name")
            if not VARIABLE.fullmatch(name):
                yield f"the name {name!r}"
            yield from sorted(variable.keys() - {"name", "value", "valueFrom"})
            if "\0" in text(variable, "value"):
                yield f"{name} holds a NUL"
            if "valueFrom" in variable and not _is_granted_source(variable, own, grants):
                yield f"{name} has a source that is not granted"


def _is_granted_source(variable: JsonObject, own: str, grants: Grants) -> bool:
    kinds = _keys(variable, "valueFrom")
    if kinds == {"configMapKeyRef"}:
        return text(variable, "valueFrom", "configMapKeyRef", "name") == own
    return (
        kinds == {"secretKeyRef"}
        and text(variable, "valueFrom", "secretKeyRef", "name") in grants.secrets
    )


def _resources(pod: JsonObject, grants: Grants) -> Broken:
    allowed = COUNTED | grants.resources
    for container in (*_containers(pod), *parts(pod, "spec", "initContainers")):
        for kind in ("requests", "limits"):
            yield from sorted(_keys(container, "resources", kind) - allowed)
    made = {
        (text(claim, "name"), text(claim, "resourceClaimTemplateName"))
        for claim in parts(pod, "spec", "resourceClaims")
    }
    yield from (f"the claim {name}" for name, _ in sorted(made - grants.claim_templates))


def _command(pod: JsonObject, _grants: Grants) -> Broken:
    for container in _containers(pod):
        words = at(container, "command")
        if not isinstance(words, list) or not words:
            yield "no command"
        elif any(not isinstance(word, str) or "\0" in word for word in words):
            yield "a word that is no text, or holds a NUL"


def _not_gated(pod: JsonObject, _grants: Grants) -> Broken:
    if at(pod, "spec", "schedulingGates") != [{"name": names.GATE}]:
        yield "it has not our gate alone"


def _not_pinned(pod: JsonObject, _grants: Grants) -> Broken:
    affinity = at(pod, "spec", "affinity")
    path = ("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms = parts(affinity, "nodeAffinity", *path)
    fields = [field for term in terms for field in parts(term, "matchFields")]
    is_alone = _keys(affinity) == {"nodeAffinity"} and _keys(affinity, "nodeAffinity") == {path[0]}
    is_by_name = len(terms) == len(fields) == 1 and text(fields[0], "key") == "metadata.name"
    if not is_alone or not is_by_name or terms[0].keys() != {"matchFields"}:
        yield "not to one node by its name"


def _restarts(pod: JsonObject, _grants: Grants) -> Broken:
    if text(pod, "spec", "restartPolicy") != "Never":
        yield text(pod, "spec", "restartPolicy")


def _grace(pod: JsonObject, _grants: Grants) -> Broken:
    grace = at(pod, "spec", "terminationGracePeriodSeconds")
    if not isinstance(grace, int) or not 1 <= grace <= GRACE_S_MAX:
        yield f"{grace} s, not 1 to {GRACE_S_MAX}"


def _not_ours(pod: JsonObject, _grants: Grants) -> Broken:
    labels = texts(pod, "metadata", "labels")
    for name in (names.INSTANCE, names.JOB_UID, names.ATTEMPT, names.RANK, names.EPOCH):
        if not labels.get(name):
            yield f"no label {name}"
    if len(parts(pod, "metadata", "ownerReferences")) != 1:
        yield "not one owner"
    yield from sorted(_keys(pod, "metadata") & {"finalizers", "generateName"})


def _annotations(pod: JsonObject, grants: Grants) -> Broken:
    for name, value in sorted(texts(pod, "metadata", "annotations").items()):
        if not name.startswith(FOREIGN_PREFIXES) and (name, value) not in grants.annotations:
            yield name


def _tolerations(pod: JsonObject, _grants: Grants) -> Broken:
    for toleration in parts(pod, "spec", "tolerations"):
        if not text(toleration, "key"):
            yield "a toleration of everything"


RULES: tuple[Rule, ...] = (
    Rule(name="fields of the pod", broken_by=_unknown_fields),
    Rule(name="fields of the container", broken_by=_unknown_container_fields),
    Rule(name="one container", broken_by=_not_one_container),
    Rule(name="sidecars", broken_by=_sidecars),
    Rule(name="image", broken_by=_bad_image),
    Rule(name="user", broken_by=_user),
    Rule(name="security of the pod", broken_by=_pod_security),
    Rule(name="security of the container", broken_by=_container_security),
    Rule(name="service account", broken_by=_service_account),
    Rule(name="pull secrets", broken_by=_pull_secrets),
    Rule(name="service links", broken_by=_service_links),
    Rule(name="volumes", broken_by=_volumes),
    Rule(name="mounts", broken_by=_mounts),
    Rule(name="places", broken_by=_places),
    Rule(name="environment", broken_by=_environment),
    Rule(name="resources", broken_by=_resources),
    Rule(name="command", broken_by=_command),
    Rule(name="gate", broken_by=_not_gated),
    Rule(name="pinned", broken_by=_not_pinned),
    Rule(name="restart policy", broken_by=_restarts),
    Rule(name="grace", broken_by=_grace),
    Rule(name="ours", broken_by=_not_ours),
    Rule(name="annotations", broken_by=_annotations),
    Rule(name="tolerations", broken_by=_tolerations),
)


def _containers(pod: JsonObject) -> list[JsonObject]:
    return parts(pod, "spec", "containers")


def _keys(data: object, *path: str) -> set[str]:
    found = data
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return set(found) if isinstance(found, dict) else set()


def _words(data: JsonObject, *path: str) -> set[str]:
    found = at(data, *path)
    return {str(word) for word in found} if isinstance(found, list) else set()
