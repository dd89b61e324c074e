"""Promises of Dally that take days to show: nobody starves, and no study tells it lengths."""

import random

from scheduler.domain.ids import JobId
from scheduler.domain.instants import HOUR, SECOND, Duration, Instant
from scheduler.domain.knobs import PolicyKnobs
from simulator.outcome import RunOutcome
from simulator.replay import Scenario, replay
from simulator.staging import KNOW_LENGTHS
from simulator.world import SimulatedJob
from tests.builders import a_cluster, a_spec

CLUSTER = a_cluster("\n".join(f"r{rack}: 8 8" for rack in range(4)))
"""64 GPUs."""


def a_simulated(
    name: str, *, arrival_h: float, work_h: float, workers: int, gpus: int
) -> SimulatedJob:
    return SimulatedJob(
        id=JobId(f"id-{name}"),
        name=name,
        arrival=Instant(round(arrival_h * HOUR)),
        work=Duration(max(SECOND, round(work_h * HOUR))),
        gpus=workers * gpus,
        spec=a_spec(workers=workers, gpus=gpus),
    )


def run(jobs: list[SimulatedJob]) -> RunOutcome:
    jobs.sort(key=lambda job: (job.arrival, job.id))
    return replay(
        Scenario(
            jobs=tuple(jobs),
            levels=CLUSTER.levels,
            nodes=CLUSTER.nodes,
            knobs=PolicyKnobs(policy="dally"),
        )
    )


def a_stream(
    *, gpus: int, workers: int, load: float, hours: float, mean_h: float
) -> list[SimulatedJob]:
    """Poisson arrivals of equal gangs with exponential lengths."""
    rng, at = random.Random(1), 0.0
    jobs: list[SimulatedJob] = []
    rate = load * 64 / (gpus * workers * mean_h)
    while (at := at + rng.expovariate(rate)) < hours:
        length = min(3 * mean_h, rng.expovariate(1 / mean_h))
        jobs.append(
            a_simulated(f"s{len(jobs):04}", arrival_h=at, work_h=length, workers=workers, gpus=gpus)
        )
    return jobs


def test_t12_a_gang_of_the_whole_cluster_starts_a_day_and_one_length_later_at_most() -> None:
    stream = a_stream(gpus=1, workers=1, load=0.9, hours=40, mean_h=2)
    big = a_simulated("big", arrival_h=5, work_h=1, workers=8, gpus=8)
    outcome = run([*stream, big])
    waited = next(job.wait for job in outcome.jobs if job.name == "big")
    longest = max(job.work for job in stream)
    assert waited <= 24 * HOUR + longest


def test_t13_a_job_beside_a_stream_of_large_gangs_ends_in_bounded_time() -> None:
    stream = a_stream(gpus=8, workers=2, load=0.9, hours=60, mean_h=1)
    lone = a_simulated("lone", arrival_h=5, work_h=6, workers=1, gpus=8)
    outcome = run([*stream, lone])
    assert next(job.jct for job in outcome.jobs if job.name == "lone") <= 30 * HOUR


def test_t7_waits_and_runs_add_up_to_the_completion_time() -> None:
    outcome = run(a_stream(gpus=4, workers=3, load=1.1, hours=30, mean_h=1))
    for job in outcome.jobs:
        assert job.queueing + job.held == job.jct
        assert job.kept == job.ideal


def test_t15_only_the_variant_that_says_so_is_told_how_long_jobs_run() -> None:
    assert {name for name in KNOW_LENGTHS if name.startswith("dally")} <= {"dally-informed"}
