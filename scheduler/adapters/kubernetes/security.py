"""Security contexts of pods and containers, by the level of the project."""

from scheduler.adapters.kubernetes.objects import JsonObject
from scheduler.domain.codec import Json
from scheduler.domain.pod_policy import ProjectPods, SecurityLevel


def of_pod(pods: ProjectPods) -> JsonObject:
    """Who the processes are, and which system calls they may make."""
    user = pods.user
    found: JsonObject = {"seccompProfile": {"type": "RuntimeDefault"}}
    if pods.level is SecurityLevel.RESTRICTED:
        found["runAsNonRoot"] = True
    if user.uid is not None:
        found["runAsUser"] = user.uid
    if user.gid is not None:
        found["runAsGroup"] = user.gid
    if user.fs_group is not None:
        found["fsGroup"] = user.fs_group
        # A large volume is not walked through at every start.
        found["fsGroupChangePolicy"] = "OnRootMismatch"
    return found


def of_container(pods: ProjectPods, capabilities: tuple[str, ...]) -> JsonObject:
    """What its processes may do besides; `capabilities` come from a profile."""
    added: list[Json] = [*capabilities]
    if pods.level is SecurityLevel.RESTRICTED:
        held: JsonObject = {"drop": ["ALL"]}
        if added:
            held["add"] = added
        return {"allowPrivilegeEscalation": False, "capabilities": held}
    return {"capabilities": {"add": added}} if added else {}
