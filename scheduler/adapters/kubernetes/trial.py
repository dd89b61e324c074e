"""A trial of what a job would become, before it is accepted: whether its objects have room."""

from scheduler.adapters.kubernetes import manifests, names
from scheduler.adapters.kubernetes.manifests import PodRenderer, RenderSettings
from scheduler.adapters.kubernetes.objects import JsonObject, Uid, parts, text
from scheduler.domain.codec import dump
from scheduler.domain.errors import SpecProblem
from scheduler.domain.explain import counted
from scheduler.domain.ids import AttemptNumber, Epoch, JobId, JobName, NodeName, ProjectName, Rank
from scheduler.domain.job import JobSpec
from scheduler.domain.placement import Assignment, Placement
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.topology import NODE_LEVEL
from scheduler.ports.cluster import GangOrder

POD_BYTES_MAX = 1_000_000
"""Of a pod as JSON; the store of the API server takes 1.5 MiB, and others add to it."""
VARIABLE_BYTES_MAX = 131_072
"""Linux starts no program with a longer word or variable."""

_NODE = NodeName("n" * 63)
_ATTEMPT = AttemptKey(JobId("0" * 36), AttemptNumber(9_999))
_HOST_BYTES = 2 * len(f"{names.pod_name(_ATTEMPT, Rank(9_999))}.{names.gang_name(_ATTEMPT)}") + 9
"""What each worker adds at least: its address among the hosts and in the hostfile."""


def too_large(settings: RenderSettings, spec: JobSpec) -> tuple[SpecProblem, ...]:
    """What of a job can not be described, with the field that is to blame."""
    at = "/spec/workers" if len(spec.roles) == 1 else "/spec/roles"
    # A large gang is not described in full only to see that it is too large.
    if spec.workers * _HOST_BYTES > manifests.ANCHOR_BYTES_MAX:
        return (_too_many(spec, at, spec.workers * _HOST_BYTES),)
    order = _order(spec)
    try:
        manifests.anchor(order, settings)
    except manifests.TooLargeError as error:
        return (_too_many(spec, at, error.size),)
    renderer = PodRenderer(order, settings)
    found: list[SpecProblem] = []
    for rank in _first_ranks(spec):
        found += _of_pod(renderer.pod(rank, Uid("0" * 36)), at)
    return tuple(dict.fromkeys(found))


def _too_many(spec: JobSpec, at: str, size: int) -> SpecProblem:
    detail = (
        f"{counted(spec.workers, 'worker')} are too many: the gang's description takes {size} "
        f"bytes of at most {manifests.ANCHOR_BYTES_MAX}; use fewer, larger ones"
    )
    return SpecProblem(pointer=at, reason="TooLarge", detail=detail)


def _of_pod(pod: JsonObject, workers_at: str) -> list[SpecProblem]:
    (container,) = parts(pod, "spec", "containers")
    for variable in parts(container, "env"):
        name, value = text(variable, "name"), text(variable, "value")
        size = len(name) + len(value.encode()) + 2
        if size > VARIABLE_BYTES_MAX:
            detail = (
                f"makes the variable {name} {size} bytes long; Linux starts no program with one "
                f"of more than {VARIABLE_BYTES_MAX}"
            )
            return [SpecProblem(pointer=workers_at, reason="TooLarge", detail=detail)]
    size = len(dump(pod).encode())
    if size <= POD_BYTES_MAX:
        return []
    detail = (
        f"makes a pod of {size} bytes with the command; at most {POD_BYTES_MAX} fit: move long "
        "texts into the image or a ConfigMap"
    )
    return [SpecProblem(pointer="/spec/env", reason="TooLarge", detail=detail)]


def _first_ranks(spec: JobSpec) -> list[Rank]:
    """The first rank of each role."""
    found, rank = [], 0
    for role in spec.roles:
        found.append(Rank(rank))
        rank += role.workers
    return found


def _order(spec: JobSpec) -> GangOrder:
    """An order with the longest names there are, all on one node."""
    reservations: list[Reservation] = []
    for role in spec.roles:
        reservations += [
            Reservation(
                attempt=_ATTEMPT,
                role=role.name,
                rank=Rank(len(reservations) + number),
                node=_NODE,
                gpus=role.gpus_per_worker,
                resources=role.resources,
            )
            for number in range(role.workers)
        ]
    return GangOrder(
        attempt=_ATTEMPT,
        epoch=Epoch(2**31),
        project=ProjectName("p" * 63),
        name=JobName("j" * 40),
        spec=spec,
        placement=Placement(
            assignments=tuple(
                Assignment(role=role.name, node=_NODE, workers=role.workers) for role in spec.roles
            ),
            tier=0,
            tier_name=NODE_LEVEL,
        ),
        reservations=tuple(reservations),
    )
