"""The network model in runs: profiles, links shared between jobs, congestion, and what is told."""

from collections.abc import Mapping

import pytest

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.ids import GpuModel, LevelName
from scheduler.domain.instants import SECOND, Duration, Instant
from scheduler.domain.knobs import PolicyKnobs
from simulator.fabric import NetworkOptions, fabric_of
from simulator.loading import loaded
from simulator.network_speeds import NetworkSpeeds, network_of
from simulator.outcome import RunOutcome
from simulator.profiles import NOISE_STEPS, Profiles, ProfileView, noise_factor
from simulator.replay import Scenario, replay
from simulator.topology_file import LevelPlan, NodeGroup, Topology
from simulator.traces.job import TraceJob
from simulator.world import SimulatedJob

V100 = GpuModel("V100")
ALWAYS_SENDING = CommunicationProfile(gradient_bytes=10**10, compute_s=1e-6, overlap=0.0)
UNCONGESTED = NetworkOptions()
ONLY_COMPUTING = CommunicationProfile(gradient_bytes=0, compute_s=0.1)


def racks_of_two(*, oversubscription: float) -> Topology:
    """Three racks of two nodes with one GPU each."""
    rack = LevelPlan(name=LevelName("rack"), nodes=2, oversubscription=oversubscription)
    group = NodeGroup(count=6, gpus=1, gpu_model=V100)
    return Topology(name="racks", levels=(rack,), groups=(group,), fabric="v100-tcp")


def trace_job(number: int, *, work_s: int, gpus: int = 3) -> TraceJob:
    name = f"job-{number}"
    duration = Duration(work_s * SECOND)
    return TraceJob(row=number, name=name, arrival=Instant(0), duration=duration, gpus=gpus)


def run_of(
    profile: CommunicationProfile,
    works_s: list[int],
    topology: Topology,
    options: NetworkOptions = UNCONGESTED,
) -> RunOutcome:
    """Jobs of that profile, all there from the start, first come first served."""
    world = loaded([trace_job(n, work_s=w) for n, w in enumerate(works_s, start=1)], topology)
    fabric = fabric_of(topology, options)
    ideal = fabric_of(topology, NetworkOptions())
    nodes = topology.nodes()
    jobs = tuple(
        SimulatedJob(
            id=job.id,
            name=job.name,
            arrival=job.arrival,
            work=job.work,
            gpus=job.gpus,
            spec=job.spec,
            model="made-up",
            profile=profile,
        )
        for job in world.jobs
    )
    return replay(
        Scenario(
            jobs=jobs,
            levels=topology.domain_levels(),
            nodes=nodes,
            knobs=PolicyKnobs(policy="fifo"),
            speeds=lambda: NetworkSpeeds(network_of(fabric, ideal, nodes, V100)),
        )
    )


def ends_s(outcome: RunOutcome) -> list[float]:
    return [round(job.end / SECOND, 1) for job in outcome.jobs]


def test_a_job_alone_takes_the_time_its_profile_says() -> None:
    outcome = run_of(ALWAYS_SENDING, [100], racks_of_two(oversubscription=1))
    assert ends_s(outcome) == [100.0]
    assert outcome.jobs[0].exposed / SECOND == pytest.approx(100, abs=0.1)


def test_two_jobs_on_one_full_link_each_get_half_of_it() -> None:
    # Each of the two gangs of three has one worker in the rack in the middle, whose uplink
    # carries as much as one of them sends; nothing else is shared.
    outcome = run_of(ALWAYS_SENDING, [100, 100], racks_of_two(oversubscription=2))
    assert ends_s(outcome) == pytest.approx([200, 200], rel=0.01)


def test_a_job_speeds_up_when_the_other_one_on_its_link_ends() -> None:
    outcome = run_of(ALWAYS_SENDING, [100, 50], racks_of_two(oversubscription=2))
    # Both at half speed until the short one has done its 50 s; the long one has 50 s left then.
    assert ends_s(outcome) == pytest.approx([150, 100], abs=1)
    assert outcome.jobs[0].exposed / SECOND == pytest.approx(150, abs=1)


def test_a_link_with_room_for_both_slows_nobody() -> None:
    outcome = run_of(ALWAYS_SENDING, [100, 100], racks_of_two(oversubscription=1))
    assert ends_s(outcome) == pytest.approx([100, 100], abs=0.1)


def test_jobs_that_do_not_communicate_are_at_home_anywhere() -> None:
    topology = racks_of_two(oversubscription=8)
    outcome = run_of(ONLY_COMPUTING, [100, 100], topology, NetworkOptions(congestion=8))
    assert ends_s(outcome) == [100.0, 100.0]
    assert [job.exposed for job in outcome.jobs] == [0, 0]


def test_congestion_divides_what_leads_out_of_racks() -> None:
    # The uplink of two nodes, divided by eight, is a quarter of what one node sends.
    outcome = run_of(
        ALWAYS_SENDING, [100], racks_of_two(oversubscription=1), NetworkOptions(congestion=8)
    )
    assert ends_s(outcome) == pytest.approx([400], abs=4)


@pytest.mark.parametrize(
    ("gpus", "allowed"),
    [
        pytest.param(2, {"resnet50", "bert-base", "vgg16"}, id="small gangs: vision and speech"),
        pytest.param(64, {"bert-large", "mpt-1b", "mpt-350m"}, id="large gangs: language"),
    ],
)
def test_profiles_are_drawn_by_demand_and_seed(gpus: int, allowed: set[str]) -> None:
    drawn = models_of(seed=1, gpus=gpus)
    assert allowed <= set(drawn)
    assert drawn == models_of(seed=1, gpus=gpus)
    assert drawn != models_of(seed=2, gpus=gpus)


def models_of(*, seed: int, gpus: int) -> Mapping[str, int]:
    profiles = profiles_for(ProfileView.EXACT, seed=seed)
    counts: dict[str, int] = {}
    for number in range(200):
        model = profiles.model_of(trace_job(number, work_s=10, gpus=gpus))
        counts[model] = counts.get(model, 0) + 1
    return counts


def profiles_for(view: ProfileView, *, seed: int = 0) -> Profiles:
    group = NodeGroup(count=16, gpus=8, gpu_model=V100)
    rack = LevelPlan(name=LevelName("rack"), nodes=4, oversubscription=2)
    topology = Topology(name="t", levels=(rack,), groups=(group,), fabric="v100-tcp")
    return Profiles(fabric_of(topology, NetworkOptions()), V100, seed, view)


def test_a_noisy_view_is_off_by_the_factor_it_was_given() -> None:
    profiles = profiles_for(ProfileView.NOISY)
    true = profiles.sensitivity(profiles.true("vgg16"), 8).tiers[-1].step_slowdown - 1
    losses = set()
    for number in range(100):
        seen = profiles.seen(trace_job(number, work_s=10, gpus=8), "vgg16")
        losses.add(profiles.sensitivity(seen, 8).tiers[-1].step_slowdown - 1)
    factors = sorted(loss / true for loss in losses)
    expected = [noise_factor(step) for step in range(NOISE_STEPS)]
    assert factors == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("view", "slowdown"),
    [
        pytest.param(ProfileView.NONE, 1.0, id="none: distance costs nothing"),
        pytest.param(ProfileView.EXACT, 2.25, id="exact: what the job runs by"),
    ],
)
def test_a_policy_is_told_what_the_view_says(view: ProfileView, slowdown: float) -> None:
    profiles = profiles_for(view)
    seen = profiles.seen(trace_job(1, work_s=10, gpus=8), "vgg16")
    found = profiles.sensitivity(seen, 8)
    assert found.tiers[-1].step_slowdown == pytest.approx(slowdown, abs=0.02)
