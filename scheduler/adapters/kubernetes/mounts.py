"""Volumes of a pod and where its main container sees them: ours, the job's, the profile's.

shm       /dev/shm, in memory             v-NAME   the job's volumes
gang      /etc/dally, out of the anchor   s-N      the job's secret files
                                          p-NAME   paths of the host, by the profile
"""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.objects import JsonObject
from scheduler.domain.codec import Json
from scheduler.domain.job import Role
from scheduler.domain.pod_policy import PodPolicy, PodProfile, ProfileMount, SharedMount
from scheduler.domain.storage import SecretUse, Volume, VolumeKind
from scheduler.ports.cluster import GangOrder

GANG_FOLDER = "/etc/dally"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - inside the container
SHARED_MEMORY_BYTES_MAX = 64 << 30
SECRET_FILE_MODE = 0o440
"""Read by the user and the group of the pod, and by nobody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """A volume and its place in the main container."""

    volume: JsonObject
    mount: JsonObject


def mounted(
    order: GangOrder,
    role: Role,
    memory_bytes: int,
    *,
    policy: PodPolicy,
    profile: PodProfile,
    files: tuple[str, ...],
) -> list[Mounted]:
    """Everything that a worker of a role sees; `files` are those of the anchor."""
    return [
        _shared_memory(role, memory_bytes),
        _gang(order, files),
        *(_of_job(volume, policy) for volume in order.spec.volumes),
        *_secret_files(order.spec.secrets),
        *(_of_host(mount) for mount in profile.mounts),
    ]


def _shared_memory(role: Role, memory_bytes: int) -> Mounted:
    half = memory_bytes // 2
    default = min(half, SHARED_MEMORY_BYTES_MAX) if half else SHARED_MEMORY_BYTES_MAX
    size = role.shared_memory_bytes or default
    return Mounted(
        volume={"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}},
        mount={"name": "shm", "mountPath": SHARED_MEMORY},
    )


def _gang(order: GangOrder, files: tuple[str, ...]) -> Mounted:
    items: list[Json] = [{"key": name, "path": name} for name in files]
    gang = names.gang_name(order.attempt)
    return Mounted(
        volume={"name": "gang", "configMap": {"name": gang, "items": items}},
        mount={"name": "gang", "mountPath": GANG_FOLDER, "readOnly": True},
    )


def _of_job(volume: Volume, policy: PodPolicy) -> Mounted:
    name = f"v-{volume.name}"
    mount: JsonObject = {"name": name, "mountPath": volume.mount_path}
    if volume.sub_path:
        mount["subPath"] = volume.sub_path
    if volume.is_read_only:
        mount["readOnly"] = True
    if volume.kind is VolumeKind.SHARED:
        shared = policy.shared.get(volume.source, SharedMount())
        return _of_admin(name, shared, mount)
    source: JsonObject
    if volume.kind is VolumeKind.CLAIM:
        source = {"persistentVolumeClaim": {"claimName": volume.source}}
    elif volume.kind is VolumeKind.SCRATCH:
        source = {"emptyDir": {"sizeLimit": str(volume.bytes_max)}}
    else:
        source = {"configMap": {"name": volume.source}}
    return Mounted(volume={"name": name, **source}, mount=mount)


def _of_admin(name: str, shared: SharedMount, mount: JsonObject) -> Mounted:
    """What an admin made; a mount that was taken away since submission has no source, and the
    checker refuses it."""
    source: JsonObject = {}
    if shared.claim:
        source = {"persistentVolumeClaim": {"claimName": shared.claim}}
    elif shared.nfs_server:
        source = {"nfs": {"server": shared.nfs_server, "path": shared.nfs_path}}
    elif shared.host_path:
        source = {"hostPath": {"path": shared.host_path, "type": "Directory"}}
    sub_path = posixpath.join(shared.sub_path, str(mount.get("subPath", ""))).rstrip("/")
    if sub_path:
        mount["subPath"] = sub_path
    if shared.is_read_only:
        mount["readOnly"] = True
    return Mounted(volume={"name": name, **source}, mount=mount)


def _secret_files(secrets: tuple[SecretUse, ...]) -> Iterator[Mounted]:
    for number, use in enumerate(secrets):
        if not use.file:
            continue
        name, file = f"s-{number}", posixpath.basename(use.file)
        items: list[Json] = [{"key": use.key, "path": file}]
        secret: JsonObject = {
            "secretName": use.secret,
            "items": items,
            "defaultMode": SECRET_FILE_MODE,
        }
        yield Mounted(
            volume={"name": name, "secret": secret},
            mount={"name": name, "mountPath": use.file, "subPath": file, "readOnly": True},
        )


def _of_host(mount: ProfileMount) -> Mounted:
    name = f"p-{mount.name}"
    placed: JsonObject = {"name": name, "mountPath": mount.mount_path}
    if mount.is_read_only:
        placed["readOnly"] = True
    return Mounted(volume={"name": name, "hostPath": {"path": mount.host_path}}, mount=placed)
