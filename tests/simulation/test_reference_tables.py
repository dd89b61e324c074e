"""Our simulator meets the digits of other simulators, network model and costs off."""

from pathlib import Path

import pytest

from simulator.loading import Allocation
from simulator.metrics import Metrics, measured
from simulator.replay import replay
from simulator.staging import RunOptions, staged
from simulator.topology_file import plain_topology
from simulator.traces.formats import read_trace
from tests.not_run import not_run
from tests.simulation.reference_tables import ROWS, ReferenceRow

pytestmark = pytest.mark.slow


def metrics_of(row: ReferenceRow, file: Path) -> Metrics:
    topology = plain_topology(nodes=row.gpus // 8, gpus_per_node=8)
    options = RunOptions(policy=row.policy, network=None, allocation=Allocation(row.allocation))
    return measured(replay(staged(read_trace(file), topology, options).scenario))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_simulator_meets_the_published_digits(data_dir: Path, row: ReferenceRow) -> None:
    file = data_dir / "traces" / row.trace
    if not file.exists():
        not_run(f"no trace at {file}")
    metrics = metrics_of(row, file)
    assert f"{metrics.jct_mean_s:.2f}" == row.jct_mean_s
    assert metrics.makespan_s == row.makespan_s
    assert metrics.jct_p99_s == row.jct_p99_s
    assert metrics.preemptions == row.preemptions
    if row.queue_mean_s is not None:
        assert metrics.jct_p50_s == row.jct_p50_s
        assert f"{metrics.queueing_mean_s:.2f}" == row.queue_mean_s
