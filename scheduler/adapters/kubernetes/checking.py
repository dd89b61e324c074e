"""What a rendered pod must not have, checked apart from what renders it: rules over the final pod.

The pod security level `restricted`, and our own: nothing of a user's may steer kube-scheduler,
reach the node, or carry rights of a service account.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.objects import JsonObject, at, parts, text, texts

POD_FIELDS = frozenset(
    {
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "enableServiceLinks",
        "hostname",
        "imagePullSecrets",
        "restartPolicy",
        "schedulingGates",
        "securityContext",
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
VOLUME_KINDS = frozenset({"configMap", "emptyDir"})
POD_SECURITY_FIELDS = frozenset(
    {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile"}
)
CONTAINER_SECURITY_FIELDS = frozenset({"allowPrivilegeEscalation", "capabilities"})
ENV_SOURCES = frozenset({"configMapKeyRef"})
FOREIGN_PREFIXES = ("cluster-autoscaler.kubernetes.io/", "karpenter.sh/", names.PREFIX)
GRACE_S_MAX = 3600
IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,511}")
VARIABLE = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that must hold."""

    name: str
    broken_by: Callable[[JsonObject], Iterator[str]]
    """Yields what breaks it."""


def violations(pod: JsonObject) -> list[str]:
    """Every broken rule, with what breaks it; empty for a pod that may be made."""
    return [f"{rule.name}: {what}" for rule in RULES for what in rule.broken_by(pod)]


def _unknown_fields(pod: JsonObject) -> Iterator[str]:
    yield from sorted(_keys(pod, "spec") - POD_FIELDS)


def _unknown_container_fields(pod: JsonObject) -> Iterator[str]:
    for container in _containers(pod):
        yield from sorted(container.keys() - CONTAINER_FIELDS)


def _not_one_container(pod: JsonObject) -> Iterator[str]:
    found = [text(container, "name") for container in _containers(pod)]
    if found != [names.MAIN_CONTAINER]:
        yield ", ".join(found) or "none"


def _bad_image(pod: JsonObject) -> Iterator[str]:
    for container in _containers(pod):
        if not IMAGE.fullmatch(text(container, "image")):
            yield text(container, "image") or "no image is named, and Kubernetes needs one"


def _root(pod: JsonObject) -> Iterator[str]:
    if at(pod, "spec", "securityContext", "runAsNonRoot") is not True:
        yield "runAsNonRoot is not true"
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        if not at(pod, "spec", "securityContext", name):
            yield f"{name} is 0 or missing"


def _pod_security(pod: JsonObject) -> Iterator[str]:
    yield from sorted(_keys(pod, "spec", "securityContext") - POD_SECURITY_FIELDS)
    if text(pod, "spec", "securityContext", "seccompProfile", "type") != "RuntimeDefault":
        yield "seccompProfile is not RuntimeDefault"


def _container_security(pod: JsonObject) -> Iterator[str]:
    for container in _containers(pod):
        yield from sorted(_keys(container, "securityContext") - CONTAINER_SECURITY_FIELDS)
        if at(container, "securityContext", "allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation is not false"
        if at(container, "securityContext", "capabilities") != {"drop": ["ALL"]}:
            yield "capabilities are not all dropped"


def _service_account(pod: JsonObject) -> Iterator[str]:
    if at(pod, "spec", "automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken is not false"


def _service_links(pod: JsonObject) -> Iterator[str]:
    if at(pod, "spec", "enableServiceLinks") is not False:
        yield "enableServiceLinks is not false"


def _volumes(pod: JsonObject) -> Iterator[str]:
    for volume in parts(pod, "spec", "volumes"):
        yield from sorted(volume.keys() - VOLUME_KINDS - {"name"})
        if "emptyDir" in volume and not text(volume, "emptyDir", "sizeLimit"):
            yield f"{text(volume, 'name')} has no sizeLimit"


def _own_config_map(pod: JsonObject) -> Iterator[str]:
    own = text(pod, "spec", "subdomain")
    for volume in parts(pod, "spec", "volumes"):
        if "configMap" in volume and text(volume, "configMap", "name") != own:
            yield text(volume, "configMap", "name")
    for container in _containers(pod):
        for variable in parts(container, "env"):
            name = text(variable, "valueFrom", "configMapKeyRef", "name")
            if "valueFrom" in variable and name != own:
                yield name or text(variable, "name")


def _mounts(pod: JsonObject) -> Iterator[str]:
    known = {text(volume, "name") for volume in parts(pod, "spec", "volumes")}
    for container in _containers(pod):
        for mount in parts(container, "volumeMounts"):
            path = text(mount, "mountPath")
            if text(mount, "name") not in known or ".." in path.split("/") or ":" in path:
                yield path
            if mount.keys() - {"name", "mountPath", "readOnly"}:
                yield f"{path}: {', '.join(sorted(mount.keys()))}"


def _environment(pod: JsonObject) -> Iterator[str]:
    for container in _containers(pod):
        for variable in parts(container, "env"):
            if not VARIABLE.fullmatch(text(variable, "name")):
                yield f"the name {text(variable, 'name')!r}"
            yield from sorted(variable.keys() - {"name", "value", "valueFrom"})
            yield from sorted(_keys(variable, "valueFrom") - ENV_SOURCES)
            if "\0" in text(variable, "value"):
                yield f"{text(variable, 'name')} holds a NUL"


def _command(pod: JsonObject) -> Iterator[str]:
    for container in _containers(pod):
        words = at(container, "command")
        if not isinstance(words, list) or not words:
            yield "no command"
        elif any(not isinstance(word, str) or "\0" in word for word in words):
            yield "a word that is no text, or holds a NUL"


def _not_gated(pod: JsonObject) -> Iterator[str]:
    if at(pod, "spec", "schedulingGates") != [{"name": names.GATE}]:
        yield "it has not our gate alone"


def _not_pinned(pod: JsonObject) -> Iterator[str]:
    affinity = at(pod, "spec", "affinity")
    path = ("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms = parts(affinity, "nodeAffinity", *path)
    fields = [field for term in terms for field in parts(term, "matchFields")]
    is_alone = _keys(affinity) == {"nodeAffinity"} and _keys(affinity, "nodeAffinity") == {path[0]}
    is_by_name = len(terms) == len(fields) == 1 and text(fields[0], "key") == "metadata.name"
    if not is_alone or not is_by_name or terms[0].keys() != {"matchFields"}:
        yield "not to one node by its name"


def _restarts(pod: JsonObject) -> Iterator[str]:
    if text(pod, "spec", "restartPolicy") != "Never":
        yield text(pod, "spec", "restartPolicy")


def _grace(pod: JsonObject) -> Iterator[str]:
    grace = at(pod, "spec", "terminationGracePeriodSeconds")
    if not isinstance(grace, int) or not 1 <= grace <= GRACE_S_MAX:
        yield f"{grace} s, not 1 to {GRACE_S_MAX}"


def _not_ours(pod: JsonObject) -> Iterator[str]:
    labels = texts(pod, "metadata", "labels")
    for name in (names.INSTANCE, names.JOB_UID, names.ATTEMPT, names.RANK, names.EPOCH):
        if not labels.get(name):
            yield f"no label {name}"
    if len(parts(pod, "metadata", "ownerReferences")) != 1:
        yield "not one owner"
    yield from sorted(_keys(pod, "metadata") & {"finalizers", "generateName"})


def _annotations(pod: JsonObject) -> Iterator[str]:
    for name in sorted(texts(pod, "metadata", "annotations")):
        if not name.startswith(FOREIGN_PREFIXES):
            yield name


def _tolerations(pod: JsonObject) -> Iterator[str]:
    for toleration in parts(pod, "spec", "tolerations"):
        if not text(toleration, "key"):
            yield "a toleration of everything"


RULES: tuple[Rule, ...] = (
    Rule(name="fields of the pod", broken_by=_unknown_fields),
    Rule(name="fields of the container", broken_by=_unknown_container_fields),
    Rule(name="one container", broken_by=_not_one_container),
    Rule(name="image", broken_by=_bad_image),
    Rule(name="not root", broken_by=_root),
    Rule(name="security of the pod", broken_by=_pod_security),
    Rule(name="security of the container", broken_by=_container_security),
    Rule(name="service account", broken_by=_service_account),
    Rule(name="service links", broken_by=_service_links),
    Rule(name="volumes", broken_by=_volumes),
    Rule(name="own ConfigMap", broken_by=_own_config_map),
    Rule(name="mounts", broken_by=_mounts),
    Rule(name="environment", broken_by=_environment),
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
