"""Metrics on cases small enough to compute by hand."""

from collections.abc import Mapping

import pytest

from scheduler.domain.ids import JobId, LevelName
from scheduler.domain.instants import SECOND, Duration, Instant
from simulator.metrics import (
    finish_time_fairness,
    fragmentation,
    gain,
    held_share_by_tier,
    measured,
    percentile,
    utilisation,
)
from simulator.outcome import JobOutcome, RunOutcome, Step


def s(seconds: float) -> Duration:
    return Duration(round(seconds * SECOND))


def a_job(
    *,
    arrival: float = 0,
    start: float = 0,
    end: float = 10,
    gpus: int = 1,
    ideal: float | None = None,
    held: float | None = None,
    kept: float | None = None,
    lost: float = 0,
    exposed: float = 0,
    by_tier: Mapping[str, float] | None = None,
    preemptions: int = 0,
) -> JobOutcome:
    held = end - start if held is None else held
    return JobOutcome(
        id=JobId("j"),
        name="j",
        gpus=gpus,
        arrival=Instant(s(arrival)),
        first_start=Instant(s(start)),
        end=Instant(s(end)),
        ideal=s(end - start if ideal is None else ideal),
        held=s(held),
        kept=s(held - lost if kept is None else kept),
        lost=s(lost),
        exposed=s(exposed),
        held_by_tier={LevelName(tier): s(time) for tier, time in (by_tier or {}).items()},
        preemptions=preemptions,
    )


def a_step(
    at: float, *, held: int = 0, available: int = 4, asked: int = 0, smallest: int = 0
) -> Step:
    return Step(
        at=Instant(s(at)),
        gpus_held=held,
        gpus_available=available,
        gpus_asked=asked,
        jobs_waiting=1 if smallest else 0,
        smallest_waiting=smallest,
    )


def test_two_jobs_one_after_the_other_by_hand() -> None:
    """4 GPUs. One job of 4 runs 0..100; one of 2, there since 20, runs 100..150, restarts for 10
    (overhead), loses 5, and ends at 180."""
    run = RunOutcome(
        jobs=(
            a_job(arrival=0, start=0, end=100, gpus=4, exposed=20, by_tier={"rack": 100}),
            a_job(
                arrival=20,
                start=100,
                end=180,
                gpus=2,
                ideal=40,
                held=60,
                kept=45,
                lost=5,
                exposed=3,
                by_tier={"node": 60},
                preemptions=1,
            ),
        ),
        steps=(
            a_step(0, held=4, asked=4),
            a_step(20, held=4, asked=6, smallest=2),
            a_step(100, held=2, asked=2),
            a_step(150, held=0, asked=2, smallest=2),
            a_step(170, held=2, asked=2),
            a_step(180),
        ),
    )
    metrics = measured(run)
    assert metrics.makespan_s == 180
    assert metrics.jct_mean_s == (100 + 160) / 2
    assert (metrics.jct_p50_s, metrics.jct_p95_s, metrics.jct_p99_s) == (160, 160, 160)
    assert metrics.wait_mean_s == (0 + 80) / 2
    assert (metrics.queueing_mean_s, metrics.queueing_total_s) == (50, 100)
    assert metrics.exposed_communication_s == 23
    assert metrics.exposed_communication_gpu_s == 4 * 20 + 2 * 3
    assert metrics.slowdown_mean == (1 + 4) / 2
    assert metrics.goodput == pytest.approx((400 + 90) / (400 + 120))
    assert (metrics.lost_gpu_s, metrics.overhead_gpu_s) == (10, 20)
    assert metrics.held_share_by_tier == {"node": 120 / 520, "rack": 400 / 520}
    assert (metrics.preemptions, metrics.preemptions_per_job) == (1, 0.5)
    assert metrics.utilisation == pytest.approx((4 * 100 + 2 * 50 + 0 + 2 * 10) / (4 * 180))
    assert metrics.fragmentation == pytest.approx(20 / 180)


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        pytest.param(0, 1, id="smallest"),
        pytest.param(50, 3, id="the upper of two middle ones"),
        pytest.param(99, 4, id="largest of few"),
        pytest.param(100, 4, id="beyond the end"),
    ],
)
def test_a_percentile_is_the_value_at_the_floor_of_its_share(percent: float, expected: int) -> None:
    assert percentile([1, 2, 3, 4], percent) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(31, 100, 0.69, id="less is a gain"),
        pytest.param(150, 100, -0.5, id="more is a loss"),
        pytest.param(0, 0, 0, id="nothing against nothing"),
        pytest.param(1, 0, float("-inf"), id="something against nothing"),
    ],
)
def test_a_gain_is_one_minus_new_over_old(new: float, old: float, expected: float) -> None:
    assert gain(new=new, old=old) == pytest.approx(expected)


def test_utilisation_counts_only_gpus_of_nodes_that_work() -> None:
    steps = [a_step(0, held=4, available=8), a_step(10, held=4, available=4), a_step(20)]
    assert utilisation(steps) == pytest.approx(80 / 120)


def test_a_tier_counts_by_gpu_time() -> None:
    jobs = [a_job(gpus=1, by_tier={"node": 10}), a_job(gpus=8, by_tier={"node": 5, "rack": 5})]
    assert held_share_by_tier(jobs) == {"node": 50 / 90, "rack": 40 / 90}


def test_free_gpus_nobody_waiting_could_use_are_no_fragmentation() -> None:
    assert fragmentation([a_step(0, held=2, smallest=3), a_step(10)]) == 0
    assert fragmentation([a_step(0, held=2, smallest=2), a_step(10)]) == 0.5


def test_a_job_alone_in_an_idle_cluster_is_treated_fairly() -> None:
    steps = [a_step(0, held=1, asked=1), a_step(10)]
    assert finish_time_fairness([a_job()], steps) == [1]


def test_waiting_is_fair_as_far_as_others_ask_too() -> None:
    """Ideal 10, there for 20, while twice the cluster was asked for: its fair share exactly."""
    steps = [a_step(0, held=4, asked=8), a_step(20)]
    assert finish_time_fairness([a_job(start=10, end=20, gpus=4, ideal=10)], steps) == [1]


def test_contention_counts_only_within_the_life_of_the_job() -> None:
    steps = [a_step(0, asked=400), a_step(5, asked=4), a_step(25)]
    job = a_job(arrival=5, start=15, end=25, gpus=4)
    assert finish_time_fairness([job], steps) == [2]
