"""What was learned of a job's step times while it ran, per GPU model and level."""

from dataclasses import dataclass, replace

from scheduler.domain.ids import GpuModel, LevelName


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedTier:
    """Step times at one level, as ratios to what was predicted for the placement they ran at."""

    level: LevelName
    gpu_model: GpuModel = GpuModel("")
    predicted_s: float
    """Prediction for the placement of the latest sample."""
    ratio: float
    """Measured divided by predicted, averaged over the samples, later ones counting more."""
    deviation: float = 0.0
    """Mean distance of the samples from the average, in the same terms."""
    samples: int = 1
    """Samples behind the average; outliers do not count."""
    streak: int = 0
    """Outliers in a row up to now."""
    streak_ratio: float = 0.0
    """Their average: where the job seems to have gone."""
    steps: float = 0.0
    """Reported steps that were kept; a part of one where some were lost with an attempt."""
    run_s: float = 0.0
    """Time they took."""

    def __post_init__(self) -> None:
        assert self.predicted_s > 0.0
        assert self.ratio > 0.0
        assert self.samples >= 1

    @property
    def mean_s(self) -> float:
        """The measured step time."""
        return self.ratio * self.predicted_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedStepTimes:
    """All that was learned of one job, by GPU model and level."""

    tiers: tuple[LearnedTier, ...] = ()
    """Sorted by GPU model, then level."""
    reports_itself: bool = False
    """Whether the job has ever reported a step itself: then its log is not read for more."""
    attempt: int = -1
    """Number of the attempt that reported last; none has, if negative."""
    step: int = 0
    """The last step it reported."""

    @property
    def steps(self) -> int:
        """Steps of the training that are done and kept."""
        return self.step if self.reports_itself else round(sum(tier.steps for tier in self.tiers))

    def at(self, level: LevelName, gpu_model: GpuModel = GpuModel("")) -> LearnedTier | None:
        """What was learned at that level on those GPUs."""
        for tier in self.tiers:
            if tier.level == level and tier.gpu_model == gpu_model:
                return tier
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A report of steps, as far as they are counted."""

    attempt: int
    step: int
    step_s: float
    begins_anew: bool = False
    """Steps are counted from the beginning of the attempt, not of the training."""


def counted(
    times: LearnedStepTimes, level: LevelName, gpu_model: GpuModel, report: StepReport
) -> LearnedStepTimes:
    """With the steps that one more report stands for, at a tier of `times`.

    An attempt that resumes before the last step of the one before has lost the steps between: as
    much is taken off every tier.
    """
    tiers = times.tiers
    if times.attempt == report.attempt:
        steps = max(0, report.step - times.step)
    elif report.begins_anew:
        steps = report.step
    else:
        # How many came before the first report of an attempt is not known.
        steps = min(1, report.step)
        share = 1.0 if times.step <= 0 else min(1.0, max(0, report.step - 1) / times.step)
        tiers = tuple(replace(t, steps=t.steps * share, run_s=t.run_s * share) for t in tiers)
    return replace(
        times,
        tiers=tuple(
            replace(t, steps=t.steps + steps, run_s=t.run_s + steps * report.step_s)
            if (t.level, t.gpu_model) == (level, gpu_model)
            else t
            for t in tiers
        ),
        attempt=report.attempt,
        step=report.step,
    )
