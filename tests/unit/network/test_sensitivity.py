"""What distance costs a job: tiers, bandwidth wanted, elasticity, and measured corrections."""

from dataclasses import replace
from math import inf, nan
from random import Random

import pytest

from scheduler.domain.communication import CommunicationProfile, Strategy
from scheduler.domain.ids import GpuModel, LevelName
from scheduler.domain.step_times import LearnedStepTimes
from scheduler.network.corrections import STREAK_MAX, corrected_s, observed
from scheduler.network.iteration import TIE_GAP, is_tie, iteration_time, workload_time
from scheduler.network.sensitivity import (
    INSENSITIVE_SHARE,
    GangShape,
    SensitivityTable,
    elasticity,
    sensitivity,
    with_measured,
)
from scheduler.network.strategies import step_parts
from scheduler.network.transfer import ALONE
from scheduler.network.workload import Source, Workload
from tests.unit.network.toys import a_fabric, a_shape, a_workload

NODE, RACK, CLUSTER = LevelName("node"), LevelName("rack"), LevelName("cluster")


def test_tiers_are_those_the_gang_can_reach() -> None:
    found = sensitivity(a_workload(), GangShape(ranks=8), a_fabric())
    assert [tier.level for tier in found.tiers] == [RACK, CLUSTER]
    found = sensitivity(a_workload(), GangShape(ranks=4), a_fabric())
    assert [tier.level for tier in found.tiers] == [NODE, RACK, CLUSTER]
    assert sensitivity(a_workload(), GangShape(ranks=4096), a_fabric()).tiers == ()


def test_a_gang_that_needs_every_node_reaches_unequal_racks() -> None:
    # Racks of 4, 4 and 2 nodes: the largest says how many nodes a rack has.
    racks = replace(a_fabric().levels[1], nodes=10)
    fabric = replace(a_fabric(), levels=(a_fabric().levels[0], racks))
    (tier,) = sensitivity(a_workload(), GangShape(ranks=40), fabric).tiers
    assert (tier.level, tier.shape.nodes, len(tier.shape.ranks_by_level[1])) == (CLUSTER, 10, 3)


def test_a_job_that_neither_computes_nor_sends_loses_nothing() -> None:
    idle = a_workload(compute_s=0.0, gradient_bytes=0.0)
    found = sensitivity(idle, GangShape(ranks=4), a_fabric())
    assert {tier.step_slowdown for tier in found.tiers} == {1.0}
    assert found.gap(0, 2) == 0.0


def test_slowdowns_are_against_the_best_tier() -> None:
    found = sensitivity(a_workload(), GangShape(ranks=4), a_fabric(oversubscription=8))
    node_s = 3 + 2 * 3 / 4 * 10 / 100
    rack_s = 3 + 2 * 3 / 4 * 10 / 20
    cluster_s = 3 + 2 * 3 / 4 * 10 / 10
    assert [tier.step_s for tier in found.tiers] == pytest.approx([node_s, rack_s, cluster_s])
    assert [tier.step_slowdown for tier in found.tiers] == pytest.approx(
        [1.0, rack_s / node_s, cluster_s / node_s]
    )
    assert found.best.level == NODE
    assert found.gap(0, 2) == pytest.approx(cluster_s / node_s - 1)


def test_a_gap_the_model_cannot_see_is_no_gap() -> None:
    found = sensitivity(a_workload(gradient_bytes=0.5e9), GangShape(ranks=4), a_fabric())
    near, far = found.tiers[0].step_s, found.tiers[1].step_s
    assert 1 < far / near < 1 + TIE_GAP
    assert found.gap(0, 1) == 0.0
    assert is_tie(near, far)


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("gradient_bytes", [0.05e9, 1e9, 10e9])
def test_at_the_wanted_bandwidth_communication_stops_showing(
    overlap: float, gradient_bytes: float
) -> None:
    workload = a_workload(overlap=overlap, gradient_bytes=gradient_bytes)
    wanted = sensitivity(workload, GangShape(ranks=8), a_fabric()).bandwidth_wanted
    # A fabric whose NICs carry exactly that much; NVLink is out of the way.
    fabric = a_fabric(inside=1e6, nics=1, nic=wanted / 1e9)
    time = workload_time(workload, a_shape("4 4"), fabric)
    assert time.exposed_s == pytest.approx(INSENSITIVE_SHARE * time.compute_s, rel=1e-6)


def test_a_tier_with_all_the_bandwidth_wanted_is_insensitive() -> None:
    found = sensitivity(a_workload(gradient_bytes=0.1e9), GangShape(ranks=4), a_fabric())
    assert found.is_insensitive(0)
    assert found.is_insensitive(1)
    assert not sensitivity(a_workload(), GangShape(ranks=4), a_fabric()).is_insensitive(1)
    assert not found.is_insensitive(7)


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(a_workload(), id="exposed"),
        pytest.param(a_workload(overlap=0.3), id="half hidden"),
        pytest.param(a_workload(overlap=1.0, gradient_bytes=1e9), id="the last bucket shows"),
        pytest.param(a_workload(Strategy.ZERO2, overlap=0.1), id="blocking and hidden"),
        pytest.param(a_workload(Strategy.PIPE_SGD), id="hidden"),
        pytest.param(a_workload(Strategy.NONE), id="none"),
    ],
)
def test_elasticity_is_how_the_step_answers_to_bandwidth(workload: Workload) -> None:
    fabric, shape = a_fabric(), a_shape("4 4")

    def step_s(factor: float) -> float:
        slower = a_fabric(inside=1e6, nic=5.0 / factor)
        return workload_time(workload, shape, slower).total_s

    nudge = 1e-6
    measured = (step_s(1 + nudge) / step_s(1.0) - 1) / nudge
    parts = step_parts(workload, shape, fabric, fabric.default_node, ALONE)
    assert elasticity(parts) == pytest.approx(measured, abs=1e-4)


def test_the_table_answers_equal_questions_with_the_same_answer() -> None:
    table = SensitivityTable(a_fabric())
    profile = CommunicationProfile(gradient_bytes=10_000_000_000, compute_s=3.0)
    gang = GangShape(ranks=8)
    assert table.sensitivity(profile, gang) is table.sensitivity(profile, gang)
    time = table.iteration_time(profile, a_shape("4 4"))
    assert time is table.iteration_time(profile, a_shape("4 4"))
    assert time == iteration_time(profile, a_shape("4 4"), a_fabric())
    shared = table.iteration_time(profile, a_shape("4 4"), (0.5,))
    assert shared.total_s > time.total_s


def test_a_job_that_says_nothing_is_a_prior_and_says_so() -> None:
    found = SensitivityTable(a_fabric()).sensitivity(None, GangShape(ranks=8))
    assert found.source is Source.PRIOR
    assert {tier.source for tier in found.tiers} == {Source.PRIOR}
    assert found.tiers


PREDICTED = {NODE: 1.0, RACK: 2.0, CLUSTER: 3.0}


def learned_from(samples: list[float], level: LevelName = RACK) -> LearnedStepTimes:
    learned = LearnedStepTimes()
    for measured_s in samples:
        learned = observed(
            learned, level=level, predicted_s=PREDICTED[level], measured_s=measured_s
        )
    return learned


def test_steady_samples_are_believed() -> None:
    learned = learned_from([2.6] * 50)
    assert corrected_s(PREDICTED, RACK, learned) == pytest.approx(2.6, rel=0.02)


def test_few_samples_are_half_believed() -> None:
    corrected = corrected_s(PREDICTED, RACK, learned_from([4.0]))
    assert 2.0 < corrected < 4.0


def test_other_tiers_take_over_the_correction_of_the_nearest() -> None:
    learned = learned_from([2.6] * 50)
    assert corrected_s(PREDICTED, NODE, learned) == pytest.approx(1.3, rel=0.02)
    assert corrected_s(PREDICTED, CLUSTER, learned) == pytest.approx(3.9, rel=0.02)


def test_outliers_do_not_move_the_average() -> None:
    rng = Random(3)
    samples = [rng.gauss(2.6, 0.05) for _ in range(200)]
    samples[20::25] = [40.0] * len(samples[20::25])
    learned = learned_from(samples)
    tier = learned.at(RACK)
    assert tier is not None
    assert tier.mean_s == pytest.approx(2.6, rel=0.03)


def test_a_new_phase_is_noticed_and_the_old_one_forgotten() -> None:
    learned = learned_from([2.6] * 50 + [5.2] * STREAK_MAX)
    tier = learned.at(RACK)
    assert tier is not None
    assert tier.mean_s == pytest.approx(5.2)
    assert tier.samples == STREAK_MAX


def test_a_slow_drift_is_followed() -> None:
    learned = learned_from([2.0 * 1.005**i for i in range(100)])
    tier = learned.at(RACK)
    assert tier is not None
    assert tier.mean_s == pytest.approx(2.0 * 1.005**99, rel=0.1)


@pytest.mark.parametrize("measured_s", [0.0, -1.0, nan, inf])
def test_impossible_samples_change_nothing(measured_s: float) -> None:
    assert learned_from([measured_s]) == LearnedStepTimes()


def test_gpu_models_are_learned_apart() -> None:
    learned = observed(
        learned_from([2.6] * 30),
        level=RACK,
        predicted_s=1.0,
        measured_s=9.0,
        gpu_model=GpuModel("T4"),
    )
    assert corrected_s(PREDICTED, RACK, learned) == pytest.approx(2.6, rel=0.03)
    assert [tier.gpu_model for tier in learned.tiers] == ["", "T4"]


def test_measured_tiers_show_predicted_and_measured_side_by_side() -> None:
    found = sensitivity(a_workload(), GangShape(ranks=4), a_fabric())
    learned = LearnedStepTimes()
    for _ in range(30):
        learned = observed(
            learned, level=RACK, predicted_s=found.tiers[1].time.total_s, measured_s=6.0
        )
    node, rack, cluster = with_measured(found, learned).tiers
    assert rack.measured_s == pytest.approx(6.0)
    assert rack.step_s == pytest.approx(6.0, rel=0.05)
    assert rack.source is Source.MEASURED
    assert node.measured_s is None
    assert node.source is Source.DECLARED
    assert rack.step_slowdown == pytest.approx(rack.step_s / node.step_s)
    assert cluster.time == found.tiers[2].time
