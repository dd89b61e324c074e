"""What a gang asks of the cluster: the part of a job that decides where it can go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import lcm
from typing import NamedTuple

from scheduler.domain.communication import Axis, ParallelAxes
from scheduler.domain.copying import maker_of, quickly_made
from scheduler.domain.ids import GpuModel, LevelName, NodeName, PoolName, RoleName
from scheduler.domain.job import AxisWithin, JobSpec, Role, Slice
from scheduler.domain.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilter:
    """Nodes a role may use, for a reason that only its owner knows (a selector, a room)."""

    reason: str
    """CamelCase; the nodes that are left out are counted under it."""
    allowed: frozenset[NodeName]


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRequest:
    """What each worker of one role needs, and how many there are."""

    name: RoleName
    workers: int
    gpus: int
    """Per worker."""
    resources: Resources = NOTHING
    """Per worker, besides GPUs."""
    pool: PoolName | None = None
    """None for any."""
    filters: tuple[NodeFilter, ...] = ()
    claims: tuple[str, ...] = ()
    """What its workers mount, sorted: a node must reach the volumes of them all."""
    slices: tuple[Slice, ...] = ()
    """Groups of consecutive workers that share a domain; widest first, each dividing the last."""
    spread_by: LevelName | None = None
    spread_workers_max: int = 0
    """At most so many workers in one domain of `spread_by`; 0 for no limit."""

    def __post_init__(self) -> None:
        assert self.workers >= 1, self.name
        assert self.gpus >= 0, self.name
        size = self.workers
        for group in self.slices:
            assert group.workers >= 1, self.name
            assert size % group.workers == 0, self.name
            size = group.workers


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRequest:
    """One gang as placing sees it. Equal requests get equal answers from an equal cluster."""

    roles: tuple[RoleRequest, ...]
    models: tuple[GpuModel, ...] = ()
    """Acceptable GPU models, first choice first; empty for any. They bind roles with GPUs only."""
    mixes_models: bool = False
    required: LevelName | None = None
    """The whole gang must lie in one domain of this level or a closer one."""
    excluded: frozenset[NodeName] = frozenset()
    """Nodes this gang must not use."""
    preferences: Mapping[NodeName, int] = field(default_factory=dict)
    """Weight of nodes that the gang would rather use; it goes before the tightest fit."""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        assert self.roles
        assert len({role.name for role in self.roles}) == len(self.roles)
        # Requests are looked up all the time, so the number is ready; the same in every process.
        object.__setattr__(self, "_hash", sum(_number(role) for role in self.roles))

    def __hash__(self) -> int:
        return self._hash

    @property
    def workers(self) -> int:
        """Workers of the whole gang."""
        return sum(role.workers for role in self.roles)

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return sum(role.workers * role.gpus for role in self.roles)

    def role(self, name: RoleName) -> RoleRequest:
        """The role of that name."""
        return next(role for role in self.roles if role.name == name)


def _number(role: RoleRequest) -> int:
    resources = role.resources
    return (
        role.workers * 1_000_003
        + role.gpus * 8_191
        + resources.cpu_milli * 131
        + resources.memory_bytes // 1024
    )


class NumberedRequest(NamedTuple):
    """A request with a number that only equal requests share: quicker to look up by."""

    number: int
    request: GangRequest


_role_request = maker_of(RoleRequest)


class _Latest:
    """What was asked for last: a spec is asked about several times in a row."""

    known: tuple[JobSpec, GangRequest] | None = None


def gang_request(spec: JobSpec, *, excluded: frozenset[NodeName] = frozenset()) -> GangRequest:
    """What `spec` asks of the cluster; asked again of the same, it is at hand.

    Slices bind every role with GPUs whose workers they divide: a launcher of one stays outside.
    """
    if excluded:
        return _request_of(spec, excluded)
    known = _Latest.known
    if known is not None and known[0] is spec:
        return known[1]
    request = _request_of(spec, excluded)
    _Latest.known = (spec, request)
    return request


def _request_of(spec: JobSpec, excluded: frozenset[NodeName]) -> GangRequest:
    claims: tuple[str, ...] = ()
    if spec.volumes:
        claims = tuple(sorted({volume.claim for volume in spec.volumes if volume.claim}))
    return GangRequest(
        roles=tuple(
            _role_request(
                name=role.name,
                workers=role.workers,
                gpus=role.gpus_per_worker,
                resources=role.resources,
                pool=role.pool or spec.pool,
                claims=claims,
                slices=slices_of(spec, role),
                spread_by=role.spread_by,
                spread_workers_max=role.spread_workers_max,
            )
            for role in spec.roles
        ),
        models=spec.gpu_models,
        mixes_models=spec.mixes_gpu_models,
        required=spec.topology.required,
        excluded=excluded,
    )


def slices_of(spec: JobSpec, role: Role) -> tuple[Slice, ...]:
    """The slices of one role: those the job names, or those its parallel axes come to."""
    if not role.gpus_per_worker:
        return ()
    named = spec.topology.slices
    if spec.topology.axes:
        parallel = spec.communication.parallel if spec.communication else ParallelAxes()
        named = axis_slices(
            spec.topology.axes, parallel, workers=role.workers, gpus=role.gpus_per_worker
        )
    if any(role.workers % group.workers for group in named):
        return ()
    # A worker alone is in one domain wherever it is, known or not.
    return tuple(group for group in named if group.workers > 1)


def axis_slices(
    rules: tuple[AxisWithin, ...], parallel: ParallelAxes, *, workers: int, gpus: int
) -> tuple[Slice, ...]:
    """Groups of workers with so many GPUs that hold whole groups of the named axes, widest first.

    A group of an axis has the ranks of that axis and of all axes inside it; what fits in one worker
    needs no rule.
    """
    within_of = {rule.axis: rule.within for rule in rules}
    slices: list[Slice] = []
    ranks = 1
    for axis in parallel.ordered:
        is_data = axis is Axis.DATA
        ranks *= max(1, workers * gpus // parallel.product) if is_data else parallel.size(axis)
        if axis in within_of and ranks > gpus:
            slices.append(Slice(workers=lcm(ranks, gpus) // gpus, within=within_of[axis]))
    return tuple(reversed(slices))
