"""A run over time in a few hundred points: time-weighted means of what its steps say."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from scheduler.domain.instants import SECOND
from simulator.outcome import Step

POINTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Means over equal parts of a run, from the first arrival to the last end."""

    at_s: tuple[float, ...]
    """Middle of each part."""
    gpus_held: tuple[float, ...]
    gpus_available: tuple[float, ...]
    jobs_waiting: tuple[float, ...]
    gpus_asked: tuple[float, ...]


def timeline(steps: Sequence[Step], *, points: int = POINTS) -> Timeline:
    """The steps of a run, averaged over `points` equal parts."""
    start, end = steps[0].at, steps[-1].at
    width = max(1.0, (end - start) / points)
    sums = [[0.0] * points for _ in range(4)]
    weights = [0.0] * points
    for step, later in pairwise(steps):
        values = (step.gpus_held, step.gpus_available, step.jobs_waiting, step.gpus_asked)
        at: float = step.at - start
        until = later.at - start
        part = min(points - 1, int(at / width))
        while at < until:
            # The last part takes what rounding has left over.
            stop = until if part == points - 1 else min(until, (part + 1) * width)
            length = max(0.0, stop - at)
            for total, value in zip(sums, values, strict=True):
                total[part] += value * length
            weights[part] += length
            at, part = max(at, stop), part + 1
    kept = [part for part in range(points) if weights[part]]
    held, available, waiting, asked = (
        tuple(total[part] / weights[part] for part in kept) for total in sums
    )
    return Timeline(
        at_s=tuple((part + 0.5) * width / SECOND for part in kept),
        gpus_held=held,
        gpus_available=available,
        jobs_waiting=waiting,
        gpus_asked=asked,
    )
