"""What a gang asks of the cluster: the part of a job that decides where it can go."""

from dataclasses import dataclass
from typing import NamedTuple

from scheduler.domain.ids import GpuModel, LevelName, NodeName, PoolName, RoleName
from scheduler.domain.job import JobSpec, Slice
from scheduler.domain.resources import NOTHING, Resources


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
    spread_by: LevelName | None = None
    spread_workers_max: int = 0
    """At most so many workers in one domain of `spread_by`; 0 for no limit."""

    def __post_init__(self) -> None:
        assert self.workers >= 1, self.name
        assert self.gpus >= 0, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRequest:
    """One gang as placing sees it. Equal requests get equal answers from an equal cluster."""

    roles: tuple[RoleRequest, ...]
    models: tuple[GpuModel, ...] = ()
    """Acceptable GPU models; empty for any. They bind roles with GPUs only."""
    mixes_models: bool = False
    required: LevelName | None = None
    """The whole gang must lie in one domain of this level or a closer one."""
    preferred: LevelName | None = None
    slices: tuple[Slice, ...] = ()
    excluded: frozenset[NodeName] = frozenset()
    """Nodes this gang must not use."""

    def __post_init__(self) -> None:
        assert self.roles

    @property
    def workers(self) -> int:
        """Workers of the whole gang."""
        return sum(role.workers for role in self.roles)

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return sum(role.workers * role.gpus for role in self.roles)


class NumberedRequest(NamedTuple):
    """A request with a number that only equal requests share: quicker to look up by."""

    number: int
    request: GangRequest


def gang_request(spec: JobSpec, *, excluded: frozenset[NodeName] = frozenset()) -> GangRequest:
    """What `spec` asks of the cluster."""
    return GangRequest(
        roles=tuple(
            RoleRequest(
                name=role.name,
                workers=role.workers,
                gpus=role.gpus_per_worker,
                resources=role.resources,
                pool=role.pool or spec.pool,
                spread_by=role.spread_by,
                spread_workers_max=role.spread_workers_max,
            )
            for role in spec.roles
        ),
        models=spec.gpu_models,
        mixes_models=spec.mixes_gpu_models,
        required=spec.topology.required,
        preferred=spec.topology.preferred,
        slices=spec.topology.slices,
        excluded=excluded,
    )
