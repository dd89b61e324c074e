"""What dallyd.yaml says of pods: `podProfiles`, `sharedMounts`, and `pods` of a project.

sharedMounts: [{name: datasets, nfs: {server: nfs.example.com, path: /data}, readOnly: true}]
podProfiles: [{name: rdma, resources: {rdma/hca: 1}, capabilities: [IPC_LOCK]}]
projects: [{name: vision, pods: {uid: 2000, secrets: [wandb], podProfiles: [rdma]}}]
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from scheduler.domain.ids import PoolName, ProjectName
from scheduler.domain.pod_policy import (
    PodPolicy,
    PodProfile,
    PodUser,
    ProfileMount,
    ProjectPods,
    SecurityLevel,
    SharedMount,
    Sidecar,
)
from scheduler.domain.quantities import QuantityError, parse_bytes
from scheduler.knob_settings import nearest
from scheduler.topology_file import Bytes, Cpus, FileProblem, Name, Section

UID_MAX = 2**31 - 1

Uid = Annotated[int, Field(ge=0, le=UID_MAX)]
Path = Annotated[str, Field(pattern=r"^/[^:]*$")]
PartName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
Capability = Annotated[str, Field(pattern=r"^[A-Z][A-Z_]*$")]


class NfsSection(Section):
    """An export of an NFS server."""

    server: str = Field(min_length=1, description="Its name or address.")
    path: Path = Field(description="The exported path.")


class SharedMountSection(Section):
    """Storage that jobs may mount by name: `volumes: [{shared: NAME, ...}]`."""

    name: Name = Field(description="Name that job files use.")
    claim: Name | None = Field(
        default=None, description="A PersistentVolumeClaim in the project's namespace."
    )
    nfs: NfsSection | None = Field(default=None, description="An export of an NFS server.")
    host_path: Path | None = Field(
        default=None,
        description="A folder of every node. Needs a namespace that enforces `privileged`.",
    )
    sub_path: str = Field(default="", description="Folder of it that jobs see.")
    read_only: bool = Field(default=False, description="Whether jobs may only read.")


class HostMountSection(Section):
    """A path of the host that workers see."""

    name: PartName = Field(description="Name, unique in the profile.")
    host_path: Path = Field(description="Path on the node.")
    mount_path: Path = Field(description="Path in the container.")
    read_only: bool = Field(default=False, description="Whether workers may only read.")


class SidecarSection(Section):
    """A container beside each worker; it is ended when the worker has ended."""

    name: PartName = Field(description="Name, unique in the profile.")
    image: str = Field(min_length=1, description="Its image.")
    command: tuple[str, ...] = Field(
        default=(), strict=False, description="Its command; empty: the image's."
    )
    env: dict[str, str] = Field(default_factory=dict, description="Its variables.")
    cpus: Cpus = Field(default=0, description="Cores it asks for.")
    memory: Bytes = Field(default=0, description="Memory it asks for.")


class ClaimSection(Section):
    """Devices by claim (DRA)."""

    name: PartName = Field(description="Name, unique in the profile.")
    template: Name = Field(description="The ResourceClaimTemplate in the project's namespace.")


class PodProfileSection(Section):
    """Settings of pods beyond what a job file may say: RDMA and the like."""

    name: Name = Field(description="Name that job files use as `podProfile`.")
    annotations: dict[str, str] = Field(
        default_factory=dict, description="Annotations of the pods, e.g. of a second network."
    )
    resources: dict[str, int | str] = Field(
        default_factory=dict,
        description="Devices and huge pages of each worker: `{rdma/hca: 1, hugepages-2Mi: 1Gi}`.",
    )
    capabilities: tuple[Capability, ...] = Field(
        default=(), strict=False, description="Capabilities of the main container: `[IPC_LOCK]`."
    )
    host_mounts: tuple[HostMountSection, ...] = Field(
        default=(), strict=False, description="Paths of the node that workers see."
    )
    env: dict[str, str] = Field(
        default_factory=dict, description="Variables; those of the job file win."
    )
    sidecars: tuple[SidecarSection, ...] = Field(
        default=(), strict=False, description="Containers beside each worker."
    )
    claims: tuple[ClaimSection, ...] = Field(
        default=(), strict=False, description="Devices by claim."
    )


class ProjectPodsSection(Section):
    """What holds for the pods of one project (Kubernetes)."""

    security_level: Literal["restricted", "baseline"] = Field(
        default="restricted", description="Pod security standard that they keep."
    )
    uid: Uid | None = Field(
        default=1000,
        description="User of their processes; null: the image's, with `baseline` only.",
    )
    gid: Uid | None = Field(default=1000, description="Group of their processes.")
    fs_group: Uid | None = Field(
        default=1000, description="Group that volumes are made writable for."
    )
    home: Path = Field(default="/tmp", description="HOME of that user.")  # noqa: S108 - inside the container
    service_account: Name | None = Field(
        default=None, description="Their service account; its token is never mounted."
    )
    secrets: tuple[Name, ...] = Field(
        default=(), strict=False, description="Secrets that job files may name."
    )
    claims: tuple[Name, ...] | None = Field(
        default=None,
        strict=False,
        description="Claims that job files may name; default: all of the namespace.",
    )
    shared_mounts: tuple[Name, ...] | None = Field(
        default=None,
        strict=False,
        description="Shared mounts that job files may name; default: all.",
    )
    pod_profiles: tuple[Name, ...] = Field(
        default=(), strict=False, description="Pod profiles that job files may name."
    )
    pod_profile: Name | None = Field(default=None, description="Profile of jobs that name none.")
    image_pull_secrets: tuple[Name, ...] = Field(
        default=(), strict=False, description="Secrets that images are pulled with."
    )


def mount_problems(mounts: Sequence[SharedMountSection]) -> Iterator[FileProblem]:
    """What is wrong with shared mounts, besides the type of each value."""
    for index, mount in enumerate(mounts):
        given = [mount.claim, mount.nfs, mount.host_path]
        if sum(each is not None for each in given) != 1:
            detail = "must have exactly one of claim, nfs and hostPath"
            yield FileProblem(place=f"sharedMounts[{index}]", detail=detail)
        if mount.sub_path.startswith("/") or ".." in mount.sub_path.split("/"):
            detail = "must be a path inside it, without '..'"
            yield FileProblem(place=f"sharedMounts[{index}].subPath", detail=detail)


def profile_problems(profiles: Sequence[PodProfileSection]) -> Iterator[FileProblem]:
    """What is wrong with profiles, besides the type of each value."""
    for index, profile in enumerate(profiles):
        for name, amount in profile.resources.items():
            if _amount(amount) is None:
                place = f"podProfiles[{index}].resources.{name}"
                yield FileProblem(place=place, detail="must be a count, or an amount such as 1Gi")
        names = [mount.name for mount in profile.host_mounts]
        names += [sidecar.name for sidecar in profile.sidecars]
        names += [claim.name for claim in profile.claims]
        for name in sorted({name for name in names if names.count(name) > 1}):
            detail = f"the name {name} is used {names.count(name)} times"
            yield FileProblem(place=f"podProfiles[{index}]", detail=detail)


def project_problems(
    place: str,
    pods: ProjectPodsSection,
    *,
    profiles: Sequence[PodProfileSection],
    mounts: Sequence[SharedMountSection],
) -> Iterator[FileProblem]:
    """What is wrong with `pods` of one project."""
    if pods.security_level == "restricted" and not pods.uid:
        detail = "must be a number above 0 with securityLevel restricted; or choose baseline"
        yield FileProblem(place=f"{place}.uid", detail=detail)
    known_profiles = [profile.name for profile in profiles]
    known_mounts = [mount.name for mount in mounts]
    named = [(f"podProfiles[{i}]", name) for i, name in enumerate(pods.pod_profiles)]
    named += [("podProfile", pods.pod_profile)] if pods.pod_profile is not None else []
    for key, name in named:
        if name not in known_profiles:
            detail = f"there is no pod profile {name}{nearest(name, tuple(known_profiles))}"
            yield FileProblem(place=f"{place}.{key}", detail=detail)
    for i, name in enumerate(pods.shared_mounts or ()):
        if name not in known_mounts:
            detail = f"there is no shared mount {name}{nearest(name, tuple(known_mounts))}"
            yield FileProblem(place=f"{place}.sharedMounts[{i}]", detail=detail)


def pod_policy(
    *,
    projects: Mapping[str, ProjectPodsSection],
    profiles: Sequence[PodProfileSection],
    mounts: Sequence[SharedMountSection],
    pool_profiles: Mapping[str, str],
) -> PodPolicy:
    """What checked sections mean."""
    return PodPolicy(
        projects={ProjectName(name): _project(said) for name, said in projects.items()},
        profiles={profile.name: _profile(profile) for profile in profiles},
        pool_profiles={PoolName(pool): profile for pool, profile in pool_profiles.items()},
        shared={mount.name: _mount(mount) for mount in mounts},
    )


def _project(said: ProjectPodsSection) -> ProjectPods:
    own = [] if said.pod_profile is None else [said.pod_profile]
    return ProjectPods(
        level=SecurityLevel(said.security_level),
        user=PodUser(uid=said.uid, gid=said.gid, fs_group=said.fs_group, home=said.home),
        service_account=said.service_account or "",
        secrets=frozenset(said.secrets),
        claims=None if said.claims is None else frozenset(said.claims),
        shared=None if said.shared_mounts is None else frozenset(said.shared_mounts),
        profiles=frozenset([*said.pod_profiles, *own]),
        profile=said.pod_profile or "",
        image_pull_secrets=said.image_pull_secrets,
    )


def _profile(said: PodProfileSection) -> PodProfile:
    resources = {name: _amount(amount) or 0 for name, amount in said.resources.items()}
    return PodProfile(
        annotations=said.annotations,
        resources=tuple(sorted(resources.items())),
        capabilities=said.capabilities,
        mounts=tuple(
            ProfileMount(
                name=mount.name,
                host_path=mount.host_path,
                mount_path=mount.mount_path,
                is_read_only=mount.read_only,
            )
            for mount in said.host_mounts
        ),
        env=said.env,
        sidecars=tuple(
            Sidecar(
                name=sidecar.name,
                image=sidecar.image,
                command=sidecar.command,
                env=sidecar.env,
                cpu_milli=sidecar.cpus,
                memory_bytes=sidecar.memory,
            )
            for sidecar in said.sidecars
        ),
        claims=tuple((claim.name, claim.template) for claim in said.claims),
    )


def _mount(said: SharedMountSection) -> SharedMount:
    return SharedMount(
        claim=said.claim or "",
        nfs_server=said.nfs.server if said.nfs else "",
        nfs_path=said.nfs.path if said.nfs else "",
        host_path=said.host_path or "",
        sub_path=said.sub_path,
        is_read_only=said.read_only,
    )


def _amount(said: int | str) -> int | None:
    """A count, or bytes with their unit; None where it is neither."""
    try:
        return parse_bytes(said)
    except QuantityError:
        return None
