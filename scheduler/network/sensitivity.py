"""What each tier costs a job: step times, slowdowns, and the bandwidth above which they vanish."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import TypeVar

from scheduler.domain.communication import Collective, CommunicationProfile, ModelProfile
from scheduler.domain.ids import GpuModel, LevelName
from scheduler.domain.step_times import LearnedStepTimes
from scheduler.network.corrections import corrected_s
from scheduler.network.fabric import Fabric
from scheduler.network.groups import whole_gang
from scheduler.network.iteration import TIE_GAP, IterationTime, as_time
from scheduler.network.profiles import BUILT_IN
from scheduler.network.shape import Shape, reference_shape
from scheduler.network.strategies import StepParts, step_parts
from scheduler.network.transfer import ALONE, bus_rate
from scheduler.network.workload import Source, Workload, resolve

ENTRIES_MAX = 50_000
"""Answers of one kind that a table keeps; whoever asks for more begins anew."""

INSENSITIVE_SHARE = 0.05
"""A job whose exposed communication stays under this share of its compute is insensitive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangShape:
    """How large a gang is, wherever it will run."""

    ranks: int
    """GPUs of the gang; workers if it has none."""
    ranks_per_worker: int = 1
    """Ranks that always share a node."""

    def __post_init__(self) -> None:
        assert self.ranks >= 1
        assert self.ranks_per_worker >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTime:
    """A job at one tier, on its fewest, even nodes there."""

    tier: int
    """Index of the level; 0 is `node`."""
    level: LevelName
    shape: Shape
    time: IterationTime
    """As predicted."""
    step_s: float
    """The best guess: predicted, corrected by what was measured at any tier."""
    source: Source
    """Where the best guess comes from: measured if steps were reported at this tier."""
    measured_s: float | None
    """Mean of reported steps at this tier, outliers left out."""
    step_slowdown: float
    """`step_s` divided by that of the best tier."""
    bus_bytes_per_s: float
    """Rate of one large all-reduce of the gang at this tier."""
    elasticity: float
    """By how many percent the step grows when bandwidth falls by one percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What distance costs one job."""

    source: Source
    """Where the job's numbers come from: declared, profile or prior."""
    compute_s: float
    gradient_bytes: float
    bandwidth_wanted: float
    """Bus rate (bytes per second) above which placement hardly matters (B*)."""
    tiers: tuple[TierTime, ...]
    """The tiers the gang can reach on this fabric, closest first; empty if it fits nowhere."""

    @property
    def best(self) -> TierTime:
        """The fastest tier; of equals the closest."""
        return min(self.tiers, key=lambda tier: (tier.step_s, tier.tier))

    def at(self, tier: int) -> TierTime | None:
        """The tier with that index; None if the gang can not be placed there."""
        return next((time for time in self.tiers if time.tier == tier), None)

    def gap(self, closer: int, wider: int) -> float:
        """Relative step time lost at the wider tier; 0 for what the model can not tell apart."""
        near, far = self.at(closer), self.at(wider)
        if near is None or far is None:
            return 0.0
        if not near.step_s:
            return inf if far.step_s else 0.0
        lost = far.step_s / near.step_s - 1.0
        return lost if lost > TIE_GAP else 0.0

    def is_insensitive(self, tier: int) -> bool:
        """Whether that tier has all the bandwidth the job wants."""
        time = self.at(tier)
        return time is not None and time.bus_bytes_per_s >= self.bandwidth_wanted


@dataclass(slots=True)
class SensitivityTable:
    """Sensitivities and step times on one fabric, each computed once.

    Made anew with every generation of nodes, so keys are the profile and the gang's shape; serves
    order, timers and offers alike. Holds no clock and no chance: equal questions, equal answers.
    """

    fabric: Fabric
    models: Mapping[str, ModelProfile] = field(default_factory=lambda: BUILT_IN)
    _sensitivities: dict[object, Sensitivity] = field(default_factory=dict)
    _workloads: dict[object, Workload] = field(default_factory=dict)
    _times: dict[object, IterationTime] = field(default_factory=dict)

    def sensitivity(
        self,
        profile: CommunicationProfile | None,
        gang: GangShape,
        *,
        gpu_model: GpuModel = GpuModel(""),
        learned: LearnedStepTimes | None = None,
    ) -> Sensitivity:
        """What distance costs a job of that profile and size."""
        key = (profile, gang, gpu_model)
        found = self._sensitivities.get(key)
        if found is None:
            workload = self.workload(profile, gang.ranks, gpu_model)
            found = sensitivity(workload, gang, self.fabric, gpu_model=gpu_model)
            _keep(self._sensitivities, key, found)
        return found if learned is None else with_measured(found, learned, gpu_model=gpu_model)

    def iteration_time(
        self,
        profile: CommunicationProfile | None,
        shape: Shape,
        shares: tuple[float, ...] = ALONE,
        *,
        gpu_model: GpuModel = GpuModel(""),
    ) -> IterationTime:
        """The step time at one placement, predicted."""
        key = (profile, shape, shares, gpu_model)
        found = self._times.get(key)
        if found is None:
            workload = self.workload(profile, shape.ranks, gpu_model)
            node = self.fabric.node(gpu_model)
            found = as_time(step_parts(workload, shape, self.fabric, node, shares))
            _keep(self._times, key, found)
        return found

    def workload(
        self, profile: CommunicationProfile | None, ranks: int, gpu_model: GpuModel
    ) -> Workload:
        """The job's numbers."""
        key = (profile, ranks, gpu_model)
        found = self._workloads.get(key)
        if found is None:
            found = resolve(profile, ranks=ranks, gpu_model=gpu_model, models=self.models)
            _keep(self._workloads, key, found)
        return found


V = TypeVar("V")


def _keep(answers: dict[object, V], key: object, answer: V) -> None:
    if len(answers) >= ENTRIES_MAX:
        answers.clear()
    answers[key] = answer


def sensitivity(
    workload: Workload, gang: GangShape, fabric: Fabric, *, gpu_model: GpuModel = GpuModel("")
) -> Sensitivity:
    """Step times of a workload at every tier of a fabric that its gang can reach."""
    node = fabric.node(gpu_model)
    sizes = level_sizes(fabric, gpu_model)
    tiers: list[TierTime] = []
    wanted = 0.0
    for tier in range(fabric.tiers):
        shape = reference_shape(gang.ranks, tier, sizes, ranks_per_worker=gang.ranks_per_worker)
        if shape is None:
            continue
        parts = step_parts(workload, shape, fabric, node, ALONE)
        time = as_time(parts)
        rate = bus_rate(Collective.ALL_REDUCE, whole_gang(shape), fabric, node)
        # Bytes on the wire are the same everywhere; the widest tier reads them off best.
        wanted = _wanted(parts, rate)
        tiers.append(
            TierTime(
                tier=tier,
                level=fabric.level_name(tier),
                shape=shape,
                time=time,
                step_s=time.total_s,
                source=workload.source,
                measured_s=None,
                step_slowdown=1.0,
                bus_bytes_per_s=rate,
                elasticity=elasticity(parts),
            )
        )
    return Sensitivity(
        source=workload.source,
        compute_s=workload.compute_s,
        gradient_bytes=workload.gradient_bytes,
        bandwidth_wanted=wanted,
        tiers=_with_slowdowns(tiers),
    )


def with_measured(
    found: Sensitivity, learned: LearnedStepTimes, *, gpu_model: GpuModel = GpuModel("")
) -> Sensitivity:
    """The same, corrected by step times that were measured."""
    predicted = {tier.level: tier.time.total_s for tier in found.tiers}
    tiers = []
    for tier in found.tiers:
        known = learned.at(tier.level, gpu_model)
        tiers.append(
            replace(
                tier,
                step_s=corrected_s(predicted, tier.level, learned, gpu_model=gpu_model),
                measured_s=None if known is None else known.mean_s,
                source=tier.source if known is None else Source.MEASURED,
            )
        )
    return replace(found, tiers=_with_slowdowns(tiers))


def level_sizes(fabric: Fabric, gpu_model: GpuModel) -> tuple[int, ...]:
    """GPUs per node, then how many domains of each level one domain of the next level holds."""
    nodes = [fabric.nodes_in(tier) for tier in range(fabric.tiers)]
    # Where domains are unequal the largest counts; what is left over stands in one more.
    domains = [max(1, -(-wider // closer)) for closer, wider in pairwise(nodes)]
    return (fabric.node(gpu_model).gpus, *domains)


def elasticity(parts: StepParts) -> float:
    """Relative growth of the step per relative fall of bandwidth.

    While the exchange outlasts what hides it, all of its wire time counts; else only that of the
    last bucket. Communication that blocks always counts.
    """
    if not parts.total_s or parts.total_s == parts.period_s_min:
        return 1.0 if parts.period_s_min else 0.0
    exposed = parts.exchange.total_s - parts.hideable_s
    wire_s = parts.exchange.wire_s if exposed > parts.last.total_s else parts.last.wire_s
    if exposed <= 0.0 and not parts.last.total_s:
        wire_s = 0.0
    return (parts.blocking.wire_s + wire_s) / parts.total_s


def wanted_bandwidth(
    *, exchange: float, last: float, blocking: float, hideable_s: float, compute_s: float
) -> float:
    """The bus rate at which the exposed share of the step falls to `INSENSITIVE_SHARE`.

    All sizes are bytes on the wire: of the exchange that may hide, of its last bucket, which can
    not, and of what blocks.
    """
    slack_s = INSENSITIVE_SHARE * compute_s
    if slack_s <= 0.0:
        return inf if exchange + blocking > 0 else 0.0
    return max((blocking + exchange) / (hideable_s + slack_s), (blocking + last) / slack_s)


def _wanted(parts: StepParts, rate: float) -> float:
    """B* of a step whose transfers ran at that bus rate."""
    if rate == inf:
        return 0.0
    return wanted_bandwidth(
        exchange=parts.exchange.wire_s * rate,
        last=parts.last.wire_s * rate,
        blocking=parts.blocking.wire_s * rate,
        hideable_s=parts.hideable_s,
        compute_s=parts.compute_s,
    )


def _with_slowdowns(tiers: list[TierTime]) -> tuple[TierTime, ...]:
    if not tiers:
        return ()
    best = min(tier.step_s for tier in tiers)
    # A job that neither computes nor sends loses nothing anywhere.
    return tuple(replace(tier, step_slowdown=tier.step_s / best if best else 1.0) for tier in tiers)
