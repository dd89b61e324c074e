"""The recorded traces are read whole, and say what their READMEs say."""

from pathlib import Path

import pytest

from scheduler.domain.instants import SECOND
from simulator.traces.formats import read_trace
from tests.not_run import not_run


@pytest.mark.parametrize(
    ("path", "format", "jobs", "dropped", "gpu_hours"),
    [
        pytest.param("philly/philly.csv", "philly", 82_247, {}, 978_078, id="philly"),
        pytest.param("microsoft-itp/cluster06.csv", "itp", 2_396, {}, 123_879, id="itp"),
        pytest.param("muri/trace3.csv", "muri", 992, {}, 116_690, id="muri"),
        pytest.param("tiresias/60_job.csv", "tiresias", 60, {}, 7, id="tiresias"),
        pytest.param(
            "chronus/trace_job_Philly_SLO.csv",
            "tiresias",
            30_735,
            {"NoGpus": 205},
            6_142,
            id="chronus",
        ),
        pytest.param(
            "elasticflow/philly_103959.csv", "tiresias", 876, {}, 42_816, id="elasticflow"
        ),
        pytest.param(
            "alibaba-openb/openb_pod_list_default.csv",
            "openb",
            6_203,
            {"NeverStarted": 861, "NoGpus": 1_088},
            59_612,
            id="openb",
        ),
        pytest.param(
            "gavel/physical_cluster/max_min_fairness.trace", "gavel", 96, {}, 379, id="gavel"
        ),
        pytest.param(
            "gavel/msr_seed0/ee9e8c.trace",
            "gavel-philly",
            1_978,
            {"CutOff": 1},
            351_424,
            id="gavel with a cut-off last line",
        ),
    ],
)
def test_a_recorded_file_is_read_whole(
    data_dir: Path, path: str, *, format: str, jobs: int, dropped: dict[str, int], gpu_hours: int
) -> None:
    file = data_dir / "traces" / path
    if not file.exists():
        not_run(f"no trace at {file}")
    trace = read_trace(file)
    assert (trace.format, len(trace.jobs), trace.dropped) == (format, jobs, dropped)
    assert round(sum(job.gpus * job.duration for job in trace.jobs) / 3600 / SECOND) == gpu_hours
    assert trace.jobs[0].arrival == 0
    assert list(trace.jobs) == sorted(trace.jobs, key=lambda job: (job.arrival, job.row))


def test_gavels_philly_jobs_get_back_the_run_time_they_were_made_from(data_dir: Path) -> None:
    """ElasticFlow's file has the same jobs of the same virtual cluster, with run times."""
    made = data_dir / "traces/gavel/msr_seed0/103959.trace"
    source = data_dir / "traces/elasticflow/philly_103959.csv"
    if not made.exists() or not source.exists():
        not_run("no Gavel or ElasticFlow trace")
    durations = {(job.arrival, job.gpus): job.duration for job in read_trace(source).jobs}
    pairs = [
        (job.duration, durations[job.arrival, job.gpus])
        for job in read_trace(made).jobs
        if (job.arrival, job.gpus) in durations
    ]
    close = sum(abs(ours - theirs) <= 2 * SECOND for ours, theirs in pairs)
    assert close / len(pairs) > 0.9
