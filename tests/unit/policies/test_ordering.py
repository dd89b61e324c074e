"""Classes of attained service and the Gittins index."""

import pytest

from scheduler.domain.instants import SECOND
from scheduler.policies.ordering import (
    ENDS_LEAST,
    GITTINS_CLASSES,
    LAS_CLASSES,
    GittinsTable,
    ServiceClasses,
    learned,
)

TIRESIAS = ServiceClasses((3_250 * SECOND, 7_200 * SECOND))


def table(ended: list[float], live: list[float] | None = None) -> GittinsTable:
    """A table learned from services in GPU-seconds."""
    found = learned([round(s * SECOND) for s in ended], [round(s * SECOND) for s in live or []])
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


def test_too_few_ends_teach_nothing() -> None:
    assert learned([SECOND] * (ENDS_LEAST - 1), []) is None


def test_equal_jobs_gain_index_as_they_near_their_common_end() -> None:
    """All end in class 4 (512 to 1024 GPU-seconds): the further a job is, the sooner it ends."""
    indices = table([700] * 60).indices
    assert list(indices) == sorted(indices)
    # From the start: sure to end within 512 + half of the last 512 GPU-seconds.
    assert indices[0] == pytest.approx(1 / (512 + 256))


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


def test_beyond_the_longest_job_seen_the_index_halves_with_each_class() -> None:
    """As if ends grew rarer as 1 / service: who has outlived all that is known goes last."""
    found = table([50.0] * 50 + [8_100.0] * 50)
    last = len(found.indices) - 1
    bounds = [GITTINS_CLASSES.upper_bound(last + beyond) for beyond in range(-1, 4)]
    known, *others = (found.index_of(bound) for bound in bounds if bound is not None)
    assert known == found.indices[-1]
    assert others == [known / 2, known / 4, known / 8, known / 16]
