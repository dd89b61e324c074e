"""Failures and slow nodes."""

import pytest

from scheduler.domain.ids import NodeName
from scheduler.domain.instants import DAY, HOUR, Duration, Instant
from simulator.agenda import Agenda
from simulator.faults import (
    NO_FAULTS,
    Failures,
    FaultOptions,
    WithSlowNodes,
    slow_nodes,
    slowed,
)
from simulator.happenings import Happening, NodeFails, NodeReturns
from simulator.speeds import FullSpeed, Speed
from simulator.world import SimulatedJob
from tests.builders import a_cluster, a_placement, a_spec
from tests.gangs import a_key

NODES = [NodeName(f"n{number}") for number in range(50)]


def failures_in(days: int, options: FaultOptions, *, seed: int = 1) -> list[tuple[int, Happening]]:
    agenda: Agenda[Happening] = Agenda()
    failures = Failures(options, seed=seed)
    failures.begin(NODES, agenda, at=Instant(0))
    happened: list[tuple[int, Happening]] = []
    while (at := agenda.next_at()) is not None and at < days * DAY:
        for happening in agenda.due(at):
            happened.append((at, happening))
            failures.follow(happening, agenda, at=at)
    return happened


def test_nodes_do_not_fail_unless_asked_to() -> None:
    assert failures_in(365, NO_FAULTS) == []


def test_a_node_fails_and_returns_in_turns() -> None:
    options = FaultOptions(node_mtbf=DAY, repair_mean=HOUR)
    of_one = [
        each
        for _, each in failures_in(60, options)
        if isinstance(each, NodeFails | NodeReturns) and each.node == NODES[3]
    ]
    assert len(of_one) > 50
    kinds = [type(each) for each in of_one]
    assert kinds == [NodeFails if place % 2 == 0 else NodeReturns for place in range(len(kinds))]


def test_failures_come_as_often_as_asked() -> None:
    options = FaultOptions(node_mtbf=Duration(10 * DAY), repair_mean=HOUR)
    fails = [each for _, each in failures_in(200, options) if isinstance(each, NodeFails)]
    assert len(fails) == pytest.approx(len(NODES) * 20, rel=0.1)


def test_equal_seeds_fail_alike() -> None:
    options = FaultOptions(node_mtbf=DAY)
    assert failures_in(5, options) == failures_in(5, options)
    assert failures_in(5, options) != failures_in(5, options, seed=2)


def test_about_the_asked_share_of_nodes_is_slow() -> None:
    found = slow_nodes(NODES * 1, FaultOptions(slow_share=0.3, slow_factor=2.0), seed=5)
    assert 5 < len(found) < 25
    assert set(found.values()) == {2.0}


@pytest.mark.parametrize(
    ("speed", "factor", "progress", "exposed"),
    [
        pytest.param(Speed(1, 0), 2.0, 0.5, 0, id="all compute"),
        pytest.param(Speed(0.5, 0.5), 2.0, 1 / 3, 1 / 3, id="half is communication"),
        pytest.param(Speed(0.5, 0.5), 1.0, 0.5, 0.5, id="not slow"),
    ],
)
def test_slow_compute_leaves_communication_as_it_is(
    speed: Speed, factor: float, progress: float, exposed: float
) -> None:
    after = slowed(speed, factor)
    assert after.progress == pytest.approx(progress)
    assert after.exposed == pytest.approx(exposed)


def test_a_gang_is_as_slow_as_its_slowest_node() -> None:
    cluster = a_cluster("r1: 8 8")
    spec = a_spec(workers=2, gpus=1)
    speeds = WithSlowNodes(FullSpeed(), {NodeName("r1-n1"): 4.0})
    job = SimulatedJob(
        id=a_key().job_id, name="j", arrival=Instant(0), work=HOUR, gpus=2, spec=spec
    )
    spread = a_placement(cluster, spec, {"r1-n0": 1, "r1-n1": 1})
    (own,) = speeds.begin(a_key(), job, spread)
    assert own.speed.progress == 0.25
    speeds.end(a_key())
    (own,) = speeds.begin(a_key(number=1), job, a_placement(cluster, spec, {"r1-n0": 2}))
    assert own.speed.progress == 1
