"""Ladders of jobs on one cluster: the tiers each could have by capacity, with its step times there.

Made anew with every generation of nodes; each ladder is computed once and shared by alike jobs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from scheduler.domain.gang import GangRequest, gang_request
from scheduler.domain.ids import GpuModel, JobId, NodeName
from scheduler.domain.job import Job, TopologyRequest
from scheduler.domain.ladder import Ladder, Rung
from scheduler.domain.placement import Placement
from scheduler.domain.snapshot import Neighbour, SharedStep, StepTimes
from scheduler.domain.topology import Level, Node, TopologyTree
from scheduler.engine.distance import gang_shape
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.link_loads import UNMOVED, LinkLoads
from scheduler.engine.placing import place_gang
from scheduler.network.cluster_fabric import fabric_of_cluster
from scheduler.network.fabric import Fabric
from scheduler.network.sensitivity import SensitivityTable
from scheduler.network.shape import Shape, shape_of_placement

LADDERS_KEPT = 100_000
"""Jobs whose ladders are kept at hand."""

PLACES_KEPT = 4
"""Places of one job of which the step times are: where it runs, and where it may go."""

UNKNOWN_STARTS_AT = 1
"""A job that says nothing of its communication does not hold out for a tier closer than this: it
behaves as if it preferred the first level above `node`."""


FabricMaker = Callable[[Sequence[Level], Sequence[Node]], Fabric]
"""The links of a cluster with these levels (closest first, as configured) and nodes."""

StepTimesMaker = Callable[[TopologyTree, Sequence[Node]], StepTimes]
"""What distance costs on a cluster: made anew with every generation of its nodes."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """The closest tier a gang could have on one GPU model, and how it would stand there."""

    gpu_model: GpuModel
    placement: Placement


class Ladders:
    """See StepTimes; `nodes` as they are now, whoever holds their GPUs."""

    def __init__(
        self,
        tree: TopologyTree,
        nodes: Sequence[Node],
        fabric_maker: FabricMaker = fabric_of_cluster,
    ) -> None:
        self._tree = tree
        self._nodes = tuple(nodes)
        self._fabric_maker = fabric_maker
        self._by_job: dict[JobId, Ladder] = {}
        self._ladders: dict[object, Ladder] = {}
        self._best_tiers: dict[GangRequest, int] = {}
        self._step_times: dict[JobId, list[tuple[Placement, float]]] = {}

    def ladder(self, job: Job) -> Ladder:
        """See StepTimes."""
        found = self._by_job.get(job.id)
        if found is None:
            if len(self._by_job) >= LADDERS_KEPT:
                self._by_job.clear()
            found = self._by_job[job.id] = self._shared(job)
        return found

    def best_tier(self, job: Job) -> int:
        """See StepTimes."""
        request = gang_request(job.spec)
        found = self._best_tiers.get(request)
        if found is None:
            tiers = [reach.placement.tier for reach in self._reaches(request)]
            found = self._best_tiers[request] = min(tiers, default=len(self._tree.levels) - 1)
        return found

    def step_s(self, job: Job, placement: Placement) -> float:
        """See StepTimes. The latest answers of each job are at hand."""
        known = self._step_times.get(job.id, ())
        for asked, step_s in known:
            if asked is placement:
                return step_s
        step_s = self._predicted_s(job, placement)
        if len(self._step_times) >= LADDERS_KEPT:
            self._step_times.clear()
        self._step_times[job.id] = [(placement, step_s), *known[: PLACES_KEPT - 1]]
        return step_s

    def shared_steps(
        self, job: Job, placement: Placement, beside: tuple[Neighbour, ...]
    ) -> tuple[SharedStep, ...]:
        """See StepTimes."""
        return self._link_loads.shared_steps(job, placement, beside)

    def prior_ladder(self, job: Job) -> Ladder:
        """See StepTimes."""
        key = (None, gang_request(job.spec), None)
        found = self._ladders.get(key)
        if found is None:
            silent = replace(
                job, spec=replace(job.spec, communication=None, topology=TopologyRequest())
            )
            found = self._ladders[key] = self._made(silent, gang_request(job.spec))
        return found

    def prior_share(self, job: Job) -> float:
        """See StepTimes."""
        found = self.prior_ladder(job)
        return found.best.compute_s / found.best.step_s if found.rungs else 1.0

    def gpu_model_of(self, placement: Placement) -> GpuModel:
        """The GPU model of the first node (models are mixed only where the job says so)."""
        return self._models[placement.assignments[0].node]

    def _predicted_s(self, job: Job, placement: Placement) -> float:
        shape = self._shape(job, placement)
        if shape is None:
            return 0.0
        model = self.gpu_model_of(placement)
        profile = job.spec.communication
        return self._table.iteration_time(profile, shape, gpu_model=model).total_s

    def _shared(self, job: Job) -> Ladder:
        """One ladder for all jobs that say the same."""
        spec = job.spec
        request = gang_request(spec)
        key = (spec.communication, request, spec.topology.preferred)
        found = self._ladders.get(key)
        if found is None:
            if len(self._ladders) >= LADDERS_KEPT:
                self._ladders.clear()
            found = self._ladders[key] = self._made(job, request)
        return found

    def _made(self, job: Job, request: GangRequest) -> Ladder:
        if not job.spec.gpus:
            return Ladder()
        reaches = list(self._reaches(request))
        rungs = [rung for reach in reaches for rung in self._rungs(job, reach)]
        names_models = len(reaches) > 1
        rungs.sort(
            key=lambda rung: (
                (rung.step_s, rung.tier, rung.gpu_model) if names_models else (0.0, rung.tier, "")
            )
        )
        return Ladder(rungs=tuple(_monotone(rungs)), names_models=names_models)

    def _reaches(self, request: GangRequest) -> Iterator[_Reach]:
        """The closest tier by capacity: per GPU model, unless the gang mixes them."""
        models: tuple[GpuModel, ...] = request.models or self._empty.models
        if request.mixes_models or not models[1:]:
            choices = [request]
        else:
            choices = [replace(request, models=(model,)) for model in sorted(models)]
        for choice in choices:
            placement = place_gang(choice, self._empty)
            if isinstance(placement, Placement):
                yield _Reach(self.gpu_model_of(placement), placement)

    def _rungs(self, job: Job, reach: _Reach) -> Iterator[Rung]:
        first = max(reach.placement.tier, self._starts_at(job))
        last = self._widest(job)
        sensitivity = self._table.sensitivity(
            job.spec.communication, gang_shape(job.spec), gpu_model=reach.gpu_model
        )
        known = {time.tier: time for time in sensitivity.tiers}
        for tier in range(first, last + 1):
            time = known.get(tier)
            if time is not None:
                step_s, compute_s = time.step_s, time.time.compute_s
            elif tier == reach.placement.tier:
                step_s = self.step_s(job, reach.placement)
                compute_s = min(step_s, sensitivity.compute_s)
            else:
                continue
            yield Rung(
                tier=tier,
                level=self._tree.levels[tier].name,
                gpu_model=reach.gpu_model,
                step_s=step_s,
                compute_s=compute_s,
            )

    def _starts_at(self, job: Job) -> int:
        """The tier that waiting starts at."""
        preferred = job.spec.topology.preferred
        if preferred is not None:
            return self._tree.level_index(preferred) or 0
        if job.spec.communication is None:
            return min(UNKNOWN_STARTS_AT, len(self._tree.levels) - 1)
        return 0

    def _widest(self, job: Job) -> int:
        required = job.spec.topology.required
        index = None if required is None else self._tree.level_index(required)
        return len(self._tree.levels) - 1 if index is None else index

    def _shape(self, job: Job, placement: Placement) -> Shape | None:
        return shape_of_placement(
            placement,
            gpus_by_role={role.name: role.gpus_per_worker for role in job.spec.roles},
            paths_by_node=self._paths,
        )

    @cached_property
    def _empty(self) -> FreeGpus:
        return FreeGpus(self._tree, self._nodes)

    @cached_property
    def _table(self) -> SensitivityTable:
        return SensitivityTable(self._fabric_maker(self._tree.levels[1:-1], self._nodes))

    @cached_property
    def _link_loads(self) -> LinkLoads:
        return LinkLoads(self._tree, self._table, self.gpu_model_of)

    @cached_property
    def _paths(self) -> Mapping[NodeName, tuple[str, ...]]:
        return dict(zip(self._tree.nodes, self._tree.paths, strict=True))

    @cached_property
    def _models(self) -> Mapping[NodeName, GpuModel]:
        return {node.name: node.gpu_model for node in self._nodes}


class NoDistance(Ladders):
    """Where distance costs nothing: nobody has a reason to wait."""

    def ladder(self, job: Job) -> Ladder:
        """See StepTimes."""
        return Ladder()

    def step_s(self, job: Job, placement: Placement) -> float:
        """See StepTimes."""
        return 0.0

    def shared_steps(
        self, job: Job, placement: Placement, beside: tuple[Neighbour, ...]
    ) -> tuple[SharedStep, ...]:
        """See StepTimes."""
        return tuple(UNMOVED for _ in range(len(beside) + 1))

    def prior_ladder(self, job: Job) -> Ladder:
        """See StepTimes."""
        return Ladder()

    def prior_share(self, job: Job) -> float:
        """See StepTimes."""
        return 1.0


def _monotone(rungs: Sequence[Rung]) -> Iterator[Rung]:
    """No rung is faster than the one above it."""
    slowest = 0.0
    for rung in rungs:
        slowest = max(slowest, rung.step_s)
        yield rung if rung.step_s == slowest else replace(rung, step_s=slowest)
