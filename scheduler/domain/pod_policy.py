"""What admins say about pods: security level and user of a project, profiles, shared mounts.

project ── level, user, service account ──────────────▶ each of its pods
        └─ may use ──▶ secrets, claims, shared mounts, profiles ◀── named by the job file
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.domain.copying import replace
from scheduler.domain.ids import PoolName, ProjectName, RoleName
from scheduler.domain.job import JobSpec, Role
from scheduler.domain.storage import Volume, VolumeKind, claim_key


class SecurityLevel(StrEnum):
    """Pod security standard that a project's pods keep."""

    RESTRICTED = "restricted"
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUser:
    """Who the processes of a pod are."""

    uid: int | None = 1000
    """None: whoever the image says; `baseline` only."""
    gid: int | None = 1000
    fs_group: int | None = 1000
    """Group that volumes are made writable for."""
    home: str = "/tmp"  # noqa: S108 - inside the container, which is the job's alone
    """HOME of a uid that the image does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMount:
    """Storage that an admin made: exactly one of claim, NFS export and path of the host."""

    claim: str = ""
    nfs_server: str = ""
    nfs_path: str = ""
    host_path: str = ""
    sub_path: str = ""
    is_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileMount:
    """A path of the host that a profile shows to workers."""

    name: str
    host_path: str
    mount_path: str
    is_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A container that runs beside each worker and ends with it."""

    name: str
    image: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cpu_milli: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProfile:
    """Settings of pods beyond what a job file may say, chosen by name."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    resources: tuple[tuple[str, int], ...] = ()
    """Devices and huge pages of each worker by name, sorted; placement counts them."""
    capabilities: tuple[str, ...] = ()
    mounts: tuple[ProfileMount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    sidecars: tuple[Sidecar, ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    """Resource claims by name, each with its ResourceClaimTemplate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPods:
    """What holds for the pods of one project."""

    level: SecurityLevel = SecurityLevel.RESTRICTED
    user: PodUser = PodUser()
    service_account: str = ""
    """Its token is never mounted; empty: the namespace's default."""
    secrets: frozenset[str] = frozenset()
    """Secrets that its jobs may name."""
    claims: frozenset[str] | None = None
    """Claims that its jobs may name; None for all of the namespace."""
    shared: frozenset[str] | None = None
    """Shared mounts that its jobs may name; None for all."""
    profiles: frozenset[str] = frozenset()
    """Profiles that its jobs may name."""
    profile: str = ""
    """The profile of jobs that name none."""
    image_pull_secrets: tuple[str, ...] = ()


NO_PROFILE = PodProfile()
DEFAULT_PODS = ProjectPods()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPolicy:
    """All that admins say about pods."""

    projects: Mapping[ProjectName, ProjectPods] = field(default_factory=dict)
    profiles: Mapping[str, PodProfile] = field(default_factory=dict)
    pool_profiles: Mapping[PoolName, str] = field(default_factory=dict)
    """Default profile of jobs that name this pool."""
    shared: Mapping[str, SharedMount] = field(default_factory=dict)
    namespaces: Mapping[ProjectName, str] = field(default_factory=dict)
    """Where the pods of a project are, unless in `namespace`."""
    namespace: str = ""

    def of(self, project: ProjectName) -> ProjectPods:
        """What holds for a project."""
        return self.projects.get(project, DEFAULT_PODS)

    def profile_name(self, project: ProjectName, spec: JobSpec, role: Role) -> str:
        """The profile of a role's workers: the job's, its pool's, or its project's; or empty."""
        pool = role.pool or spec.pool
        by_pool = "" if pool is None else self.pool_profiles.get(pool, "")
        return spec.pod_profile or by_pool or self.of(project).profile

    def profile(self, project: ProjectName, spec: JobSpec, role: RoleName) -> PodProfile:
        """The profile of a role's workers."""
        found = next(each for each in spec.roles if each.name == role)
        return self.profiles.get(self.profile_name(project, spec, found), NO_PROFILE)

    def completed(self, project: ProjectName, spec: JobSpec) -> JobSpec:
        """The spec with what its profiles make each worker ask for, and the claims it mounts."""
        roles = tuple(
            replace(
                role,
                resources=replace(
                    role.resources, extended=self.profile(project, spec, role.name).resources
                ),
            )
            for role in spec.roles
        )
        volumes = tuple(
            replace(volume, claim=self._claim(project, volume)) for volume in spec.volumes
        )
        return replace(spec, roles=roles, volumes=volumes)

    def _claim(self, project: ProjectName, volume: Volume) -> str:
        name = volume.source if volume.kind is VolumeKind.CLAIM else ""
        if volume.kind is VolumeKind.SHARED and volume.source in self.shared:
            name = self.shared[volume.source].claim
        return claim_key(self.namespaces.get(project, self.namespace), name) if name else ""

    @property
    def counted_resources(self) -> frozenset[str]:
        """Names of the devices and huge pages that profiles ask for."""
        return frozenset(
            name for profile in self.profiles.values() for name, _ in profile.resources
        )


NO_POLICY = PodPolicy()
