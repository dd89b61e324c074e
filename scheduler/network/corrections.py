"""Predictions corrected by measured step times: averages that forget and mind no outliers.

A sample is a measured step time divided by the prediction for the placement it ran at, so that
samples of different placements of one tier can be averaged.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from scheduler.domain.ids import GpuModel, LevelName
from scheduler.domain.step_times import LearnedStepTimes, LearnedTier

WEIGHT_MIN = 0.1
"""Weight of a new sample once there are many; the first ones are averaged evenly."""

OUTLIER_DEVIATIONS = 5.0
"""A sample this many mean deviations off is an outlier ..."""

OUTLIER_SHARE = 0.10
"""... if it is also this share of the average off: steady jobs have tiny deviations."""

SAMPLES_SETTLED = 5
"""Samples before anything is taken for an outlier."""

STREAK_MAX = 5
"""So many outliers in a row are no outliers: the job has entered another phase."""

SAMPLES_OF_PRIOR = 2.0
"""A prediction weighs as much as this many samples."""


def observed(
    learned: LearnedStepTimes,
    *,
    level: LevelName,
    predicted_s: float,
    measured_s: float,
    gpu_model: GpuModel = GpuModel(""),
) -> LearnedStepTimes:
    """With one more measured step time; one that can not be (not positive, NaN) changes nothing."""
    if not (0.0 < measured_s < inf and 0.0 < predicted_s < inf):
        return learned
    ratio = measured_s / predicted_s
    known = learned.at(level, gpu_model)
    if known is None:
        tier = LearnedTier(level=level, gpu_model=gpu_model, predicted_s=predicted_s, ratio=ratio)
    else:
        tier = _with_sample(replace(known, predicted_s=predicted_s), ratio)
    others = [t for t in learned.tiers if t is not known]
    tiers = tuple(sorted((*others, tier), key=lambda t: (t.gpu_model, t.level)))
    return replace(learned, tiers=tiers)


def corrected_s(
    predicted_s: Mapping[LevelName, float],
    level: LevelName,
    learned: LearnedStepTimes,
    *,
    gpu_model: GpuModel = GpuModel(""),
) -> float:
    """The best guess of the step time at a level.

    `predicted_s` names all levels of the job, closest first. A level without samples takes over the
    correction of the nearest level that has some: compute that is slower than predicted is so
    everywhere.
    """
    levels = list(predicted_s)
    place = levels.index(level)
    measured = [
        (abs(levels.index(tier.level) - place), levels.index(tier.level), tier)
        for tier in learned.tiers
        if tier.gpu_model == gpu_model and tier.level in predicted_s
    ]
    if not measured:
        return predicted_s[level]
    _, _, nearest = min(measured, key=lambda item: item[:2])
    return predicted_s[level] * _trusted_ratio(nearest)


def _trusted_ratio(tier: LearnedTier) -> float:
    """The measured ratio, held back while there are few samples."""
    return (tier.samples * tier.ratio + SAMPLES_OF_PRIOR) / (tier.samples + SAMPLES_OF_PRIOR)


def _with_sample(tier: LearnedTier, ratio: float) -> LearnedTier:
    distance = abs(ratio - tier.ratio)
    limit = max(OUTLIER_DEVIATIONS * tier.deviation, OUTLIER_SHARE * tier.ratio)
    if tier.samples >= SAMPLES_SETTLED and distance > limit:
        return _with_outlier(tier, ratio)
    weight = max(1.0 / (tier.samples + 1), WEIGHT_MIN)
    return replace(
        tier,
        ratio=tier.ratio + weight * (ratio - tier.ratio),
        deviation=tier.deviation + weight * (distance - tier.deviation),
        samples=tier.samples + 1,
        streak=0,
        streak_ratio=0.0,
    )


def _with_outlier(tier: LearnedTier, ratio: float) -> LearnedTier:
    """Not averaged in; but many in a row are a new phase, and what was learned is forgotten."""
    streak = tier.streak + 1
    streak_ratio = tier.streak_ratio + (ratio - tier.streak_ratio) / streak
    if streak < STREAK_MAX:
        return replace(tier, streak=streak, streak_ratio=streak_ratio)
    return replace(
        tier, ratio=streak_ratio, deviation=0.0, samples=streak, streak=0, streak_ratio=0.0
    )
