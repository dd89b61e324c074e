"""Means and ratios over seeds, with bounds."""

from random import Random

import pytest

from simulator.confidence import mean, ratio


def test_a_mean_lies_between_its_bounds() -> None:
    found = mean([1.0, 2.0, 3.0, 4.0])
    assert found.value == 2.5
    assert 1.0 < found.low < 2.5 < found.high < 4.0


def test_one_value_is_its_own_bounds() -> None:
    found = mean([7.0])
    assert (found.low, found.value, found.high) == (7.0, 7.0, 7.0)


def test_a_ratio_is_taken_pair_by_pair() -> None:
    # Twice as long each time, though the runs themselves differ a hundredfold.
    found = ratio([2.0, 20.0, 200.0], [1.0, 10.0, 100.0])
    assert (found.low, found.value, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_bounds_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = Random(1)
    held = 0
    for _ in range(200):
        found = mean([rng.gauss(10, 2) for _ in range(30)])
        held += found.low <= 10 <= found.high
    assert 0.88 <= held / 200 <= 0.99


def test_equal_values_give_equal_bounds() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    assert mean(values) == mean(values)
