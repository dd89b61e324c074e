"""What gangs lose by each other on shared links, predicted by their profiles and placements."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from scheduler.domain.ids import GpuModel, JobId
from scheduler.domain.job import Job
from scheduler.domain.placement import Placement
from scheduler.domain.snapshot import Neighbour, SharedStep
from scheduler.domain.topology import TopologyTree
from scheduler.network.loads import LinkKey, Uplink, load_of, uplink_capacities
from scheduler.network.sensitivity import SensitivityTable
from scheduler.network.shape import Shape
from scheduler.network.sharing import Load, SharedLinks

UNMOVED = SharedStep(before_s=0.0, after_s=0.0)
"""Of a gang that is on no link."""

LOADS_KEPT = 20_000
"""Gangs whose loads are kept at hand."""

PLACES_KEPT = 4
"""Places of one gang for which they are."""

CROWDS_KEPT = 1_000
"""Groups of gangs whose shares of their links are kept at hand."""

STEPS_KEPT = 500_000
"""Step times found by trying newcomers on such groups."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What a gang asks of the links; alike gangs at one place share one (it equals only itself)."""

    load: Load[LinkKey] | None
    """None: it leaves no domain."""


@dataclass(frozen=True, slots=True, eq=False)
class _Crowd:
    """Gangs on links that newcomers are tried on; settled once."""

    asked: list[_Asked]
    links: SharedLinks[int, LinkKey]
    """The gangs by their number from 1."""

    @classmethod
    def of(cls, asked: list[_Asked], capacities: Mapping[LinkKey, float]) -> "_Crowd":
        """They start one after the other."""
        links: SharedLinks[int, LinkKey] = SharedLinks(capacities)
        for number, each in zip(count(1), asked):
            if each.load is not None:
                links.start(number, each.load)
        return cls(asked, links)

    def steps_with(self, own: Load[LinkKey]) -> Iterator[SharedStep]:
        """The newcomer's, then theirs."""
        after = self.links.with_one_more(0, own)
        yield SharedStep(before_s=own.step_s(), after_s=after[0])
        for number, each in zip(count(1), self.asked):
            if each.load is None:
                yield UNMOVED
            else:
                before_s = self.links.step_s(number)
                yield SharedStep(before_s=before_s, after_s=after.get(number, before_s))


@dataclass(slots=True)
class LinkLoads:
    """Loads of placed gangs on one generation of nodes, each worked out once."""

    tree: TopologyTree
    table: SensitivityTable
    model_of: Callable[[Placement], GpuModel]
    _loads: dict[JobId, list[tuple[Placement, _Asked]]] = field(default_factory=dict)
    _alike: dict[tuple[object, ...], _Asked] = field(default_factory=dict)
    _crowds: dict[tuple[JobId, ...], _Crowd] = field(default_factory=dict)
    _answers: dict[tuple[_Crowd, _Asked], tuple[SharedStep, ...]] = field(default_factory=dict)
    _steps_kept: int = 0
    _capacities: dict[LinkKey, float] = field(default_factory=dict)

    def shared_steps(
        self, job: Job, placement: Placement, beside: tuple[Neighbour, ...]
    ) -> tuple[SharedStep, ...]:
        """See StepTimes."""
        own = self._asked(job, placement)
        if own.load is None:
            return tuple(UNMOVED for _ in range(len(beside) + 1))
        crowd = self._crowd(beside)
        found = self._answers.get((crowd, own))
        if found is None:
            if self._steps_kept >= STEPS_KEPT:
                self._answers.clear()
                self._steps_kept = 0
            self._steps_kept += len(beside) + 1
            found = self._answers[crowd, own] = tuple(crowd.steps_with(own.load))
        return found

    def _crowd(self, gangs: tuple[Neighbour, ...]) -> _Crowd:
        asked = [self._asked(each.job, each.placement) for each in gangs]
        names = tuple(each.job.id for each in gangs)
        found = self._crowds.get(names)
        if found is None or found.asked != asked:
            if len(self._crowds) >= CROWDS_KEPT:
                self._crowds.clear()
            found = self._crowds[names] = _Crowd.of(asked, self._capacities)
        return found

    def _asked(self, job: Job, placement: Placement) -> _Asked:
        known = self._loads.get(job.id, ())
        for asked_at, asked in known:
            if asked_at is placement:
                return asked
        if len(self._loads) >= LOADS_KEPT:
            self._loads.clear()
        asked = self._shared(job, placement)
        self._loads[job.id] = [(placement, asked), *known[: PLACES_KEPT - 1]]
        return asked

    def _shared(self, job: Job, placement: Placement) -> _Asked:
        gpus = tuple((role.name, role.gpus_per_worker) for role in job.spec.roles)
        key = (job.spec.communication, gpus, placement)
        if key not in self._alike:
            if len(self._alike) >= LOADS_KEPT:
                self._alike.clear()
            self._alike[key] = _Asked(self._made(job, placement))
        return self._alike[key]

    def _made(self, job: Job, placement: Placement) -> Load[LinkKey] | None:
        shape, links = self._site(job, placement)
        if shape is None:
            return None
        model = self._model(placement)
        for level, domain in links:
            if (level, domain) not in self._capacities:
                self._capacities |= uplink_capacities(
                    self.table.fabric, {level: [domain]}, gpu_model=model
                )
        ranks = (count for level in shape.ranks_by_level[:-1] for count in level)
        uplinks = [
            Uplink(level=level, domain=domain, ranks=count)
            for (level, domain), count in zip(links, ranks, strict=True)
        ]
        workload = self.table.workload(job.spec.communication, shape.ranks, model)
        load = load_of(workload, shape, self.table.fabric, uplinks, gpu_model=model)
        return load if load.bytes_by_link else None

    def _model(self, placement: Placement) -> GpuModel:
        """Of the nodes that are still there."""
        there = tuple(each for each in placement.assignments if each.node in self.tree.index_of)
        return self.model_of(replace(placement, assignments=there))

    def _site(self, job: Job, placement: Placement) -> tuple[Shape | None, list[LinkKey]]:
        """The gang's shape, and the ways out of the domains it touches in the same order; no shape
        if it leaves no node with GPUs of it."""
        gpus = {role.name: role.gpus_per_worker for role in job.spec.roles}
        ranks: dict[int, int] = {}
        for each in placement.assignments:
            node = self.tree.index_of.get(each.node)
            if node is not None and gpus[each.role]:
                ranks[node] = ranks.get(node, 0) + each.workers * gpus[each.role]
        levels: list[tuple[int, ...]] = []
        links: list[LinkKey] = []
        for level, homes in enumerate(self.tree.domain_of):
            counts: dict[int, int] = {}
            for node in sorted(ranks):
                counts[homes[node]] = counts.get(homes[node], 0) + ranks[node]
            levels.append(tuple(counts.values()))
            if len(counts) <= 1:
                break
            links += [(level, str(domain)) for domain in counts]
        return (Shape(ranks_by_level=tuple(levels)) if links else None), links
