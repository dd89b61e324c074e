"""Trace summaries and the JSON lines a trace is converted to."""

from collections.abc import Iterable
from io import StringIO

import pytest

from scheduler.domain.instants import HOUR, SECOND, Duration, Instant
from simulator.traces import json_lines
from simulator.traces.inspecting import Demand, summarise
from simulator.traces.job import Changed, Dropped, Parsed, TraceJob


def a_trace_job(
    *, arrival: float = 0, duration: float = 60, gpus: int = 1, name: str = "j", row: int = 1
) -> TraceJob:
    return TraceJob(
        row=row,
        name=name,
        arrival=Instant(round(arrival * SECOND)),
        duration=Duration(round(duration * SECOND)),
        gpus=gpus,
    )


def test_a_summary_counts_jobs_gpu_time_and_load() -> None:
    rows: Iterable[Parsed] = [
        a_trace_job(arrival=0, duration=3600, gpus=8),
        Dropped(row=2, reason="NoGpus"),
        Changed(job=a_trace_job(arrival=1800, duration=3600, gpus=1), change="FractionRoundedUp"),
        a_trace_job(arrival=7200, duration=1800, gpus=8),
    ]
    summary = summarise(rows)
    assert summary.jobs == 3
    assert (summary.dropped, summary.changed) == ({"NoGpus": 1}, {"FractionRoundedUp": 1})
    assert summary.gpu_hours == 8 + 1 + 4
    assert summary.busy_gpus_mean == 6.5
    assert summary.load_on(13) == 0.5
    assert summary.busy_gpus_peak == 9
    assert summary.duration_quantiles_s[0.5] == 3600
    assert summary.demands == (
        Demand(gpus=1, jobs=1, gpu_hours=1, duration_p50_s=3600),
        Demand(gpus=8, jobs=2, gpu_hours=12, duration_p50_s=3600),
    )


def test_a_job_that_ends_frees_its_gpus_before_another_takes_them() -> None:
    back_to_back = [
        a_trace_job(arrival=0, duration=10, gpus=4),
        a_trace_job(arrival=10, duration=10, gpus=4),
    ]
    assert summarise(back_to_back).busy_gpus_peak == 4


def test_jobs_that_all_arrive_at_once_have_no_load() -> None:
    assert summarise([a_trace_job(), a_trace_job()]).load_on(8) == 0


def test_even_gaps_have_no_variation() -> None:
    assert summarise([a_trace_job(arrival=at) for at in (0, 5, 10)]).gap_cv == 0


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_trace_job(), id="plain"),
        pytest.param(a_trace_job(arrival=1.5, duration=0.000001), id="parts of a second"),
        pytest.param(
            TraceJob(
                row=1,
                name="full",
                arrival=Instant(3),
                duration=HOUR,
                gpus=16,
                workers=2,
                model="bert",
                user="u",
                queue="q",
                status="Pass",
                iterations=9,
                gpu_models=("V100", "T4"),
                deadline=HOUR,
            ),
            id="every field",
        ),
    ],
)
def test_a_converted_job_reads_back_the_same(job: TraceJob) -> None:
    assert list(json_lines.parse(StringIO(json_lines.written(job)), "t")) == [job]
