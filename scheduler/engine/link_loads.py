"""What gangs lose by each other on shared links, predicted by their profiles and placements."""

from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class LinkLoads:
    """Loads of placed gangs on one generation of nodes, each worked out once."""

    tree: TopologyTree
    table: SensitivityTable
    model_of: Callable[[Placement], GpuModel]
    _loads: dict[JobId, tuple[Placement, Load[LinkKey] | None]] = field(default_factory=dict)
    _capacities: dict[LinkKey, float] = field(default_factory=dict)

    def shared_steps(
        self, job: Job, placement: Placement, beside: tuple[Neighbour, ...]
    ) -> tuple[SharedStep, ...]:
        """See StepTimes."""
        own = self._load(job, placement)
        if own is None:
            return tuple(UNMOVED for _ in range(len(beside) + 1))
        others = [self._load(each.job, each.placement) for each in beside]
        links: SharedLinks[int, LinkKey] = SharedLinks(self._capacities)
        on_links = [(number, load) for number, load in zip(count(1), others) if load is not None]
        for number, load in on_links:
            links.start(number, load)
        before = {number: links.step_s(number) for number, _ in on_links}
        links.start(0, own)
        steps = [SharedStep(before_s=own.step_s(), after_s=links.step_s(0))]
        for number in range(1, len(others) + 1):
            known = before.get(number)
            steps.append(
                UNMOVED
                if known is None
                else SharedStep(before_s=known, after_s=links.step_s(number))
            )
        return tuple(steps)

    def _load(self, job: Job, placement: Placement) -> Load[LinkKey] | None:
        """What the gang asks of the links; None if it leaves no domain."""
        known = self._loads.get(job.id)
        if known is not None and known[0] is placement:
            return known[1]
        if len(self._loads) >= LOADS_KEPT:
            self._loads.clear()
        made = self._made(job, placement)
        self._loads[job.id] = placement, made
        return made

    def _made(self, job: Job, placement: Placement) -> Load[LinkKey] | None:
        shape, links = self._site(job, placement)
        if shape is None:
            return None
        model = self.model_of(placement)
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
