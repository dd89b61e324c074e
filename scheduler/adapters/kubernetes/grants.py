"""What the pods of one project may have beyond the strictest, as the checker reads the admins.

Derived apart from what renders pods, so that a mistake there does not grant itself.
"""

from dataclasses import dataclass, field

from scheduler.domain.ids import ProjectName
from scheduler.domain.pod_policy import NO_PROFILE, PodPolicy, SecurityLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """By default: nothing."""

    level: SecurityLevel = SecurityLevel.RESTRICTED
    uid: int | None = 1000
    gid: int | None = 1000
    fs_group: int | None = 1000
    service_account: str = ""
    pull_secrets: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    claims: frozenset[str] | None = None
    """None: every claim of the namespace."""
    nfs: frozenset[tuple[str, str]] = frozenset()
    """Servers with their paths."""
    host_paths: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    claim_templates: frozenset[tuple[str, str]] = frozenset()
    annotations: frozenset[tuple[str, str]] = frozenset()
    sidecars: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    """Names with their images."""


STRICTEST = Grants()


def grants_of(policy: PodPolicy, project: ProjectName, profile_name: str) -> Grants:
    """What admins grant the pods of a project that have this profile."""
    pods = policy.of(project)
    profile = policy.profiles.get(profile_name, NO_PROFILE)
    shared = [
        mount for name, mount in policy.shared.items() if pods.shared is None or name in pods.shared
    ]
    shared_claims = frozenset(mount.claim for mount in shared if mount.claim)
    paths = {mount.host_path for mount in shared if mount.host_path}
    return Grants(
        level=pods.level,
        uid=pods.user.uid,
        gid=pods.user.gid,
        fs_group=pods.user.fs_group,
        service_account=pods.service_account,
        pull_secrets=frozenset(pods.image_pull_secrets),
        secrets=pods.secrets,
        claims=None if pods.claims is None else pods.claims | shared_claims,
        nfs=frozenset((mount.nfs_server, mount.nfs_path) for mount in shared if mount.nfs_server),
        host_paths=frozenset(paths | {mount.host_path for mount in profile.mounts}),
        capabilities=frozenset(profile.capabilities),
        resources=frozenset(name for name, _ in profile.resources),
        claim_templates=frozenset(profile.claims),
        annotations=frozenset(profile.annotations.items()),
        sidecars=frozenset((sidecar.name, sidecar.image) for sidecar in profile.sidecars),
    )
