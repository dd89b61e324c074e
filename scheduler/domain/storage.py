"""What workers see besides their image: volumes and secrets, as a job file names them."""

from dataclasses import dataclass
from enum import StrEnum


class VolumeKind(StrEnum):
    """Where a volume comes from."""

    CLAIM = "claim"
    """A PersistentVolumeClaim in the namespace of the project."""
    SHARED = "shared"
    """A mount that an admin made."""
    SCRATCH = "scratch"
    """Empty, and gone with the worker."""
    CONFIG_MAP = "configMap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Storage that every worker of the gang sees."""

    name: str
    kind: VolumeKind
    source: str = ""
    """Name of the claim, of the admin's mount or of the ConfigMap; empty for scratch."""
    bytes_max: int = 0
    """Of scratch: what it may hold."""
    mount_path: str
    sub_path: str = ""
    is_read_only: bool = False
    claim: str = ""
    """The claim it stands for, as `claim_key` names it; empty where it is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """One key of a secret, as a variable or as a file."""

    secret: str
    key: str
    env: str = ""
    file: str = ""
    """Path of the file; one of `env` and `file` is given."""

    def __post_init__(self) -> None:
        assert bool(self.env) != bool(self.file), self


def claim_key(namespace: str, claim: str) -> str:
    """What a claim is called by all of the cluster."""
    return f"{namespace}/{claim}"


def lies_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
