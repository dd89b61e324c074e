"""Gangs that would meet others on the links between racks hold out for what both lose by it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler.domain.instants import HOUR, MINUTE, Duration, Instant, after
from scheduler.domain.job import CheckpointRequest, Job
from scheduler.domain.knobs import JobOrder, PolicyKnobs, Timers
from scheduler.domain.patience import TierTimer, WaitEpisode
from scheduler.domain.placement import BackingOff, WaitingForCloserTier
from scheduler.domain.plan import Plan
from scheduler.domain.snapshot import Snapshot
from scheduler.domain.timers import TimerReason
from scheduler.domain.topology import topology_tree
from scheduler.engine.cycle import decide
from scheduler.engine.invariants import check_plan
from scheduler.engine.ladders import Ladders
from scheduler.policies.registry import policy_named
from tests.builders import a_cluster, a_job, a_placement, a_snapshot, at
from tests.simulation.sensitive_world import TALKS, narrow_fabric
from tests.step_times import SaidStepTimes

TWO_RACKS = "r1: 8 8 8\nr2: 8 8 8"
WIDE = a_job("wide", workers=2)
ACROSS = {"r1-n0": 1, "r2-n0": 1}
HALF: Sequence[tuple[Job, Mapping[str, int]]] = (
    (a_job("x"), {"r1-n1": 1}),
    (a_job("y"), {"r2-n1": 1}),
)
"""One node of each rack is left free beside a gang across them."""

SAVES = CheckpointRequest(path="/ckpt", every=Duration(10 * MINUTE), is_declared=True)


def a_world(
    *pending: Job,
    crowded: Mapping[str, float],
    running: Sequence[tuple[Job, Mapping[str, int]]] = ((WIDE, ACROSS), *HALF),
    now: Instant = Instant(0),
    cluster: str = TWO_RACKS,
    **knobs: Any,
) -> Snapshot:
    return replace(
        a_snapshot(
            cluster,
            pending=pending,
            running=running,
            now=now,
            knobs=replace(PolicyKnobs(), **knobs),
        ),
        step_times=SaidStepTimes({}, crowded=crowded),
    )


def planned(snapshot: Snapshot) -> Plan:
    plan = decide(snapshot, policy_named("dally"))
    check_plan(snapshot, plan)
    return plan


def started(plan: Plan) -> list[str]:
    return [start.job_id.removeprefix("id-") for start in plan.start]


def holds_out(plan: Plan, job: Job) -> WaitingForCloserTier:
    answer = plan.blocked[job.id]
    assert isinstance(answer, WaitingForCloserTier), answer
    return answer


def with_clock(job: Job, clock: Duration) -> Job:
    """The clock of its wait shows that; distance alone costs it nothing."""
    rack = SaidStepTimes({}).ladder(job).best.level
    timers = (TierTimer(level=rack, timer=Duration(0)),)
    return replace(job, waiting=WaitEpisode(began_at=at(0), timers=timers, clock=clock))


@pytest.mark.parametrize(
    ("workers", "crowded", "timer", "slowdown"),
    [
        pytest.param(2, {"s": 1.5}, 3 * HOUR, 1.5, id="what it loses itself"),
        pytest.param(2, {"wide": 1.5}, 3 * HOUR, 1.0, id="what the other one loses"),
        pytest.param(2, {"s": 1.5, "wide": 1.5}, 6 * HOUR, 1.5, id="both"),
        pytest.param(4, {"wide": 3.0}, 6 * HOUR, 1.0, id="a smaller gang's loss counts less"),
    ],
)
def test_it_holds_out_as_long_as_they_lose_by_each_other(
    workers: int, crowded: Mapping[str, float], timer: int, slowdown: float
) -> None:
    job = a_job("s", workers=workers)
    running = ((WIDE, ACROSS), *HALF) if workers < 4 else ((WIDE, ACROSS),)
    plan = planned(a_world(job, crowded=crowded, running=running))
    assert started(plan) == []
    answer = holds_out(plan, job)
    assert (answer.timer, answer.timer_reason) == (timer, TimerReason.SHARING)
    assert answer.step_slowdown == pytest.approx(slowdown)
    assert answer.gangs_beside == 1
    assert answer.until == after(at(0), Duration(timer))
    assert plan.next_wakeup == answer.until


@pytest.mark.parametrize(
    ("longer", "reason"),
    [
        pytest.param(1.5, TimerReason.SHARING, id="mostly by the links"),
        pytest.param(1.1, TimerReason.WORTH, id="mostly by the distance"),
    ],
)
def test_it_tells_what_most_of_its_wait_is_for(longer: float, reason: TimerReason) -> None:
    job = a_job("s", workers=2)
    times = SaidStepTimes({"s": (1.0, 1.0, 1.2)}, crowded={"wide": longer})
    plan = planned(replace(a_world(job, crowded={}), step_times=times))
    assert holds_out(plan, job).timer_reason == reason


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param({"crowding_weight": 0.0}, id="links count as free"),
        pytest.param({"timers": Timers.ZERO}, id="nobody waits"),
        pytest.param({"timers": Timers.FIXED, "fixed_timer": Duration(0)}, id="timers are set"),
    ],
)
def test_it_starts_at_once_where_the_knobs_say_so(knobs: Mapping[str, Any]) -> None:
    job = a_job("s", workers=2)
    assert started(planned(a_world(job, crowded={"s": 3.0}, **knobs))) == ["s"]


def test_double_weight_is_double_the_wait_up_to_the_longest() -> None:
    job = a_job("s", workers=2)
    twice = planned(a_world(job, crowded={"s": 1.5}, crowding_weight=2.0))
    assert holds_out(twice, job).timer == 6 * HOUR
    most = planned(a_world(job, crowded={"s": 1.5}, wait_max=Duration(HOUR)))
    assert holds_out(most, job).timer == HOUR


def test_it_is_refused_before_its_clock_shows_that_and_taken_then() -> None:
    early = with_clock(a_job("s", workers=2), Duration(3 * HOUR - 1))
    assert started(planned(a_world(early, crowded={"s": 1.5}))) == []
    late = with_clock(a_job("s", workers=2), Duration(3 * HOUR))
    assert started(planned(a_world(late, crowded={"s": 1.5}))) == ["s"]


def test_gangs_inside_a_rack_are_not_on_its_links() -> None:
    inside = ((a_job("wide", workers=2), {"r1-n0": 1, "r1-n1": 1}), (a_job("y"), {"r2-n1": 1}))
    busy = (*inside, (a_job("z"), {"r2-n0": 1}))
    plan = planned(a_world(a_job("s", workers=2), crowded={"s": 3.0, "wide": 3.0}, running=busy))
    assert started(plan) == ["s"]


def test_what_nobody_can_tell_apart_keeps_nobody() -> None:
    job = a_job("s", workers=2)
    assert started(planned(a_world(job, crowded={"s": 1.04, "wide": 1.04}))) == ["s"]


def test_of_two_in_one_cycle_the_second_meets_the_first() -> None:
    jobs = [a_job(name, workers=3, submitted_at=at(n)) for n, name in enumerate(("s1", "s2"))]
    racks = "r1: 8 8\nr2: 8 8\nr3: 8 8"
    crowded = {"s1": 1.5, "s2": 1.5}
    plan = planned(a_world(*jobs, crowded=crowded, running=(), now=at(9), cluster=racks))
    assert started(plan) == ["s1"]
    assert holds_out(plan, jobs[1]).gangs_beside == 1


def test_a_job_does_not_meet_itself_where_its_promise_is_void() -> None:
    job = a_job("s", workers=2)
    cluster = a_cluster(TWO_RACKS)
    job = replace(job, promised=a_placement(cluster, job, {"r1-n1": 1, "r2-n1": 1}))
    running = tuple((a_job(name), {name: 1}) for name in ("r1-n2", "r2-n2", "r2-n0"))
    world = a_world(job, crowded={"s": 3.0}, running=running)
    nodes = tuple(replace(node, is_ready=node.name != "r1-n1") for node in world.nodes)
    assert started(planned(replace(world, nodes=nodes))) == ["s"]


def test_a_job_that_failed_as_it_was_to_move_rests_and_loses_its_promise() -> None:
    job = a_job("s", workers=2, not_before=at(60))
    cluster = a_cluster(TWO_RACKS)
    job = replace(job, promised=a_placement(cluster, job, {"r1-n1": 1, "r1-n2": 1}))
    plan = planned(a_world(job, crowded={}, running=(), now=at(9)))
    assert started(plan) == []
    assert [each.job_id for each in plan.withdraw] == ["id-s"]
    assert isinstance(plan.blocked[job.id], BackingOff)
    assert plan.next_wakeup == at(60)


def test_a_neighbour_that_has_no_place_by_capacity_any_more_is_counted_all_the_same() -> None:
    four = a_cluster("r1: 8 8 8 8\nr2: 8 8 8 8", gpu_model="V100")
    cordoned = {"r1-n0", "r1-n1", "r1-n2", "r2-n0"}
    nodes = tuple(replace(node, is_cordoned=node.name in cordoned) for node in four.nodes)
    tree = topology_tree(four.levels, nodes)
    job, wide = (
        replace(made, spec=replace(made.spec, communication=TALKS))
        for made in (a_job("s", workers=2), a_job("wide", workers=5))
    )
    on = dict.fromkeys(("r1-n0", "r1-n1", "r1-n2", "r2-n0", "r2-n1"), 1)
    snapshot = replace(
        a_snapshot(four, pending=[job], running=[(wide, on), (a_job("y"), {"r2-n2": 1})]),
        nodes=nodes,
        tree=tree,
        step_times=Ladders(tree, nodes, narrow_fabric),
    )
    assert holds_out(planned(snapshot), job).gangs_beside == 1


def test_a_gang_that_gives_way_is_not_met_any_more() -> None:
    old = replace(a_job("wide", workers=2, checkpoint=SAVES), ran_for=Duration(400 * HOUR))
    plan = planned(
        a_world(
            a_job("s", workers=4),
            crowded={"s": 3.0},
            running=((old, ACROSS), *HALF),
            now=at(10 * 3600),
            order_stops=True,
            order=JobOrder.LAS,
        )
    )
    assert [stop.job_id for stop in plan.stop] == [old.id]
    assert [promise.job_id for promise in plan.promise] == ["id-s"]
