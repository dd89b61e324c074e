"""Rules of a job file that becomes pods: what Kubernetes needs, and what the project may have."""

import posixpath
import re
from collections.abc import Iterator

from api.job_files.schemas import JobRequest
from api.job_files.storage import SecretRequest, VolumeRequest, kinds_given
from api.job_files.validation import nearest
from scheduler.domain.errors import SpecProblem
from scheduler.domain.ids import PoolName, ProjectName
from scheduler.domain.pod_policy import NO_PROFILE, PodPolicy, PodProfile, ProjectPods
from scheduler.domain.quantities import parse_bytes
from scheduler.domain.storage import VolumeKind, lies_in
from scheduler.domain.worker_environment import is_reserved

IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,511}")
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
OWN_OBJECT = re.compile(r"j[0-9a-z]{10}-a[0-9]+")
"""Names of what we make: a gang's ConfigMap is its own."""

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - inside the container
OWN_FOLDERS = (
    "/dev",
    "/proc",
    "/sys",
    "/etc/dally",
    "/var/run/secrets",
    "/run/secrets/kubernetes.io",
)
"""What the service or the container runtime puts into a container."""


def local_problems(spec: JobRequest) -> Iterator[SpecProblem]:
    """What is for pods alone, where workers are processes of this machine."""
    for name, is_given in (
        ("volumes", bool(spec.volumes)),
        ("secrets", bool(spec.secrets)),
        ("podProfile", spec.pod_profile is not None),
    ):
        if is_given:
            detail = (
                "is for Kubernetes; workers here are processes that see this machine's own files "
                "and get their variables from env: leave it out"
            )
            yield SpecProblem(pointer=f"/spec/{name}", reason="NeedsKubernetes", detail=detail)


def pod_problems(
    spec: JobRequest, project: ProjectName, policy: PodPolicy
) -> Iterator[SpecProblem]:
    """Every rule of pods that a file breaks."""
    pods = policy.of(project)
    yield from _image(spec)
    yield from _profile(spec, project, policy)
    yield from _volumes(spec, project, policy)
    yield from _secrets(spec, project, pods)
    yield from _places(spec, project, policy)
    yield from _checkpoint(spec, policy)


def _image(spec: JobRequest) -> Iterator[SpecProblem]:
    if not spec.image:
        detail = "is required: workers are pods here, and a pod runs a container image"
        yield SpecProblem(pointer="/spec/image", reason="MissingField", detail=detail)
    elif not IMAGE.fullmatch(spec.image):
        detail = "is no image reference: write registry/name:tag or name@sha256:..."
        yield SpecProblem(pointer="/spec/image", reason="InvalidValue", detail=detail)


def _profile(spec: JobRequest, project: ProjectName, policy: PodPolicy) -> Iterator[SpecProblem]:
    name = spec.pod_profile
    if name is None:
        return
    allowed = sorted(policy.of(project).profiles)
    if name not in policy.profiles:
        detail = f'there is no pod profile "{name[:80]}"{nearest(name[:80], allowed)}'
        yield SpecProblem(pointer="/spec/podProfile", reason="UnknownPodProfile", detail=detail)
    elif name not in allowed:
        detail = _ask(project, f'the pod profile "{name[:80]}"', "podProfiles")
        yield SpecProblem(pointer="/spec/podProfile", reason="NotAllowed", detail=detail)


def _ask(project: ProjectName, what: str, key: str) -> str:
    return (
        f'project "{project}" may not use {what}; an admin allows it in '
        f"projects[].pods.{key} of dallyd.yaml"
    )


def _volumes(spec: JobRequest, project: ProjectName, policy: PodPolicy) -> Iterator[SpecProblem]:
    names: set[str] = set()
    for i, volume in enumerate(spec.volumes):
        at = f"/spec/volumes/{i}"
        if volume.name in names:
            detail = f'"{volume.name}" is the name of an earlier volume'
            yield SpecProblem(pointer=f"{at}/name", reason="DuplicateName", detail=detail)
        names.add(volume.name)
        kinds = kinds_given(volume)
        if len(kinds) != 1:
            said = " and ".join(kinds) or "none of them"
            detail = f"must have exactly one of claim, shared, scratch and configMap, not {said}"
            yield SpecProblem(pointer=at, reason="InvalidValue", detail=detail)
            continue
        yield from _source(at, volume, project, policy)
        yield from _sub_path(f"{at}/subPath", volume.sub_path)


def _source(
    at: str, volume: VolumeRequest, project: ProjectName, policy: PodPolicy
) -> Iterator[SpecProblem]:
    pods = policy.of(project)
    if volume.shared is not None:
        yield from _shared(f"{at}/shared", volume.shared, project, policy)
    elif volume.scratch is not None:
        if parse_bytes(volume.scratch) == 0:
            detail = "must be more than 0: how much the folder may hold"
            yield SpecProblem(pointer=f"{at}/scratch", reason="OutOfRange", detail=detail)
    elif volume.claim is not None:
        yield from _object_name(f"{at}/claim", volume.claim, "claim")
        if pods.claims is not None and volume.claim not in pods.claims:
            detail = _ask(project, f'the claim "{volume.claim[:80]}"', "claims")
            yield SpecProblem(pointer=f"{at}/claim", reason="NotAllowed", detail=detail)
    elif volume.config_map is not None:
        yield from _object_name(f"{at}/configMap", volume.config_map, "ConfigMap")
        if OWN_OBJECT.fullmatch(volume.config_map):
            detail = "is a name of the service's own objects; give your ConfigMap another one"
            yield SpecProblem(pointer=f"{at}/configMap", reason="ReservedName", detail=detail)


def _shared(
    pointer: str, name: str, project: ProjectName, policy: PodPolicy
) -> Iterator[SpecProblem]:
    allowed = policy.of(project).shared
    known = sorted(policy.shared if allowed is None else allowed & policy.shared.keys())
    if name not in policy.shared:
        detail = f'there is no shared mount "{name[:80]}"{nearest(name[:80], known)}'
        yield SpecProblem(pointer=pointer, reason="UnknownSharedMount", detail=detail)
    elif name not in known:
        detail = _ask(project, f'the shared mount "{name[:80]}"', "sharedMounts")
        yield SpecProblem(pointer=pointer, reason="NotAllowed", detail=detail)


def _object_name(pointer: str, name: str, what: str) -> Iterator[SpecProblem]:
    if not OBJECT_NAME.fullmatch(name):
        detail = f"is no name of a {what}: lower-case letters, digits, '-' and '.'"
        yield SpecProblem(pointer=pointer, reason="InvalidName", detail=detail)


def _sub_path(pointer: str, path: str) -> Iterator[SpecProblem]:
    if path.startswith("/") or ".." in path.split("/"):
        detail = "must be a path inside the volume, without '..' and not starting with '/'"
        yield SpecProblem(pointer=pointer, reason="InvalidValue", detail=detail)


def _secrets(spec: JobRequest, project: ProjectName, pods: ProjectPods) -> Iterator[SpecProblem]:
    variables = set(spec.env) | {name for role in spec.roles for name in role.env}
    for i, secret in enumerate(spec.secrets):
        at = f"/spec/secrets/{i}"
        name, _, key = secret.secret_ref.partition("/")
        if (secret.env is None) == (secret.file is None):
            detail = "must have exactly one of env and file: where the workers find the value"
            yield SpecProblem(pointer=at, reason="InvalidValue", detail=detail)
        if not OBJECT_NAME.fullmatch(name) or not SECRET_KEY.fullmatch(key):
            detail = "must be SECRET/KEY, named as Kubernetes names them"
            yield SpecProblem(pointer=f"{at}/secretRef", reason="InvalidName", detail=detail)
        elif name not in pods.secrets:
            detail = _ask(project, f'the secret "{name[:80]}"', "secrets")
            yield SpecProblem(pointer=f"{at}/secretRef", reason="NotAllowed", detail=detail)
        yield from _secret_variable(f"{at}/env", secret, variables)


def _secret_variable(pointer: str, secret: SecretRequest, taken: set[str]) -> Iterator[SpecProblem]:
    if secret.env is None:
        return
    if not VARIABLE.fullmatch(secret.env):
        detail = "must be letters, digits and '_', not starting with a digit"
        yield SpecProblem(pointer=pointer, reason="InvalidName", detail=detail)
    elif is_reserved(secret.env):
        detail = "is set by the service and can not be given"
        yield SpecProblem(pointer=pointer, reason="ReservedName", detail=detail)
    elif secret.env in taken:
        detail = f'"{secret.env}" is given twice; leave one out'
        yield SpecProblem(pointer=pointer, reason="DuplicateName", detail=detail)
    taken.add(secret.env)


def _places(spec: JobRequest, project: ProjectName, policy: PodPolicy) -> Iterator[SpecProblem]:
    """Every path of a container is taken once, and none of ours by a user."""
    taken = {mount.mount_path for mount in _profile_of(spec, project, policy).mounts}
    places = [(f"/spec/volumes/{i}/mountPath", v.mount_path) for i, v in enumerate(spec.volumes)]
    places += [(f"/spec/secrets/{i}/file", s.file) for i, s in enumerate(spec.secrets) if s.file]
    for pointer, path in places:
        plain = posixpath.normpath(path)
        if path.startswith("//") or ":" in path or plain == "/":
            detail = "must be one folder below '/', without ':' or '//'"
            yield SpecProblem(pointer=pointer, reason="InvalidValue", detail=detail)
        elif plain == SHARED_MEMORY:
            detail = "is the shared memory; its size is resources.sharedMemory"
            yield SpecProblem(pointer=pointer, reason="ReservedName", detail=detail)
        elif any(lies_in(plain, folder) for folder in OWN_FOLDERS):
            detail = f"lies in what the service or the runtime sets up: {', '.join(OWN_FOLDERS)}"
            yield SpecProblem(pointer=pointer, reason="ReservedName", detail=detail)
        elif plain in taken:
            detail = f'"{plain[:80]}" is taken already'
            yield SpecProblem(pointer=pointer, reason="DuplicateName", detail=detail)
        taken.add(plain)


def _profile_of(spec: JobRequest, project: ProjectName, policy: PodPolicy) -> PodProfile:
    by_pool = "" if spec.pool is None else policy.pool_profiles.get(PoolName(spec.pool), "")
    name = spec.pod_profile or by_pool or policy.of(project).profile
    return policy.profiles.get(name, NO_PROFILE)


def _checkpoint(spec: JobRequest, policy: PodPolicy) -> Iterator[SpecProblem]:
    path = spec.checkpoint.path if spec.checkpoint else None
    if path is None:
        return
    plain = posixpath.normpath(path)
    around = [
        volume for volume in spec.volumes if lies_in(plain, posixpath.normpath(volume.mount_path))
    ]
    # The deepest mount is the one that a path lies on.
    deepest = max(
        around, key=lambda volume: len(posixpath.normpath(volume.mount_path)), default=None
    )
    if deepest is None or not _keeps(deepest, policy):
        where = "on no volume" if deepest is None else f'on the volume "{deepest.name}"'
        detail = (
            f"lies {where}, and would be gone with the pod; mount a claim or a shared mount that "
            "can be written at it, or above it"
        )
        yield SpecProblem(
            pointer="/spec/checkpoint/path", reason="CheckpointNotKept", detail=detail
        )


def _keeps(volume: VolumeRequest, policy: PodPolicy) -> bool:
    kinds = kinds_given(volume)
    if kinds == [VolumeKind.SHARED]:
        mount = policy.shared.get(volume.shared or "")
        return not volume.read_only and (mount is None or not mount.is_read_only)
    return kinds == [VolumeKind.CLAIM] and not volume.read_only
