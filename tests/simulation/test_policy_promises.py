"""Promises of policies that take days to show: nobody starves, gangs do not stop each other in
turns, no study tells lengths; and what is published of the baselines.
"""

import random
from itertools import pairwise

import pytest

from scheduler.domain.ids import JobId
from scheduler.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from scheduler.domain.job import CheckpointRequest
from scheduler.domain.knobs import PolicyKnobs
from scheduler.policies.ordering import GITTINS_CLASSES
from scheduler.policies.registry import POLICIES
from simulator.outcome import RunOutcome
from simulator.replay import Scenario, replay
from simulator.staging import KNOW_LENGTHS, RunOptions, staged
from simulator.topology_file import plain_topology
from simulator.traces.formats import Trace
from simulator.traces.job import TraceJob
from simulator.world import NO_COSTS, Costs, SimulatedJob
from tests.builders import APicture, a_cluster, a_spec

CLUSTER = a_cluster("\n".join(f"r{rack}: 8 8" for rack in range(4)))
"""64 GPUs."""


STANDS_STOPS = CheckpointRequest(
    path="/c", every=Duration(10 * MINUTE), restart_cost=Duration(30 * SECOND), is_declared=True
)

ORDER_STOPS = pytest.mark.parametrize(
    "knobs",
    [
        pytest.param(PolicyKnobs(policy="dally", order_stops=stops), id=f"order stops {stops}")
        for stops in (False, True)
    ],
)


def a_simulated(
    name: str, *, arrival_h: float, work_h: float, workers: int, gpus: int
) -> SimulatedJob:
    return SimulatedJob(
        id=JobId(f"id-{name}"),
        name=name,
        arrival=Instant(round(arrival_h * HOUR)),
        work=Duration(max(SECOND, round(work_h * HOUR))),
        gpus=workers * gpus,
        spec=a_spec(workers=workers, gpus=gpus, checkpoint=STANDS_STOPS),
    )


def run(
    jobs: list[SimulatedJob],
    knobs: PolicyKnobs | None = None,
    *,
    cluster: APicture = CLUSTER,
    costs: Costs = NO_COSTS,
) -> RunOutcome:
    jobs.sort(key=lambda job: (job.arrival, job.id))
    return replay(
        Scenario(
            jobs=tuple(jobs),
            levels=cluster.levels,
            nodes=cluster.nodes,
            knobs=knobs or PolicyKnobs(policy="dally"),
            costs=costs,
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


@ORDER_STOPS
def test_t12_a_gang_of_the_whole_cluster_starts_a_day_and_one_length_later_at_most(
    knobs: PolicyKnobs,
) -> None:
    stream = a_stream(gpus=1, workers=1, load=0.9, hours=40, mean_h=2)
    big = a_simulated("big", arrival_h=5, work_h=1, workers=8, gpus=8)
    outcome = run([*stream, big], knobs)
    waited = next(job.wait for job in outcome.jobs if job.name == "big")
    longest = max(job.work for job in stream)
    assert waited <= 24 * HOUR + longest
    assert any(job.preemptions for job in outcome.jobs) == knobs.order_stops


@ORDER_STOPS
def test_t13_a_job_beside_a_stream_of_large_gangs_ends_in_bounded_time(knobs: PolicyKnobs) -> None:
    stream = a_stream(gpus=8, workers=2, load=0.9, hours=60, mean_h=1)
    lone = a_simulated("lone", arrival_h=5, work_h=6, workers=1, gpus=8)
    outcome = run([*stream, lone], knobs)
    assert next(job.jct for job in outcome.jobs if job.name == "lone") <= 30 * HOUR
    assert any(job.preemptions for job in outcome.jobs) == knobs.order_stops


@pytest.mark.parametrize("work_h", [20, 200])
def test_t6_long_jobs_share_a_node_by_turns_that_grow_with_what_they_have_had(
    work_h: float,
) -> None:
    short = [alone(f"s{n}", arrival_h=n / 5, work_h=0.1) for n in range(5)]
    both = [alone(f"long{n}", arrival_h=2 + n, work_h=work_h) for n in range(2)]
    knobs = PolicyKnobs(policy="dally", order_stops=True)
    outcome = run([*short, *both], knobs, cluster=ONE_NODE, costs=Costs())
    for job in outcome.jobs[-2:]:
        classes = GITTINS_CLASSES.class_of(job.gpus * job.held)
        # A job gives way at most once in a class of service, and classes double.
        assert 1 <= job.preemptions <= classes


def test_t7_waits_and_runs_add_up_to_the_completion_time() -> None:
    outcome = run(a_stream(gpus=4, workers=3, load=1.1, hours=30, mean_h=1))
    for job in outcome.jobs:
        assert job.queueing + job.held == job.jct
        assert job.kept == job.ideal


@pytest.mark.parametrize("policy", ["dally", "gittins-nowait", "tiresias"])
def test_t7_gpus_are_conserved_and_progress_adds_up_to_the_work(policy: str) -> None:
    stream = a_stream(gpus=4, workers=3, load=1.1, hours=4, mean_h=0.5)
    costs = Costs(checkpoint_every=Duration(300 * SECOND))
    outcome = run(stream, PolicyKnobs(policy=policy), costs=costs)
    held = 0
    for step, following in pairwise(outcome.steps):
        assert 0 <= step.gpus_held <= step.gpus_available
        held += step.gpus_held * (following.at - step.at)
    assert held == sum(job.gpus * job.held for job in outcome.jobs)
    for job in outcome.jobs:
        # Nothing that was done and kept is ever done again, and nothing is left out.
        assert job.kept == job.ideal
        assert job.kept + job.lost <= job.held <= job.jct


def test_t15_only_the_variant_that_says_so_is_told_how_long_jobs_run() -> None:
    assert {name for name in KNOW_LENGTHS if name.startswith("dally")} <= {"dally-informed"}


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - set(KNOW_LENGTHS)))
def test_t15_the_view_of_a_policy_in_a_study_has_no_duration(policy: str) -> None:
    jobs = tuple(
        TraceJob(
            row=n,
            name=f"t{n}",
            arrival=Instant(n),
            duration=Duration((n + 1) * HOUR),
            gpus=8,
            iterations=1_000,
        )
        for n in range(3)
    )
    trace = Trace(source="made up", format="none", jobs=jobs, dropped={}, changed={})
    topology = plain_topology(nodes=4, gpus_per_node=8, racks=2)
    found = staged(trace, topology, RunOptions(policy=policy)).scenario
    assert not found.tells_lengths
    for job in found.jobs:
        assert job.spec.iterations is None
        assert job.spec.run_time_max is None


# What is published of the baselines.

ONE_NODE = a_cluster("r1: 8")


def alone(name: str, *, arrival_h: float, work_h: float) -> SimulatedJob:
    """A job of the whole node."""
    return a_simulated(name, arrival_h=arrival_h, work_h=work_h, workers=1, gpus=8)


def test_under_gandiva_two_jobs_share_a_node_by_minutes() -> None:
    jobs = [alone("a", arrival_h=0, work_h=0.5), alone("b", arrival_h=0.001, work_h=0.5)]
    first, second = run(jobs, PolicyKnobs(policy="gandiva"), cluster=ONE_NODE).jobs
    assert second.wait <= 2 * MINUTE
    # Each has half of the time: both end when all is done, a slice or two apart.
    assert abs(second.end - first.end) <= 2 * MINUTE
    assert min(first.preemptions, second.preemptions) >= 12


def test_under_themis_equal_jobs_end_together_in_turns_of_a_lease() -> None:
    jobs = [alone(name, arrival_h=n / 1_000, work_h=2) for n, name in enumerate("abc")]
    outcome = run(jobs, PolicyKnobs(policy="themis"), cluster=ONE_NODE)
    ends = sorted(job.end for job in outcome.jobs)
    assert ends[-1] - ends[0] <= 2 * HOUR
    assert max(job.wait for job in outcome.jobs) <= HOUR
    # A lease of 20 minutes: nobody is stopped more often than it had leases.
    assert all(1 <= job.preemptions <= 6 for job in outcome.jobs)


def test_under_tiresias_a_short_job_does_not_wait_for_a_long_one() -> None:
    jobs = [alone("long", arrival_h=0, work_h=9), alone("short", arrival_h=1, work_h=0.1)]
    long, short = run(jobs, PolicyKnobs(policy="tiresias"), cluster=ONE_NODE).jobs
    assert short.jct == short.ideal
    assert long.preemptions == 1


def stops_of_a_long_job(promote_after: float) -> int:
    """How often it is stopped beside a stream of short jobs that take all there is."""
    stream = [alone(f"s{n:03}", arrival_h=0.25 + n / 10, work_h=0.1) for n in range(60)]
    knobs = PolicyKnobs(policy="tiresias", promote_after=promote_after)
    outcome = run([alone("long", arrival_h=0, work_h=4), *stream], knobs, cluster=ONE_NODE)
    return next(job.preemptions for job in outcome.jobs if job.name == "long")


def test_under_tiresias_a_job_that_starves_comes_back_into_the_first_queue() -> None:
    assert stops_of_a_long_job(0.0) == 1
    assert stops_of_a_long_job(4.0) > 1


def test_under_tiresias_gittins_promoted_jobs_do_not_stop_each_other_every_minute() -> None:
    """All are promoted together, and have no checkpoint before ten minutes have gone."""
    one_gpu = a_cluster("r1: 1")
    early = [
        a_simulated(f"early-{n}", arrival_h=n / 5, work_h=0.1, workers=1, gpus=1) for n in range(5)
    ]
    crowd = [
        a_simulated(f"late-{n}", arrival_h=2 + n / 1000, work_h=1, workers=1, gpus=1)
        for n in range(9)
    ]
    knobs = PolicyKnobs(policy="tiresias-gittins")
    outcome = run([*early, *crowd], knobs, cluster=one_gpu, costs=Costs())
    assert max(job.preemptions for job in outcome.jobs) <= 3
    assert max(job.end for job in outcome.jobs) <= 14 * HOUR
