"""Synthetic workloads: seeds, loads, mixes."""

from statistics import fmean, pstdev

import pytest

from scheduler.domain.instants import DAY, SECOND, Duration, Instant
from simulator.errors import OptionError
from simulator.traces.inspecting import summarise
from simulator.traces.job import TraceJob
from simulator.workload import (
    PHILLY_MIX,
    Arrivals,
    Demand,
    Exponential,
    Mix,
    as_batch,
    at_load,
    drawn_jobs,
    fitted_to,
    load_of,
)


def drawn(arrivals: Arrivals, *, seed: int = 1, load: float = 0.8) -> tuple[TraceJob, ...]:
    return drawn_jobs(PHILLY_MIX, arrivals, jobs=2_000, gpus=512, load=load, seed=seed)


@pytest.mark.parametrize("arrivals", list(Arrivals))
def test_equal_seeds_draw_equal_jobs(arrivals: Arrivals) -> None:
    assert drawn(arrivals) == drawn(arrivals)
    assert drawn(arrivals) != drawn(arrivals, seed=2)


@pytest.mark.parametrize("arrivals", list(Arrivals))
def test_jobs_come_by_arrival_the_first_at_zero(arrivals: Arrivals) -> None:
    instants = [job.arrival for job in drawn(arrivals)]
    assert instants == sorted(instants)
    assert instants[0] == 0


@pytest.mark.parametrize(
    ("arrivals", "least", "most"),
    [
        pytest.param(Arrivals.POISSON, 0.9, 1.1, id="poisson"),
        pytest.param(Arrivals.DIURNAL, 0.9, 1.5, id="diurnal"),
        pytest.param(Arrivals.BURSTY, 2, 20, id="bursty"),
    ],
)
def test_streams_differ_in_how_even_they_are(arrivals: Arrivals, least: float, most: float) -> None:
    assert least < summarise(drawn(arrivals)).gap_cv < most


def test_a_diurnal_stream_has_its_peak_in_the_first_half_of_the_day() -> None:
    jobs = drawn_jobs(PHILLY_MIX, Arrivals.DIURNAL, jobs=5_000, gpus=64, load=0.8, seed=1)
    early = sum(job.arrival % DAY < DAY // 2 for job in jobs)
    assert 0.6 < early / len(jobs) < 0.9


@pytest.mark.parametrize("load", [0.3, 0.8, 1.1])
def test_a_poisson_stream_has_about_the_load_that_was_asked_for(load: float) -> None:
    assert load_of(drawn(Arrivals.POISSON, load=load), gpus=512) == pytest.approx(load, rel=0.1)


def test_a_trace_is_stretched_to_exactly_a_load() -> None:
    stretched = at_load(drawn(Arrivals.BURSTY), gpus=512, load=0.6)
    assert load_of(stretched, gpus=512) == pytest.approx(0.6, rel=1e-6)


def test_a_batch_has_no_load_to_set() -> None:
    with pytest.raises(OptionError, match="arrive at once"):
        at_load(drawn(Arrivals.BATCH), gpus=512, load=0.6)


@pytest.mark.parametrize(
    ("jobs", "load"), [pytest.param(0, 1.0, id="no jobs"), pytest.param(5, 0.0, id="no load")]
)
def test_a_workload_without_work_is_refused(jobs: int, load: float) -> None:
    with pytest.raises(OptionError):
        drawn_jobs(PHILLY_MIX, Arrivals.POISSON, jobs=jobs, gpus=8, load=load, seed=1)


def test_a_fitted_mix_draws_jobs_like_those_it_was_fitted_to() -> None:
    original = drawn(Arrivals.POISSON)
    again = drawn_jobs(
        fitted_to(original, source="t"), Arrivals.POISSON, jobs=2_000, gpus=512, load=0.8, seed=9
    )
    before, after = summarise(original), summarise(again)
    assert after.duration_quantiles_s[0.5] == pytest.approx(
        before.duration_quantiles_s[0.5], rel=0.15
    )
    shares = [
        {demand.gpus: demand.jobs / summary.jobs for demand in summary.demands}
        for summary in (before, after)
    ]
    assert shares[1][1] == pytest.approx(shares[0][1], abs=0.02)


def test_a_fit_leaves_out_demands_of_too_few_jobs() -> None:
    jobs = [
        TraceJob(row=1, name="a", arrival=Instant(0), duration=Duration(SECOND), gpus=gpus)
        for gpus in (1, 1, 64)
    ]
    assert [demand.gpus for demand in fitted_to(jobs, source="t", jobs_least=2).demands] == [1]


def test_exponential_run_times_have_their_mean_as_deviation() -> None:
    mix = Mix("t", (Demand(1, 1, Exponential(100)),))
    jobs = drawn_jobs(mix, Arrivals.POISSON, jobs=20_000, gpus=8, load=0.5, seed=3)
    seconds = [job.duration / SECOND for job in jobs]
    assert fmean(seconds) == pytest.approx(100, rel=0.03)
    assert pstdev(seconds) == pytest.approx(100, rel=0.05)


def test_a_batch_of_a_trace_keeps_its_order_and_drops_its_times() -> None:
    jobs = drawn(Arrivals.POISSON)
    batch = as_batch(jobs, count=600, seed=4)
    assert len(batch) == 600
    assert {job.arrival for job in batch} == {0}
    assert [job.row for job in batch] == sorted(job.row for job in batch)
