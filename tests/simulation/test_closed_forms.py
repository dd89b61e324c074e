"""Runs agree with queueing theory: waits of an M/M/c queue."""

from math import sqrt
from statistics import fmean, stdev

import pytest

from scheduler.domain.instants import SECOND
from simulator.outcome import RunOutcome
from simulator.replay import replay
from simulator.staging import RunOptions, staged
from simulator.topology_file import plain_topology
from simulator.traces.formats import Trace
from simulator.workload import Arrivals, Demand, Exponential, Mix, drawn_jobs

pytestmark = pytest.mark.slow

SERVERS = 8
MEAN_S = 100.0
SEEDS, JOBS, WARM_UP = 8, 1_200, 200
T_99 = 3.499
"""Student's t, 7 degrees of freedom, 99 % two-sided."""


def erlang_c(servers: int, offered: float) -> float:
    """Chance that a job has to wait."""
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def mean_wait_s(servers: int, load: float) -> float:
    """In an M/M/c queue."""
    offered = servers * load
    return erlang_c(servers, offered) * MEAN_S / (servers - offered)


def run_of(seed: int, load: float) -> RunOutcome:
    mix = Mix("exponential", (Demand(1, 1.0, Exponential(MEAN_S)),))
    jobs = drawn_jobs(mix, Arrivals.POISSON, jobs=JOBS, gpus=SERVERS, load=load, seed=seed)
    trace = Trace(source="M/M/c", format="none", jobs=jobs, dropped={}, changed={})
    topology = plain_topology(nodes=1, gpus_per_node=SERVERS)
    return replay(staged(trace, topology, RunOptions(policy="fifo", network=None)).scenario)


@pytest.mark.parametrize("load", [0.7, 0.85])
def test_mean_waits_are_those_of_an_mmc_queue(load: float) -> None:
    means = [
        fmean(job.wait / SECOND for job in run_of(seed, load).jobs[WARM_UP:])
        for seed in range(SEEDS)
    ]
    half = T_99 * stdev(means) / sqrt(SEEDS)
    assert abs(fmean(means) - mean_wait_s(SERVERS, load)) <= half
    assert half < mean_wait_s(SERVERS, load), "the interval is too wide to say anything"
