"""Classes of attained service and the Gittins index."""

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from scheduler.domain.instants import SECOND
from scheduler.policies.ordering import (
    GITTINS_CLASSES,
    LAS_CLASSES,
    GittinsTable,
    ServiceClasses,
    learned,
)

TIRESIAS = ServiceClasses((3_250 * SECOND, 7_200 * SECOND))


def table(ended: list[float], live: list[float] | None = None) -> GittinsTable:
    """A table learned from services in GPU-seconds."""
    services, had = ([round(s * SECOND) for s in each] for each in (ended, live or []))
    found = learned(services, had, ends_min=1)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("classes", "gpu_seconds", "expected"),
    [
        pytest.param(LAS_CLASSES, 0, 0, id="a new job"),
        pytest.param(LAS_CLASSES, 3_599, 0, id="just below a bound"),
        pytest.param(LAS_CLASSES, 3_600, 1, id="on a bound"),
        pytest.param(LAS_CLASSES, 4 * 3_600, 2, id="the next bound is four times further"),
        pytest.param(GITTINS_CLASSES, 130, 2, id="factor two"),
        pytest.param(TIRESIAS, 7_199, 1, id="explicit bounds"),
        pytest.param(TIRESIAS, 10**9, 2, id="beyond the last explicit bound"),
    ],
)
def test_a_job_is_in_the_class_of_its_service(
    classes: ServiceClasses, gpu_seconds: int, expected: int
) -> None:
    assert classes.class_of(gpu_seconds * SECOND) == expected


@pytest.mark.parametrize(
    ("gpu_seconds", "gpus", "expected_s"),
    [
        pytest.param(0, 1, 3_250, id="from the start"),
        pytest.param(250, 8, 375, id="more GPUs get there sooner"),
        pytest.param(7_200, 8, None, id="nothing lies beyond the last class"),
        pytest.param(0, 0, None, id="without GPUs no service is had"),
    ],
)
def test_a_running_job_leaves_its_class_at_its_bound(
    gpu_seconds: int, gpus: int, expected_s: int | None
) -> None:
    left = TIRESIAS.leaves_in(gpu_seconds * SECOND, gpus=gpus)
    assert left == (None if expected_s is None else expected_s * SECOND)


def test_leaving_is_rounded_up_to_where_the_class_has_changed() -> None:
    left = TIRESIAS.leaves_in(1, gpus=3)
    assert left is not None
    assert TIRESIAS.class_of(1 + 3 * left) == 1
    assert TIRESIAS.class_of(1 + 3 * (left - 1)) == 0


@pytest.mark.parametrize(
    ("ended", "ends_min"),
    [
        pytest.param(4, 5, id="one too few"),
        pytest.param(0, 1, id="none, and one is asked for"),
        pytest.param(0, 0, id="none, and none is asked for"),
    ],
)
def test_too_few_ends_teach_nothing(ended: int, ends_min: int) -> None:
    assert learned([SECOND] * ended, [SECOND] * 1_000, ends_min=ends_min) is None


@pytest.mark.parametrize("ended_s", [0.0, 60.0, 1e12])
def test_five_ends_are_enough_wherever_they_lie(ended_s: float) -> None:
    found = learned([round(ended_s * SECOND)] * 5, [], ends_min=5)
    assert found is not None
    assert found.ends == 5
    assert all(index > 0 for index in found.indices)


@given(ended=st.lists(st.integers(0, 10**6), min_size=1, max_size=9))
@example(ended=[100])
@example(ended=[63, 64, 5_000])
def test_without_live_jobs_chances_are_shares_of_those_seen_and_two_supposed(
    ended: list[int],
) -> None:
    def come_to(service_s: float) -> float:
        return sum(each >= service_s for each in ended) + 2 / (1 + service_s / 64)

    def index(begin_s: int, end_s: int, parts: list[float]) -> float:
        inside = [each for each in parts if begin_s <= each <= end_s]
        spent = sum((come_to(a) + come_to(b)) / 2 * (b - a) for a, b in pairwise(inside))
        return (come_to(begin_s) - come_to(end_s)) / spent

    found = table([float(each) for each in ended])
    bounds = [0, *(64 * 2**n for n in range(len(found.indices)))]
    parts = sorted({a + (b - a) * n / 8 for a, b in pairwise(bounds) for n in range(9)})
    for number, begin_s in enumerate(bounds[:-1]):
        best = max(index(begin_s, end_s, parts) for end_s in bounds[number + 1 :])
        assert found.indices[number] == pytest.approx(best)


def test_equal_jobs_gain_index_as_they_near_their_common_end() -> None:
    """All end in class 4 (512 to 1024 GPU-seconds): the further a job is, the sooner it ends."""
    indices = table([700] * 600).indices
    assert list(indices[:5]) == sorted(indices[:5])
    # From the start: sure to end at about 700 GPU-seconds.
    assert indices[0] == pytest.approx(1 / 700, rel=0.05)
    # Who is not done by then is one of a heavy tail.
    assert indices[5] < indices[0]


def test_a_heavy_tail_puts_new_jobs_first_and_long_runners_last() -> None:
    """The length doubles with every halving of the jobs: like LAS."""
    ended = [30.0 * 2**k for k in range(10) for _ in range(2 ** (10 - k))]
    indices = table(ended).indices[:9]
    assert list(indices) == sorted(indices, reverse=True)


def test_a_bimodal_mix_lets_jobs_pass_that_are_about_to_end() -> None:
    """Half the jobs end within a minute, the rest at about 8000 GPU-seconds: one that has come far
    goes before one that is in the middle of nowhere."""
    found = table([50.0] * 50 + [8_100.0] * 50)
    assert found.index_of(0) == max(found.indices)
    assert found.index_of(5_000 * SECOND) > found.index_of(200 * SECOND)


def test_live_jobs_that_have_outlived_the_ended_ones_lower_the_chance_of_an_end() -> None:
    without, with_live = table([100.0] * 60), table([100.0] * 60, [100_000.0] * 60)
    assert with_live.indices[0] < without.indices[0]


def test_a_live_job_says_nothing_about_what_lies_beyond_its_service() -> None:
    young = table([100.0] * 60, [0.0] * 1_000)
    assert young.indices[1] == pytest.approx(table([100.0] * 60).indices[1])


def test_where_nobody_has_come_yet_half_of_those_that_come_far_come_twice_as_far() -> None:
    found = table([50.0] * 50 + [8_100.0] * 50)
    next_one = len(found.indices) - 1
    bounds = [GITTINS_CLASSES.upper_bound(next_one + beyond) for beyond in range(-1, 4)]
    known, *others = (found.index_of(bound) for bound in bounds if bound is not None)
    # Half of them end in a class of 8192 GPU-seconds, and are there for three quarters of it.
    assert known == found.indices[-1] == pytest.approx(1 / 2 / (3 / 4 * 8_192), rel=0.1)
    assert others == [known / 2, known / 4, known / 8, known / 16]


def test_live_jobs_far_beyond_all_ends_lower_the_index_of_the_next_class_alone() -> None:
    """What else lies beyond goes by the heavy tail: in a gap of many classes without an end the
    oldest would else come first."""
    without, with_live = table([100.0] * 60), table([100.0] * 60, [100_000.0] * 60)
    assert len(with_live.indices) == len(without.indices)
    assert with_live.indices[-1] < without.indices[-1] / 5
    assert with_live.index_of(1_000 * SECOND) == with_live.index_of(500 * SECOND) / 2


def test_a_live_job_in_the_part_in_which_others_ended_was_half_at_risk() -> None:
    """600 of 1800 ended, for of the 400 that have come no further half were there to end."""
    found = table([4_100.0] * 600, [4_100.0] * 400 + [9_000_000.0] * 1_000)
    parts_s = [512, 8_192 - 4_096 - 512]
    expected = (1 / 3) / (5 / 6 * parts_s[0] + 2 / 3 * parts_s[1])
    assert found.index_of(4_100 * SECOND) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("ended_s", [4_600.0, 6_000.0, 7_600.0])
def test_live_jobs_near_the_end_of_a_class_have_outlived_those_that_ended_in_it(
    ended_s: float,
) -> None:
    """400 of 1000 ended, the others have come to just below the bound of the class, 8192: four in
    ten end before it, and not nearly six as if half of the live ones had never been at risk."""
    found = table([ended_s] * 400, [8_190.0] * 600)
    near = found.index_of(4_200 * SECOND)
    assert near == pytest.approx(0.4 / (0.4 * (ended_s - 4_096) + 0.6 * 4_096), rel=0.15)


def test_a_single_end_at_the_begin_of_a_class_is_no_reason_to_hope_for_the_next() -> None:
    """Horizons are classes: one early end does not make a short one look good."""
    many, one_early = table([6_000.0] * 60), table([6_000.0] * 60 + [4_100.0])
    assert one_early.index_of(4_096 * SECOND) == pytest.approx(
        many.index_of(4_096 * SECOND), rel=0.05
    )


@given(
    ended=st.lists(st.integers(0, 10**30), min_size=1, max_size=30),
    live=st.lists(st.integers(0, 10**30), max_size=30),
)
@example(ended=[10**30], live=[1])
def test_an_index_is_a_number_whatever_jobs_have_had(ended: list[int], live: list[int]) -> None:
    found = learned(ended, live, ends_min=1)
    assert found is not None
    assert all(0.0 <= index < 1.0 for index in found.indices)
    assert all(found.index_of(service) >= found.index_of(4 * 10**30) for service in live)
