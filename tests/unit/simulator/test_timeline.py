"""A run over time in a few points."""

from itertools import pairwise

import pytest

from scheduler.domain.instants import SECOND, Instant
from simulator.outcome import Step
from simulator.timeline import timeline


def a_step(at_s: float, held: int) -> Step:
    return Step(
        at=Instant(round(at_s * SECOND)),
        gpus_held=held,
        gpus_available=8,
        gpus_asked=held,
        jobs_waiting=0,
        smallest_waiting=0,
    )


def test_each_point_is_the_mean_of_its_part() -> None:
    line = timeline([a_step(0, 8), a_step(15, 0), a_step(40, 0)], points=4)
    assert line.gpus_held == pytest.approx((8, 4, 0, 0))
    assert line.at_s == pytest.approx((5, 15, 25, 35))


def test_gpu_time_is_kept() -> None:
    steps = [a_step(at, held) for at, held in ((0, 3), (1, 8), (7, 2), (31, 5), (97, 0), (100, 0))]
    line = timeline(steps, points=13)
    total = sum(step.gpus_held * (later.at - step.at) for step, later in pairwise(steps))
    assert sum(line.gpus_held) * 100 / 13 == pytest.approx(total / SECOND)
