"""Volumes and secrets of the job file: the wire types, and what they mean."""

from typing import Annotated

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.job_files.scalars import AbsolutePath, Bytes, Name, Reference, Text
from api.wire import Wire
from scheduler.domain.quantities import parse_bytes, render_bytes
from scheduler.domain.storage import SecretUse, Volume, VolumeKind


def _secret_ref(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("WrongType", "must be a string")
    secret, slash, key = value.partition("/")
    if not (secret and slash and key) or "/" in key:
        raise PydanticCustomError("InvalidValue", "must be SECRET/KEY, e.g. wandb/key")
    return value


SecretRef = Annotated[
    str,
    PlainValidator(_secret_ref),
    WithJsonSchema({"type": "string", "pattern": "^[^/]+/[^/]+$", "examples": ["wandb/key"]}),
]


class SecretRequest(Wire):
    """One key of a secret for the workers; exactly one of env and file."""

    env: Reference | None = None
    """Name of the variable."""
    file: AbsolutePath | None = None
    """Path of the file."""
    secret_ref: SecretRef
    """`SECRET/KEY`."""


class VolumeRequest(Wire):
    """Storage that the workers see; exactly one of claim, shared, scratch and configMap."""

    name: Name
    """Unique in the job."""
    claim: Reference | None = None
    """A PersistentVolumeClaim in the project's namespace; what is written there is kept."""
    shared: Reference | None = None
    """A mount that an admin made (`sharedMounts`); what is written there is kept."""
    scratch: Bytes | None = None
    """Size of an empty folder of each worker, gone with it."""
    config_map: Reference | None = None
    """A ConfigMap in the project's namespace, as files."""
    mount_path: AbsolutePath
    sub_path: Annotated[Text, Field(examples=["run1"])] = ""
    """Folder of the volume to show instead of all of it."""
    read_only: bool = False


def kinds_given(volume: VolumeRequest) -> list[str]:
    """Which of the four kinds the file names."""
    return [
        name
        for name, value in (
            ("claim", volume.claim),
            ("shared", volume.shared),
            ("scratch", volume.scratch),
            ("configMap", volume.config_map),
        )
        if value is not None
    ]


def to_volume(request: VolumeRequest) -> Volume:
    """What a checked file means."""
    (kind,) = kinds_given(request)
    is_scratch = kind == VolumeKind.SCRATCH
    named = request.claim or request.shared or request.config_map or ""
    return Volume(
        name=request.name,
        kind=VolumeKind(kind),
        source="" if is_scratch else named,
        bytes_max=parse_bytes(request.scratch) if request.scratch is not None else 0,
        mount_path=request.mount_path,
        sub_path=request.sub_path,
        is_read_only=request.read_only,
    )


def from_volume(volume: Volume) -> VolumeRequest:
    """As a file says it."""
    kind, source = volume.kind, volume.source
    return VolumeRequest(
        name=volume.name,
        claim=source if kind is VolumeKind.CLAIM else None,
        shared=source if kind is VolumeKind.SHARED else None,
        scratch=render_bytes(volume.bytes_max) if kind is VolumeKind.SCRATCH else None,
        config_map=source if kind is VolumeKind.CONFIG_MAP else None,
        mount_path=volume.mount_path,
        sub_path=volume.sub_path,
        read_only=volume.is_read_only,
    )


def to_secret(request: SecretRequest) -> SecretUse:
    """What a checked file means."""
    secret, _, key = request.secret_ref.partition("/")
    return SecretUse(secret=secret, key=key, env=request.env or "", file=request.file or "")


def from_secret(use: SecretUse) -> SecretRequest:
    """As a file says it."""
    return SecretRequest(
        env=use.env or None, file=use.file or None, secret_ref=f"{use.secret}/{use.key}"
    )
