"""Node objects as a kubelet writes them."""

from collections.abc import Mapping
from datetime import UTC, datetime

from tests.cluster.api_objects import ApiObjects, Object

GPU = "nvidia.com/gpu"
NODES = "/api/v1/nodes"
LOOPBACK = "127.0.0.1"


def a_node(
    name: str,
    *,
    gpus: int = 8,
    labels: Mapping[str, str] | None = None,
    cpus: int = 64,
    memory: str = "512Gi",
    pods: int = 110,
    kubelet_port: int = 0,
) -> Object:
    """A ready node; `kubelet_port` is where logs of its pods are served."""
    amounts = {"cpu": str(cpus), "memory": memory, "pods": str(pods), "ephemeral-storage": "1Ti"}
    if gpus:
        amounts[GPU] = str(gpus)
    status: Object = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [condition("Ready", is_true=True)],
        "addresses": [
            {"type": "InternalIP", "address": LOOPBACK},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": dict.fromkeys(_NODE_INFO, ""),
    }
    if kubelet_port:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": kubelet_port}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": status,
    }


_NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def condition(kind: str, *, is_true: bool, reason: str = "", message: str = "") -> Object:
    """One condition of a node or pod, as of now."""
    now = timestamp()
    return {
        "type": kind,
        "status": str(is_true),
        "reason": reason or f"{kind}{is_true}",
        "message": message,
        "lastTransitionTime": now,
    }


def timestamp(at: datetime | None = None) -> str:
    """A point in time as Kubernetes writes it: whole seconds."""
    return (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def set_gpus(objects: ApiObjects, name: str, gpus: int) -> None:
    """What a device plugin reports."""
    change = {"status": {"allocatable": {GPU: str(gpus)}}}
    objects.patch(f"{NODES}/{name}/status", change)


def set_ready(objects: ApiObjects, name: str, *, is_ready: bool, reason: str = "") -> None:
    """What a kubelet, or the controller that misses its heartbeats, reports."""
    node = objects.get(f"{NODES}/{name}")
    conditions = [each for each in node["status"]["conditions"] if each["type"] != "Ready"]
    conditions.append(condition("Ready", is_true=is_ready, reason=reason))
    objects.patch(f"{NODES}/{name}/status", {"status": {"conditions": conditions}})
