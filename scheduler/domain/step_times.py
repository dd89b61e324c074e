"""What was learned of a job's step times while it ran, per GPU model and level."""

from dataclasses import dataclass

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

    def at(self, level: LevelName, gpu_model: GpuModel = GpuModel("")) -> LearnedTier | None:
        """What was learned at that level on those GPUs."""
        for tier in self.tiers:
            if tier.level == level and tier.gpu_model == gpu_model:
                return tier
        return None
