"""Our simulator and the naive one agree on random small worlds, start by start and end by end."""

from random import Random

import pytest

from bench.reference_simulator import (
    Counter,
    EightANode,
    ReferenceJob,
    ReferenceRun,
    policy_named,
    simulate,
)
from scheduler.domain.instants import SECOND, Duration, Instant
from simulator.loading import Allocation
from simulator.outcome import RunOutcome
from simulator.replay import replay
from simulator.staging import RunOptions, staged
from simulator.topology_file import plain_topology
from simulator.traces.formats import Trace
from simulator.traces.job import TraceJob
from tests.proof import times

SEEDS = times(ci=40, proof=500)
NODES_MAX, GPUS_PER_NODE, JOBS_MAX = 4, 8, 14

OURS = {
    "fifo": "fifo",
    "fjf": "nowait",
    "sjf": "sjf",
    "srtf": "srtf",
    "srsf": "srsf",
    "2d-las": "las-exact",
}
KEEP_THEIR_NODES = ("fifo", "fjf")
"""The naive simulator lets stopped gangs move for nothing: only these are alike on nodes."""


def a_world(seed: int) -> tuple[str, Allocation, int, list[ReferenceJob]]:
    rng = Random(seed)
    nodes = rng.randint(1, NODES_MAX)
    is_counter = rng.random() < 0.6
    policy = rng.choice(sorted(OURS) if is_counter else KEEP_THEIR_NODES)
    demands = [g for g in (1, 1, 2, 3, 4, 5, 8, 11, 16, 20, 24) if g <= nodes * GPUS_PER_NODE]
    now = 0
    jobs = []
    for _ in range(rng.randint(1, JOBS_MAX)):
        now += rng.choice((0, 0, 1, 50, 400))
        length = rng.choice((1, 7, 100, 333, 1_000, 5_000))
        jobs.append(ReferenceJob(now, length * rng.randint(1, 3), rng.choice(demands)))
    first = jobs[0].arrival
    jobs = [ReferenceJob(j.arrival - first, j.duration, j.gpus) for j in jobs]
    allocation = Allocation.COUNTER if is_counter else Allocation.EIGHT_A_NODE
    return policy, allocation, nodes, jobs


def ours(policy: str, allocation: Allocation, nodes: int, jobs: list[ReferenceJob]) -> RunOutcome:
    trace = Trace(
        source="drawn",
        format="none",
        jobs=tuple(
            TraceJob(
                row=row,
                name=f"job-{row}",
                arrival=Instant(job.arrival * SECOND),
                duration=Duration(job.duration * SECOND),
                gpus=job.gpus,
            )
            for row, job in enumerate(jobs, start=1)
        ),
        dropped={},
        changed={},
    )
    topology = plain_topology(nodes=nodes, gpus_per_node=GPUS_PER_NODE)
    options = RunOptions(policy=OURS[policy], network=None, allocation=allocation)
    return replay(staged(trace, topology, options).scenario)


def theirs(
    policy: str, allocation: Allocation, nodes: int, jobs: list[ReferenceJob]
) -> ReferenceRun:
    is_counter = allocation is Allocation.COUNTER
    pool = Counter(nodes * GPUS_PER_NODE) if is_counter else EightANode(nodes)
    return simulate(jobs, pool, policy_named(policy))


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(SEEDS))
def test_both_simulators_start_and_end_every_job_at_the_same_instants(seed: int) -> None:
    world = a_world(seed)
    mine, naive = ours(*world), theirs(*world)
    message = f"reproduce with seed={seed}: {world}"
    assert [job.first_start // SECOND for job in mine.jobs] == naive.first_starts, message
    assert [job.end // SECOND for job in mine.jobs] == naive.ends, message
    assert sum(job.preemptions for job in mine.jobs) == naive.preemptions, message
