"""Who holds a domain has others stopped for it a bounded number of times, and starts.

Whole runs in which nodes fail while gangs are being stopped, drawn from seeds.
"""

import random
from collections.abc import Mapping

import pytest

from scheduler.domain.ids import JobId
from scheduler.domain.instants import HOUR, MINUTE, Duration, Instant, seconds
from scheduler.domain.job import CheckpointRequest
from scheduler.domain.knobs import JobOrder, PolicyKnobs
from simulator.faults import NO_FAULTS, FaultOptions
from simulator.outcome import JobOutcome
from simulator.replay import Scenario, replay
from simulator.world import Costs, SimulatedJob
from tests.builders import a_cluster, a_spec
from tests.proof import times

SEEDS = times(ci=1, proof=200)
CLUSTER = a_cluster("\n".join(f"r{rack}: 8 8" for rack in range(4)))
GPUS = 64
HOLD_AFTER = Duration(HOUR)
SAVING = Duration(MINUTE)
"""So long a gang that is stopped still holds its GPUs."""

START_UP, RESTART = seconds(5), seconds(1)
LARGE = ("whole", "half")

KNOBS = PolicyKnobs(
    policy="dally",
    order=JobOrder.LAS,
    order_stops=True,
    hold_after=HOLD_AFTER,
    restart_cost=RESTART,
    evictions_per_hour=100,
    lost_share_max=0.9,
)
"""No job of the stream leaves the first class, so the order itself stops nobody."""

SAVES = CheckpointRequest(
    path="/c", every=seconds(600), warning=SAVING, restart_cost=RESTART, is_declared=True
)


def a_simulated(name: str, *, arrival: float, work: float, workers: int, gpus: int) -> SimulatedJob:
    """Times in microseconds."""
    return SimulatedJob(
        id=JobId(f"id-{name}"),
        name=name,
        arrival=Instant(round(arrival)),
        work=Duration(round(work)),
        gpus=workers * gpus,
        spec=a_spec(workers=workers, gpus=gpus, checkpoint=SAVES),
    )


def the_jobs(rng: random.Random) -> list[SimulatedJob]:
    """A stream of jobs of one GPU that asks for more than there is, and two large gangs in it."""
    jobs = [
        a_simulated("whole", arrival=0.1 * HOUR, work=HOUR, workers=8, gpus=8),
        a_simulated("half", arrival=0.2 * HOUR, work=HOUR, workers=4, gpus=8),
    ]
    arrival = 0.0
    while (arrival := arrival + rng.expovariate(1.2 * GPUS / (0.5 * HOUR))) < 3 * HOUR:
        work = rng.uniform(0.2, 0.8) * HOUR
        jobs.append(a_simulated(f"s{len(jobs):04}", arrival=arrival, work=work, workers=1, gpus=1))
    return sorted(jobs, key=lambda job: (job.arrival, job.id))


def run(seed: int, faults: FaultOptions) -> dict[str, JobOutcome]:
    """What became of the jobs, by name."""
    costs = Costs(start_up=START_UP, restore=START_UP, save=SAVING, saves_when_told=True)
    outcome = replay(
        Scenario(
            jobs=tuple(the_jobs(random.Random(seed))),
            levels=CLUSTER.levels,
            nodes=CLUSTER.nodes,
            knobs=KNOBS,
            seed=seed,
            costs=costs,
            faults=faults,
        )
    )
    return {job.name: job for job in outcome.jobs}


def stops_of_small_ones(jobs: Mapping[str, JobOutcome]) -> int:
    """How often jobs of the stream were stopped: for holders alone, as they all stay in one class.

    The gangs themselves leave it within two minutes, and may be stopped for the others.
    """
    return sum(job.preemptions for name, job in jobs.items() if name not in LARGE)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(SEEDS))
def test_gangs_are_stopped_once_for_a_holder_and_it_starts_where_they_were(seed: int) -> None:
    jobs = run(seed, NO_FAULTS)
    # Who has just started runs for ten restarts first.
    soon = Duration(HOLD_AFTER + SAVING + 10 * RESTART + START_UP)
    assert HOLD_AFTER < jobs["whole"].wait <= soon
    assert 0 < stops_of_small_ones(jobs) <= GPUS


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nodes_that_fail_while_room_is_made_cost_no_stops_without_end(seed: int) -> None:
    jobs = run(seed, FaultOptions(node_mtbf=Duration(6 * HOUR), repair_mean=Duration(15 * MINUTE)))
    assert jobs["whole"].wait <= HOLD_AFTER + 2 * HOUR
    assert 0 < stops_of_small_ones(jobs) <= 2 * GPUS
