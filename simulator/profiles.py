"""Network profiles of jobs: the true ones, and what the policy is told of them.

Public traces name no models, so a job's model is drawn from the built-in table by the run's seed,
the job's name and its GPU demand; a trace that does name models the table knows keeps them. So
another policy, load or network meets the same jobs. What a policy sees (`ProfileView`) is another
matter: by default a profile whose predicted loss by distance is off by a factor of its own.
"""

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from math import exp
from statistics import NormalDist

from scheduler.domain.communication import CommunicationProfile, Strategy
from scheduler.domain.ids import GpuModel
from scheduler.network.fabric import Fabric
from scheduler.network.priors import prior_of_family
from scheduler.network.profiles import BUILT_IN, find_model
from scheduler.network.sensitivity import GangShape, Sensitivity, SensitivityTable
from simulator.chance import uniform
from simulator.traces.job import TraceJob

Weights = tuple[tuple[str, int], ...]

DRAWS: tuple[tuple[int, Weights], ...] = (
    (
        4,
        (
            ("resnet50", 4),
            ("inception-v3", 1),
            ("vgg16", 2),
            ("yolov3", 1),
            ("unet", 1),
            ("bert-base", 3),
            ("deepspeech2", 2),
            ("neumf", 1),
            ("lstm-lm", 1),
        ),
    ),
    (
        16,
        (
            ("resnet50", 3),
            ("resnet152", 2),
            ("vgg16", 1),
            ("bert-base", 2),
            ("bert-large", 2),
            ("gpt2-small", 2),
            ("transformer-big", 2),
            ("mask-rcnn", 1),
            ("deepspeech2", 1),
        ),
    ),
    (
        1 << 30,
        (
            ("resnet50", 2),
            ("bert-large", 3),
            ("gpt2-small", 2),
            ("transformer-xl-large", 1),
            ("mpt-350m", 2),
            ("mpt-760m", 2),
            ("mpt-1b", 2),
            ("mpt-3b", 1),
        ),
    ),
)
"""Models and weights by GPU demand, smallest class first: vision and speech in small gangs, larger
models in large ones."""

NOISE_SD = 0.3
"""Standard deviation of the logarithm of a noisy view's factor."""

NOISE_STEPS = 8
"""Factors are the middles of so many equally likely parts, so that equal views can be shared."""

SEARCH_STEPS = 8
"""Secant steps to find the bytes that give a wanted loss; it takes three."""

SCALE_MAX = 64.0


class ProfileView(StrEnum):
    """What a policy is told of a job's profile."""

    NOISY = "noisy"
    """Its loss by distance, slowdown - 1, is off by a lognormal factor."""
    EXACT = "exact"
    FAMILY = "family"
    """The prior of the model's family."""
    ONE = "one"
    """Nothing: the network model takes every job for a typical one of its size."""
    NONE = "none"
    """Distance costs nothing, says the profile."""


@dataclass(slots=True)
class Profiles:
    """Draws profiles; equal answers are one object."""

    fabric: Fabric
    gpu_model: GpuModel
    seed: int
    view: ProfileView = ProfileView.NOISY
    _table: SensitivityTable = field(init=False)
    _true: dict[str, CommunicationProfile] = field(default_factory=dict)
    _seen: dict[tuple[str, int, int], CommunicationProfile | None] = field(default_factory=dict)
    _named: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._table = SensitivityTable(self.fabric)

    def model_of(self, job: TraceJob) -> str:
        """The job's model, by name."""
        if job.model:
            named = self._named.get(job.model)
            if named is None:
                found = find_model(job.model, BUILT_IN)
                named = self._named[job.model] = "" if found is None else found.name
            if named:
                return named
        return drawn_model(job.gpus, uniform(self.seed, "profile", job.name))

    def true(self, model: str) -> CommunicationProfile:
        """The profile jobs of that model run by."""
        found = self._true.get(model)
        if found is None:
            found = self._true[model] = CommunicationProfile(model=model)
        return found

    def seen(self, job: TraceJob, model: str) -> CommunicationProfile | None:
        """What the policy is told."""
        step = 0
        if self.view is ProfileView.NOISY:
            step = int(uniform(self.seed, "noise", job.name) * NOISE_STEPS)
        key = (model, job.gpus, step)
        if key not in self._seen:
            self._seen[key] = self._view(model, job.gpus, step)
        return self._seen[key]

    def _view(self, model: str, gpus: int, step: int) -> CommunicationProfile | None:
        true = self.true(model)
        match self.view:
            case ProfileView.EXACT:
                return true
            case ProfileView.FAMILY:
                prior = prior_of_family(BUILT_IN[model].family, self.gpu_model)
                return CommunicationProfile(
                    gradient_bytes=round(prior.gradient_bytes), compute_s=prior.compute_s
                )
            case ProfileView.ONE:
                return None
            case ProfileView.NONE:
                return CommunicationProfile(strategy=Strategy.NONE)
            case ProfileView.NOISY:
                return self._off_by(true, gpus, noise_factor(step))

    def _off_by(self, true: CommunicationProfile, gpus: int, factor: float) -> CommunicationProfile:
        """The profile with other bytes, such that its loss at the widest tier is off by that."""
        loss = self._loss(true, gpus)
        if loss <= 0.0:
            return true
        wanted = loss * factor
        size = self._table.workload(true, gpus, self.gpu_model).gradient_bytes
        scale, before = factor, (1.0, loss)
        for _ in range(SEARCH_STEPS):
            found = self._loss(_scaled(true, size, scale), gpus)
            if abs(found - wanted) <= 0.01 * wanted:
                break
            slope = (found - before[1]) / (scale - before[0]) if scale != before[0] else 0.0
            before = (scale, found)
            if slope <= 0.0:
                break
            scale = min(SCALE_MAX, max(1 / SCALE_MAX, scale + (wanted - found) / slope))
        return _scaled(true, size, scale)

    def _loss(self, profile: CommunicationProfile, gpus: int) -> float:
        """Slowdown - 1 at the widest tier."""
        found = self.sensitivity(profile, gpus)
        return found.tiers[-1].step_slowdown - 1.0 if found.tiers else 0.0

    def sensitivity(self, profile: CommunicationProfile | None, gpus: int) -> Sensitivity:
        """What distance costs a gang of single GPUs with that profile here."""
        return self._table.sensitivity(profile, GangShape(ranks=gpus), gpu_model=self.gpu_model)


def drawn_model(gpus: int, probability: float) -> str:
    """The model at that probability in the class of that demand."""
    weights = next(weights for gpus_max, weights in DRAWS if gpus <= gpus_max)
    bounds = list(accumulate(weight for _, weight in weights))
    return weights[bisect_left(bounds, probability * bounds[-1])][0]


def noise_factor(step: int) -> float:
    """The middle of the step-th part of the lognormal factors."""
    return exp(NOISE_SD * NormalDist().inv_cdf((step + 0.5) / NOISE_STEPS))


def _scaled(true: CommunicationProfile, size: float, scale: float) -> CommunicationProfile:
    return replace(true, gradient_bytes=max(1, round(size * scale)))
