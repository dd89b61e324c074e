"""The naive simulator prints the digits of other simulators, so that it may judge ours."""

from pathlib import Path

import pytest

from bench.reference_simulator import (
    Counter,
    EightANode,
    Pool,
    ReferenceJob,
    policy_named,
    simulate,
)
from scheduler.domain.instants import SECOND
from simulator.traces.formats import read_trace
from tests.not_run import not_run
from tests.simulation.reference_tables import ROWS, ReferenceRow


def pool_of(row: ReferenceRow) -> Pool:
    return Counter(row.gpus) if row.allocation == "counter" else EightANode(row.gpus // 8)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_reference_meets_the_published_digits(data_dir: Path, row: ReferenceRow) -> None:
    file = data_dir / "traces" / row.trace
    if not file.exists():
        not_run(f"no trace at {file}")
    jobs = [
        ReferenceJob(job.arrival // SECOND, job.duration // SECOND, job.gpus)
        for job in read_trace(file).jobs
    ]
    run = simulate(jobs, pool_of(row), policy_named(row.reference_policy))
    assert f"{run.jct_mean():.2f}" == row.jct_mean_s
    assert run.makespan() == row.makespan_s
    assert run.jct_percentile(99) == row.jct_p99_s
    assert run.preemptions == row.preemptions
    if row.queue_mean_s is not None:
        assert run.jct_percentile(50) == row.jct_p50_s
        assert f"{run.queue_mean():.2f}" == row.queue_mean_s
