"""Our simulator meets the digits of other simulators, network model and costs off."""

from pathlib import Path

import pytest

from scheduler.domain.knobs import PolicyKnobs
from simulator.commands.run import KNOW_LENGTHS
from simulator.loading import Allocation, loaded
from simulator.metrics import Metrics, measured
from simulator.replay import Scenario, replay
from simulator.topology_file import plain_topology
from simulator.traces.formats import read_trace
from tests.not_run import not_run
from tests.simulation.reference_tables import ROWS, ReferenceRow

ROWS_DONE = [row for row in ROWS if row.allocation == "counter"]
"""`--allocation eight-a-node` is refused so far."""

pytestmark = pytest.mark.slow


def metrics_of(row: ReferenceRow, file: Path) -> Metrics:
    topology = plain_topology(nodes=row.gpus // 8, gpus_per_node=8)
    world = loaded(read_trace(file).jobs, topology, allocation=Allocation(row.allocation))
    scenario = Scenario(
        jobs=world.jobs,
        levels=world.topology.domain_levels(),
        nodes=world.topology.nodes(),
        knobs=PolicyKnobs(policy=row.policy),
        tells_lengths=row.policy in KNOW_LENGTHS,
    )
    return measured(replay(scenario))


@pytest.mark.parametrize("row", ROWS_DONE, ids=lambda row: row.id)
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
