"""Means over seeds with bounds: by bootstrap, so that nothing need be normal.

Runs of two policies under one seed meet the same jobs with the same profiles (common random
numbers), so a ratio is taken seed by seed, and its logarithm averaged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from random import Random
from statistics import fmean

RESAMPLES = 2_000
LEVEL = 0.95
SEED = 20_240_129
"""Of the resampling: the same bounds for the same values."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """A value with the bounds that hold with 95 % confidence; the same where there is one run."""

    value: float
    low: float
    high: float


def mean(values: Sequence[float]) -> Bounded:
    """The mean of independent values."""
    return _bootstrapped(values, fmean)


def ratio(new: Sequence[float], old: Sequence[float]) -> Bounded:
    """The geometric mean of new / old, pair by pair."""
    assert len(new) == len(old)
    logs = [_log_ratio(one, other) for one, other in zip(new, old, strict=True)]
    found = _bootstrapped(logs, fmean)
    return Bounded(exp(found.value), exp(found.low), exp(found.high))


def _log_ratio(new: float, old: float) -> float:
    if new == old:
        return 0.0
    if new <= 0.0 or old <= 0.0:
        return -inf if old > new else inf
    return log(new / old)


def _bootstrapped(values: Sequence[float], of: Callable[[Sequence[float]], float]) -> Bounded:
    value = of(values)
    if len(values) == 1 or len(set(values)) == 1:
        return Bounded(value, value, value)
    rng = Random(SEED)
    drawn = sorted(of(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = (1 - LEVEL) / 2
    return Bounded(value, drawn[int(tail * RESAMPLES)], drawn[int((1 - tail) * RESAMPLES) - 1])
