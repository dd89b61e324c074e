"""Rules of a job file that no single field shows: what must be given, named and known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from api.documents.document import child
from api.job_files.communication_mapping import to_profile
from api.job_files.pod_rules import VARIABLE, local_problems, pod_problems
from api.job_files.schemas import WORKERS_MAX, JobFile, JobRequest
from api.job_files.step_patterns import StepPatternError, step_pattern
from api.job_files.validation import nearest
from scheduler.control.profiling import known_models, model_named
from scheduler.domain.communication import Axis, ModelProfile, ParallelAxes
from scheduler.domain.errors import SpecProblem
from scheduler.domain.gang import axis_slices
from scheduler.domain.ids import LevelName, ProjectName, QueueName
from scheduler.domain.instants import HOUR, SECOND
from scheduler.domain.job import AxisWithin
from scheduler.domain.pod_policy import PodPolicy
from scheduler.domain.quantities import parse_bytes, parse_duration
from scheduler.domain.topology import CLUSTER_LEVEL, NODE_LEVEL
from scheduler.domain.worker_environment import is_reserved

MASK = "********"
"""What a secret-looking value is shown as; refused in a file, so that it is never stored."""

_COMMAND_BYTES_MAX = 128 * 1024
_ENV_BYTES_MAX = 128 * 1024

NOT_YET: Mapping[str, str] = {
    "dependsOn": "0.3",
    "array": "0.3",
    "elastic": "0.4",
    "spares": "0.4",
}
"""Fields whose feature has not landed, and the version that will have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a file is checked against."""

    project: ProjectName
    queues: tuple[QueueName, ...]
    """Those the project may use; the first is its default."""
    all_queues: tuple[QueueName, ...]
    priorities: Mapping[str, int]
    levels: tuple[str, ...] | None = None
    """Names of the topology's levels; None while no cluster has been observed."""
    pools: tuple[str, ...] | None = None
    models: Mapping[str, ModelProfile] = field(default_factory=known_models)
    """Model profiles that the project may name."""
    pods: PodPolicy | None = None
    """What admins say about pods; None where workers are processes of this machine."""
    dropped: frozenset[str] = field(default_factory=frozenset)
    """Pointers of parts that the type check has already refused and taken out."""


def rule_problems(file: JobFile, around: Surroundings) -> Iterator[SpecProblem]:
    """Every rule that `file` breaks."""
    yield from _metadata(file, around)
    yield from _not_yet(file.spec)
    yield from _gang(file.spec, around)
    yield from _environment(file.spec)
    yield from _references(file.spec, around)
    yield from _topology(file.spec, around)
    yield from _slices(file.spec, around)
    yield from _axes(file.spec, around)
    yield from _times(file.spec)
    yield from _communication(file.spec, around)
    yield from _policies(file.spec, around)
    if around.pods is None:
        yield from local_problems(file.spec)
    else:
        yield from pod_problems(file.spec, around.project, around.pods)


def _metadata(file: JobFile, around: Surroundings) -> Iterator[SpecProblem]:
    project = file.metadata.project
    if project is not None and project != around.project:
        yield SpecProblem(
            pointer="/metadata/project",
            reason="ProjectMismatch",
            detail=f'says "{project[:80]}", but the request is for project "{around.project}"',
        )


def _not_yet(spec: JobRequest) -> Iterator[SpecProblem]:
    given = spec.model_dump(by_alias=True, exclude_defaults=True)
    for name, version in NOT_YET.items():
        if name in given:
            yield _unsupported(f"/spec/{name}", name, version)
    warning = spec.checkpoint.warning if spec.checkpoint else None
    if warning is not None and parse_duration(warning) > 0:
        yield _unsupported("/spec/checkpoint/warning", "checkpoint.warning", "0.2")


def _unsupported(pointer: str, feature: str, version: str) -> SpecProblem:
    return SpecProblem(
        pointer=pointer,
        reason="NotSupportedYet",
        detail=f"{feature} is not supported yet; it comes with version {version}",
    )


def _gang(spec: JobRequest, around: Surroundings) -> Iterator[SpecProblem]:
    if not spec.roles:
        if "/spec/roles" in around.dropped:
            return
        if spec.gpus_per_worker is None:
            yield SpecProblem(
                pointer="/spec/gpusPerWorker",
                reason="MissingField",
                detail="is required: GPUs of each worker, 0 for CPU only",
            )
        if spec.command is None:
            yield SpecProblem(
                pointer="/spec/command",
                reason="MissingField",
                detail="is required: the program and its arguments, as a list",
            )
        return
    yield from _roles(spec)


def _roles(spec: JobRequest) -> Iterator[SpecProblem]:
    for name, value in (("workers", spec.workers), ("gpusPerWorker", spec.gpus_per_worker)):
        if value is not None:
            detail = "can not be given beside roles; each role has its own"
            yield SpecProblem(pointer=f"/spec/{name}", reason="InvalidValue", detail=detail)
    seen: set[str] = set()
    for i, role in enumerate(spec.roles):
        if role.name in seen:
            detail = f'"{role.name}" is the name of an earlier role'
            yield SpecProblem(
                pointer=f"/spec/roles/{i}/name", reason="DuplicateName", detail=detail
            )
        seen.add(role.name)
        if role.command is None and spec.command is None:
            yield SpecProblem(
                pointer=f"/spec/roles/{i}/command",
                reason="MissingField",
                detail="is required: here or as spec.command",
            )
        if role.preemptible is False and spec.preemptible:
            yield SpecProblem(
                pointer=f"/spec/roles/{i}/preemptible",
                reason="InvalidValue",
                detail="is false while spec.preemptible is true; a gang is stopped as a whole",
            )
    if sum(role.workers for role in spec.roles) > WORKERS_MAX:
        yield SpecProblem(
            pointer="/spec/roles",
            reason="OutOfRange",
            detail=f"have more than {WORKERS_MAX} workers together",
        )


def _environment(spec: JobRequest) -> Iterator[SpecProblem]:
    yield from _variables("/spec/env", spec.env)
    yield from _command_size("/spec/command", spec.command)
    for i, role in enumerate(spec.roles):
        yield from _variables(f"/spec/roles/{i}/env", role.env)
        yield from _command_size(f"/spec/roles/{i}/command", role.command)


def _variables(pointer: str, env: Mapping[str, str]) -> Iterator[SpecProblem]:
    for name, value in env.items():
        at = child(pointer, name)
        if not VARIABLE.fullmatch(name):
            detail = "must be letters, digits and '_', not starting with a digit"
            yield SpecProblem(pointer=at, reason="InvalidName", detail=detail)
        elif is_reserved(name):
            detail = "is set by the service and can not be given"
            yield SpecProblem(pointer=at, reason="ReservedName", detail=detail)
        elif value == MASK:
            detail = "is a masked value as the server shows it; write the real one"
            yield SpecProblem(pointer=at, reason="MaskedValue", detail=detail)
    size = sum(len(name) + len(value.encode()) for name, value in env.items())
    if size > _ENV_BYTES_MAX:
        detail = f"has {size} bytes; at most {_ENV_BYTES_MAX} fit"
        yield SpecProblem(pointer=pointer, reason="OutOfRange", detail=detail)


def _command_size(pointer: str, command: tuple[str, ...] | None) -> Iterator[SpecProblem]:
    size = sum(len(word.encode()) + 1 for word in command or ())
    if size > _COMMAND_BYTES_MAX:
        detail = f"has {size} bytes; at most {_COMMAND_BYTES_MAX} fit"
        yield SpecProblem(pointer=pointer, reason="OutOfRange", detail=detail)


def _references(spec: JobRequest, around: Surroundings) -> Iterator[SpecProblem]:
    if spec.queue is not None and spec.queue not in around.queues:
        name = spec.queue[:80]
        if spec.queue in around.all_queues:
            detail = f'queue "{name}" may not be used by project "{around.project}"'
            yield SpecProblem(pointer="/spec/queue", reason="QueueNotAllowed", detail=detail)
        else:
            detail = f'there is no queue "{name}"{nearest(name, [*around.queues])}'
            yield SpecProblem(pointer="/spec/queue", reason="UnknownQueue", detail=detail)
    if spec.priority not in around.priorities:
        name = spec.priority[:80]
        detail = f'there is no priority class "{name}"{nearest(name, [*around.priorities])}'
        yield SpecProblem(pointer="/spec/priority", reason="UnknownPriority", detail=detail)
    pools = [("/spec/pool", spec.pool)]
    pools += [(f"/spec/roles/{i}/pool", role.pool) for i, role in enumerate(spec.roles)]
    for pointer, pool in pools:
        if pool is not None and around.pools and pool not in around.pools:
            detail = f'no node is in pool "{pool[:80]}"{nearest(pool[:80], [*around.pools])}'
            yield SpecProblem(pointer=pointer, reason="UnknownPool", detail=detail)


def _topology(spec: JobRequest, around: Surroundings) -> Iterator[SpecProblem]:
    named: list[tuple[str, str]] = []
    if spec.topology is not None:
        topology = spec.topology
        for part, level in (("required", topology.required), ("preferred", topology.preferred)):
            if level is not None:
                named.append((f"/spec/topology/{part}", level))
        named += [
            (f"/spec/topology/slices/{i}/within", piece.within)
            for i, piece in enumerate(topology.slices)
        ]
        named += [
            (f"/spec/topology/axes/{i}/within", rule.within) for i, rule in enumerate(topology.axes)
        ]
        if topology.spread is not None:
            named.append(("/spec/topology/spread/by", topology.spread.by))
    named += [
        (f"/spec/roles/{i}/spread/by", role.spread.by)
        for i, role in enumerate(spec.roles)
        if role.spread is not None
    ]
    if around.levels is None:
        return
    known = [NODE_LEVEL, *around.levels, CLUSTER_LEVEL]
    for pointer, level in named:
        if level not in known:
            detail = f'there is no level "{level[:80]}"{nearest(level[:80], known)}'
            yield SpecProblem(pointer=pointer, reason="UnknownLevel", detail=detail)


def _slices(spec: JobRequest, around: Surroundings) -> Iterator[SpecProblem]:
    """Groups lie inside each other, and cut up the workers of a role with GPUs."""
    slices = spec.topology.slices if spec.topology else ()
    at = "/spec/topology/slices"
    for i, (outer, inner) in enumerate(pairwise(slices), start=1):
        if outer.workers % inner.workers:
            detail = f"must divide {outer.workers}, the workers of the group around it"
            yield SpecProblem(pointer=f"{at}/{i}/workers", reason="InvalidValue", detail=detail)
        if _is_wider(inner.within, outer.within, around):
            detail = f'must not be wider than "{outer.within[:80]}", the level around it'
            yield SpecProblem(pointer=f"{at}/{i}/within", reason="InvalidValue", detail=detail)
    if slices and "/spec/roles" not in around.dropped:
        size = slices[0].workers
        gangs = [role.workers for role in spec.roles if role.gpus_per_worker] or [spec.workers or 1]
        if all(workers % size for workers in gangs):
            detail = f"must divide the workers of a role with GPUs: {', '.join(map(str, gangs))}"
            yield SpecProblem(pointer=f"{at}/0/workers", reason="InvalidValue", detail=detail)


def _axes(spec: JobRequest, around: Surroundings) -> Iterator[SpecProblem]:
    """Axes are said once, instead of slices, and their groups cut up the workers of a role."""
    topology = spec.topology
    if topology is None or not topology.axes:
        return
    at = "/spec/topology/axes"
    names = [Axis(rule.axis) for rule in topology.axes]
    profile = to_profile(spec.communication)
    parallel = profile.parallel if profile is not None else ParallelAxes()
    for i, axis in enumerate(names):
        if axis in names[:i]:
            detail = f'names the axis "{axis}" again'
            yield SpecProblem(pointer=f"{at}/{i}/axis", reason="InvalidValue", detail=detail)
        elif axis is not Axis.DATA and parallel.size(axis) == 1:
            detail = f"needs a size: communication.parallel.{axis} is 1"
            yield SpecProblem(pointer=f"{at}/{i}/axis", reason="InvalidValue", detail=detail)
    if topology.slices:
        detail = "says what slices say too; give one of them"
        yield SpecProblem(pointer=at, reason="InvalidValue", detail=detail)
        return
    yield from _axis_groups(spec, parallel, around)


def _axis_groups(
    spec: JobRequest, parallel: ParallelAxes, around: Surroundings
) -> Iterator[SpecProblem]:
    assert spec.topology is not None
    at = "/spec/topology/axes"
    rules = tuple(
        AxisWithin(axis=Axis(rule.axis), within=LevelName(rule.within))
        for rule in spec.topology.axes
    )
    gangs = [(role.workers, role.gpus_per_worker) for role in spec.roles if role.gpus_per_worker]
    gangs = gangs or [(spec.workers or 1, spec.gpus_per_worker or 0)]
    groups = [
        (workers, axis_slices(rules, parallel, workers=workers, gpus=gpus))
        for workers, gpus in gangs
        if gpus
    ]
    if "/spec/roles" not in around.dropped and all(
        any(workers % group.workers for group in found) for workers, found in groups
    ):
        sizes = ", ".join(str(group.workers) for group in groups[0][1]) if groups else "none"
        detail = f"makes groups of {sizes} workers, which do not divide those of a role with GPUs"
        yield SpecProblem(pointer=at, reason="InvalidValue", detail=detail)
    for _, found in groups[:1]:
        for outer, inner in pairwise(found):
            if _is_wider(inner.within, outer.within, around):
                detail = f'"{inner.within[:80]}" is wider than the level of an axis around it'
                yield SpecProblem(pointer=at, reason="InvalidValue", detail=detail)


def _is_wider(level: str, other: str, around: Surroundings) -> bool:
    """Whether both levels are known, and the first is wider than the other."""
    levels = [NODE_LEVEL, *(around.levels or ()), CLUSTER_LEVEL]
    are_known = level in levels and other in levels
    return are_known and levels.index(level) > levels.index(other)


def _times(spec: JobRequest) -> Iterator[SpecProblem]:
    if spec.checkpoint is not None and spec.checkpoint.grace is not None:
        grace = parse_duration(spec.checkpoint.grace)
        if not SECOND <= grace <= HOUR:
            detail = "must be between 1s and 1h"
            yield SpecProblem(pointer="/spec/checkpoint/grace", reason="OutOfRange", detail=detail)
    for pointer, text in (
        ("/spec/hangTimeout", spec.hang_timeout),
        ("/spec/duration/maxRuntime", spec.duration.max_runtime if spec.duration else None),
    ):
        if text is not None and parse_duration(text) < SECOND:
            yield SpecProblem(pointer=pointer, reason="OutOfRange", detail="must be at least 1s")


def _communication(spec: JobRequest, around: Surroundings) -> Iterator[SpecProblem]:
    section = spec.communication
    if section is None:
        return
    at = "/spec/communication"
    order = section.parallel.order if section.parallel else ()
    if len(set(order)) != len(order):
        detail = "names an axis twice"
        yield SpecProblem(pointer=f"{at}/parallel/order", reason="InvalidValue", detail=detail)
    steps = [phase.until_step for phase in section.phases]
    if steps != sorted(set(steps)):
        detail = "must be in order of untilStep, each later than the one before"
        yield SpecProblem(pointer=f"{at}/phases", reason="InvalidValue", detail=detail)
    if section.model and model_named(section.model, around.models) is None:
        name = section.model[:80]
        detail = f'there is no profile "{name}"{nearest(name, list(around.models))}'
        yield SpecProblem(pointer=f"{at}/model", reason="UnknownModel", detail=detail)
    yield from _parallel(spec, around)
    if section.step_pattern:
        yield from _step_pattern(f"{at}/stepPattern", section.step_pattern)
    for i, traffic in enumerate(section.traffic):
        if parse_bytes(traffic.bytes_per_step) == 0:
            detail = "must be more than 0"
            yield SpecProblem(
                pointer=f"{at}/traffic/{i}/bytesPerStep", reason="OutOfRange", detail=detail
            )


def _parallel(spec: JobRequest, around: Surroundings) -> Iterator[SpecProblem]:
    """Axes cut a gang of one kind of worker without rest; in others not all need take part."""
    axes = spec.communication.parallel if spec.communication else None
    gangs = [(role.workers, role.gpus_per_worker) for role in spec.roles]
    gangs = [gang for gang in gangs if gang[1]] or gangs
    gangs = gangs or [(spec.workers or 1, spec.gpus_per_worker or 0)]
    if axes is None or len(gangs) > 1 or "/spec/roles" in around.dropped:
        return
    if spec.topology is not None and spec.topology.axes:
        return  # Which is told where they are said.
    workers, gpus = gangs[0]
    ranks = workers * gpus or workers
    sizes = (axes.tensor, axes.sequence, axes.context, axes.expert, axes.shard, axes.pipeline)
    product = prod(sizes)
    if ranks % product:
        what = "GPUs" if gpus else "workers"
        detail = f"multiplies to {product}, which does not divide {ranks} {what}"
        yield SpecProblem(
            pointer="/spec/communication/parallel", reason="InvalidValue", detail=detail
        )


def _step_pattern(pointer: str, text: str) -> Iterator[SpecProblem]:
    try:
        step_pattern(text)
    except StepPatternError as error:
        yield SpecProblem(pointer=pointer, reason="InvalidValue", detail=str(error))


def _policies(spec: JobRequest, around: Surroundings) -> Iterator[SpecProblem]:
    if isinstance(spec.success_policy, dict) and "/spec/roles" not in around.dropped:
        role = spec.success_policy["role"]
        names = [role.name for role in spec.roles] or ["worker"]
        if role not in names:
            detail = f'there is no role "{role[:80]}"{nearest(role[:80], names)}'
            yield SpecProblem(
                pointer="/spec/successPolicy/role", reason="UnknownRole", detail=detail
            )
