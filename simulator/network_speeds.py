"""NetworkSpeeds: gangs go as fast as the network model says, beside the others on their links.

A step takes what `scheduler.network` predicts for the placement's shape; where the gang leaves a
node, a rack or a block, it shares the way out with others, and `SharedLinks` tells how much longer
its exchange takes. Progress is the step at the gang's best tier on an idle network without
congestion, over the step now: work is counted in that time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.copying import maker_of, quickly_made
from scheduler.domain.ids import GpuModel, NodeName
from scheduler.domain.placement import Placement
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.topology import Node
from scheduler.network.fabric import Fabric
from scheduler.network.loads import LinkKey, Uplink, load_of, uplink_capacities
from scheduler.network.sensitivity import GangShape, SensitivityTable
from scheduler.network.shape import Shape
from scheduler.network.sharing import Load, SharedLinks
from simulator.speeds import FULL_SPEED, Change, Speed
from simulator.world import SimulatedJob

Profile = CommunicationProfile

MOVED_LEAST = 1e-9
"""A step time that moved by less than this, relatively, is where it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What all runs on one cluster under one network share; its tables are filled as they go."""

    fabric: Fabric
    """As it is, congestion included."""
    ideal: Fabric
    """The same without congestion: work is counted in its step times."""
    gpu_model: GpuModel
    """The model most GPUs are of; step times at the best tier are those of a gang of it."""
    paths: Mapping[NodeName, tuple[str, ...]]
    """Domains of each node, closest first; each named by its whole path, so names are unique."""
    gpu_models: Mapping[NodeName, GpuModel]
    capacities: Mapping[LinkKey, float]


def network_of(
    fabric: Fabric, ideal: Fabric, nodes: Sequence[Node], gpu_model: GpuModel
) -> Network:
    """The network of a cluster with these nodes."""
    paths = {node.name: _domains(node.path) for node in nodes}
    gpu_models = {node.name: node.gpu_model for node in nodes}
    capacities: dict[LinkKey, float] = {}
    for node in nodes:
        domains = {0: [str(node.name)]}
        domains |= {level: [name] for level, name in enumerate(paths[node.name], start=1)}
        capacities |= uplink_capacities(fabric, domains, gpu_model=node.gpu_model)
    return Network(
        fabric=fabric,
        ideal=ideal,
        gpu_model=gpu_model,
        paths=paths,
        gpu_models=gpu_models,
        capacities=capacities,
    )


def _domains(path: Sequence[str]) -> tuple[str, ...]:
    """Unique names of the domains of a path given widest first; closest first."""
    return tuple("/".join(path[: len(path) - place]) for place in range(len(path)))


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What all gangs of one profile and shape have in common."""

    load: Load[tuple[int, int]]
    """Links are named by level and place in the shape."""
    compute_s: float
    alone_s: float
    """The step with all links for itself."""
    ideal_s: float
    """The step at the best tier, without congestion."""

    def speed(self, step_s: float) -> Speed:
        """How fast a gang goes whose step takes so long."""
        if not step_s:
            # It neither computes nor sends, as far as anybody knows.
            return FULL_SPEED
        exposed = max(0.0, 1.0 - self.compute_s / step_s)
        return _speed(self.ideal_s / step_s, exposed, step_s)


@quickly_made
@dataclass(frozen=True, slots=True)
class _Site:
    """Where a gang lies: its shape and the domains it touches, in rank order."""

    shape: Shape
    links: tuple[tuple[LinkKey, ...], ...]
    """Per level below the tier: the ways out of the domains with ranks of it."""
    gpu_model: GpuModel


_site, _speed, _change = maker_of(_Site), maker_of(Speed), maker_of(Change)


@dataclass(slots=True)
class NetworkSpeeds:
    """The Speeds of one run."""

    network: Network
    _links: SharedLinks[AttemptKey, LinkKey] = field(init=False)
    _patterns: dict[tuple[str, int, GpuModel, Shape], _Pattern] = field(default_factory=dict)
    _shapes: dict[tuple[tuple[int, ...], ...], Shape] = field(default_factory=dict)
    _running: dict[AttemptKey, _Pattern] = field(default_factory=dict)
    """Gangs that are on links."""
    _steps: dict[AttemptKey, float] = field(default_factory=dict)
    """Their step times, as told."""
    _ideal: SensitivityTable = field(init=False)
    _real: SensitivityTable = field(init=False)

    def __post_init__(self) -> None:
        self._links = SharedLinks(self.network.capacities)
        self._ideal = SensitivityTable(self.network.ideal)
        self._real = SensitivityTable(self.network.fabric)

    def begin(
        self, attempt: AttemptKey, job: SimulatedJob, placement: Placement
    ) -> Iterable[Change]:
        """See Speeds."""
        site = self._site(placement, job)
        pattern = self._pattern(job, site)
        if not pattern.load.bytes_by_link:
            return (_change(attempt, pattern.speed(pattern.alone_s)),)
        self._running[attempt] = pattern
        touched = self._links.start(attempt, _placed(pattern.load, site))
        return self._changes(touched)

    def end(self, attempt: AttemptKey) -> Iterable[Change]:
        """See Speeds."""
        if self._running.pop(attempt, None) is None:
            return ()
        del self._steps[attempt]
        return self._changes(self._links.end(attempt))

    def _changes(self, touched: Iterable[AttemptKey]) -> list[Change]:
        changes = []
        for key in touched:
            step_s = self._links.step_s(key)
            before = self._steps.get(key)
            if before is None or abs(step_s - before) > MOVED_LEAST * before:
                self._steps[key] = step_s
                changes.append(Change(key, self._running[key].speed(step_s)))
        return changes

    def _site(self, placement: Placement, job: SimulatedJob) -> _Site:
        """Ranks by node, and the domains around them, in the order of the topology."""
        network = self.network
        gpus = {role.name: role.gpus_per_worker for role in job.spec.roles}
        ranks: dict[NodeName, int] = {}
        for each in placement.assignments:
            count = each.workers * gpus[each.role]
            if count:
                ranks[each.node] = ranks.get(each.node, 0) + count
        gpu_model = network.gpu_models[placement.assignments[0].node]
        if len(ranks) == 1:
            return _site(self._shape((tuple(ranks.values()),)), (), gpu_model)
        nodes = sorted(ranks, key=lambda node: (network.paths[node][::-1], node))
        counts = tuple(ranks[node] for node in nodes)
        levels = [counts]
        links = []
        names: list[str] = [str(node) for node in nodes]
        for level in range(placement.tier):
            if len(levels[-1]) == 1:
                break
            links.append(tuple((level, name) for name in dict.fromkeys(names)))
            totals: dict[str, int] = {}
            names = [_around(network.paths[node], level) for node in nodes]
            for name, count in zip(names, counts, strict=True):
                totals[name] = totals.get(name, 0) + count
            levels.append(tuple(totals.values()))
        return _Site(self._shape(tuple(levels)), tuple(links), gpu_model)

    def _shape(self, levels: tuple[tuple[int, ...], ...]) -> Shape:
        shape = self._shapes.get(levels)
        if shape is None:
            shape = self._shapes[levels] = Shape(ranks_by_level=levels)
        return shape

    def _pattern(self, job: SimulatedJob, site: _Site) -> _Pattern:
        key = (job.model, job.gpus, site.gpu_model, site.shape)
        found = self._patterns.get(key)
        if found is None:
            found = self._patterns[key] = self._made(job, site)
        return found

    def _made(self, job: SimulatedJob, site: _Site) -> _Pattern:
        network = self.network
        time = self._real.iteration_time(job.profile, site.shape, gpu_model=site.gpu_model)
        load = load_of(
            self._real.workload(job.profile, site.shape.ranks, site.gpu_model),
            site.shape,
            network.fabric,
            _uplinks(site.shape),
            gpu_model=site.gpu_model,
        )
        return _Pattern(
            load=_by_place(load),
            compute_s=time.compute_s,
            alone_s=time.total_s,
            ideal_s=self.ideal_step_s(job.profile, job.gpus) or time.total_s,
        )

    def ideal_step_s(self, profile: Profile | None, gpus: int) -> float:
        """The step at the gang's best tier, alone, without congestion; 0 if no tier holds it."""
        gang = GangShape(ranks=gpus)
        found = self._ideal.sensitivity(profile, gang, gpu_model=self.network.gpu_model)
        # A live gang may be larger than what is left of its cluster.
        return found.best.step_s if found.tiers else 0.0


def _around(path: Sequence[str], level: int) -> str:
    """The domain one level further out; beyond the path all nodes are in one."""
    return path[level] if level < len(path) else ""


def _uplinks(shape: Shape) -> list[Uplink]:
    return [
        Uplink(level=level, domain=str(place), ranks=ranks)
        for level in range(shape.tier)
        for place, ranks in enumerate(shape.ranks_by_level[level])
    ]


def _by_place(load: Load[LinkKey]) -> Load[tuple[int, int]]:
    return Load(
        compute_s=load.compute_s,
        exchange_s=load.exchange_s,
        hideable_s=load.hideable_s,
        last_s=load.last_s,
        bytes_by_link={
            (level, int(place)): size for (level, place), size in load.bytes_by_link.items()
        },
    )


def _placed(load: Load[tuple[int, int]], site: _Site) -> Load[LinkKey]:
    """The load on the ways out of the domains of this gang."""
    return Load(
        compute_s=load.compute_s,
        exchange_s=load.exchange_s,
        hideable_s=load.hideable_s,
        last_s=load.last_s,
        bytes_by_link={
            site.links[level][place]: size for (level, place), size in load.bytes_by_link.items()
        },
    )
