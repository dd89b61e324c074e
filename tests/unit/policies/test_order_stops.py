"""Whom the order stops under Dally for jobs that wait, and for whom domains are held."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler.domain.history import PastJobs
from scheduler.domain.ids import JobId, LevelName
from scheduler.domain.instants import HOUR, SECOND, Duration, Instant
from scheduler.domain.job import Job, JobPhase, StopCause
from scheduler.domain.knobs import JobOrder, PolicyKnobs
from scheduler.domain.patience import Evictions, HeldDomain, WaitEpisode
from scheduler.domain.plan import Plan
from scheduler.domain.queue import DEFAULT_QUEUE
from scheduler.domain.snapshot import RunningGang
from scheduler.domain.waits import JobEnd
from tests.builders import a_job, at
from tests.unit.policies.moves_world import NOW, SAVES, a_world, on, planned, stopped, victim

ORDER_STOPS = PolicyKnobs(order_stops=True, order=JobOrder.LAS)


def full(first: Job) -> list[RunningGang]:
    """Every node is held: by the one in question, and by three that stand no stop."""
    others = [a_job(f"other-{number}") for number in range(3)]
    nodes = ("r1-n1", "r2-n0", "r2-n1")
    return [on(first, "r1-n0"), *(on(o, n) for o, n in zip(others, nodes, strict=True))]


def test_a_gang_of_a_later_class_gives_way_to_a_new_job_if_the_order_may_stop() -> None:
    new = a_job("new")
    plan = planned(a_world(new, running=full(victim()), knobs=ORDER_STOPS))
    assert stopped(plan) == [("id-v", StopCause.PREEMPT, "id-new")]
    assert {a.node for a in plan.promise[0].placement.assignments} == {"r1-n0"}
    assert stopped(planned(a_world(new, running=full(victim())))) == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"spec": a_job().spec}, id="neither a checkpoint nor preemptible"),
        pytest.param({"priority": 5}, id="of higher priority"),
        pytest.param(
            {"evictions": Evictions(recent=(at(9.5 * 3600),) * 3)}, id="stopped thrice an hour"
        ),
        pytest.param(
            {"evictions": Evictions(lost=Duration(41 * HOUR))}, id="has lost a tenth already"
        ),
        pytest.param({"spec": a_job(checkpoint=SAVES, iterations=101).spec}, id="nearly done"),
    ],
)
def test_the_order_stops_no_gang(changes: dict[str, Any]) -> None:
    world = a_world(a_job("new"), running=full(victim(**changes)), knobs=ORDER_STOPS)
    assert stopped(planned(world)) == []


def test_no_gang_is_stopped_for_a_job_of_its_own_class() -> None:
    as_old = replace(a_job("new"), ran_for=Duration(400 * HOUR))
    assert stopped(planned(a_world(as_old, running=full(victim()), knobs=ORDER_STOPS))) == []


def test_a_gang_is_not_stopped_before_its_quantum() -> None:
    young = [on(victim(), "r1-n0", since=at(10 * 3600 - 600)), *full(victim())[1:]]
    plan = planned(a_world(a_job("new"), running=young, knobs=ORDER_STOPS))
    assert stopped(plan) == []
    # The loop is called when it has run for two checkpoint intervals.
    assert plan.next_wakeup == at(10 * 3600 + 600)


def test_the_loop_is_called_when_a_gang_that_starts_up_may_have_run_long_enough() -> None:
    gang = on(victim(), "r1-n0", since=NOW)
    starting = replace(
        gang,
        job=replace(gang.job, phase=JobPhase.STARTING),
        attempt=replace(gang.attempt, running_since=None),
    )
    world = a_world(a_job("new"), running=[starting, *full(victim())[1:]], knobs=ORDER_STOPS)
    assert planned(world).next_wakeup == at(10 * 3600 + 1_200)


def past(*ran_s: float) -> PastJobs:
    """Jobs of one GPU that have ended after so many seconds of running."""
    ends = (
        JobEnd(
            job_id=JobId(f"past-{number}"),
            queue=DEFAULT_QUEUE,
            gpus=1,
            ran_for=Duration(round(seconds * SECOND)),
            is_complete=True,
            at=at(0),
        )
        for number, seconds in enumerate(ran_s)
    )
    return PastJobs(version=1, ends=tuple(ends))


def test_by_classes_of_service_it_is_no_merit_to_have_run_before() -> None:
    """Class 3 goes before class 6, and twice and a half of it would not."""
    begun = replace(a_job("new"), ran_for=Duration(4 * HOUR))
    assert stopped(planned(a_world(begun, running=full(victim()), knobs=ORDER_STOPS)))


@pytest.mark.parametrize(
    ("ended_s", "changes", "stops"),
    [
        pytest.param([60] * 4, {}, 0, id="too few have ended to say who ends soon"),
        pytest.param([60] * 4, {"priority": 1}, 1, id="a higher priority needs no lesson"),
        pytest.param([60] * 5, {}, 1, id="five have, all of them soon"),
        pytest.param(
            [3300 * 3600] * 5, {"ran_for": Duration(300 * HOUR)}, 0, id="who has come as far"
        ),
    ],
)
def test_the_learned_order_stops_for_who_is_more_likely_to_end_soon(
    ended_s: Sequence[float], changes: dict[str, Any], stops: int
) -> None:
    job = replace(a_job("new"), **changes)
    world = a_world(job, running=full(victim()), knobs=PolicyKnobs(order_stops=True))
    plan = planned(replace(world, past_jobs=past(*ended_s)))
    assert len(stopped(plan)) == stops


HELD = WaitEpisode(
    began_at=at(0), held=HeldDomain(level=LevelName("rack"), path=("r1",), since=at(0))
)


@pytest.mark.parametrize(
    ("changes", "since_s", "end_s"),
    [
        pytest.param(
            {"evictions": Evictions(recent=(at(35_000), at(35_500), at(35_600)))},
            0,
            35_000 + 3600 + 1e-6,
            id="thrice in an hour",
        ),
        pytest.param(
            {"ran_for": Duration(0), "evictions": Evictions(lost=Duration(3600 * SECOND))},
            0,
            # 3630 s are a tenth of 36,300 s, and the next checkpoint after that is at 36,600 s.
            36_600,
            id="a tenth of its run time",
        ),
        pytest.param(
            {"submitted_at": at(1_000), "waiting": HELD}, 33_000, 33_000 + 16_000, id="protection"
        ),
    ],
)
def test_the_loop_is_called_when_the_bounds_on_a_stop_end(
    changes: dict[str, Any], since_s: float, end_s: float
) -> None:
    def at_instant(now: Instant) -> Plan:
        gang = on(replace(victim(), **changes), "r1-n0", since=at(since_s))
        return planned(
            a_world(a_job("new"), running=[gang, *full(victim())[1:]], knobs=ORDER_STOPS, now=now)
        )

    plan = at_instant(NOW)
    assert stopped(plan) == []
    assert plan.next_wakeup == at(end_s)
    assert [each[0] for each in stopped(at_instant(at(end_s)))] == ["id-v"]


DAY = at(24 * 3600)


def an_elder() -> Job:
    """A gang of two nodes that has waited for a day, and that the order puts behind all others."""
    return replace(a_job("m", workers=2), ran_for=Duration(2_000 * HOUR))


def test_who_holds_a_domain_has_gangs_stopped_for_it_that_the_order_puts_before_it() -> None:
    running = [on(victim(f"v{n}"), f"r{n // 2 + 1}-n{n % 2}") for n in range(4)]
    before = planned(a_world(an_elder(), running=running, knobs=ORDER_STOPS, now=Instant(DAY - 1)))
    assert stopped(before) == []
    plan = planned(a_world(an_elder(), running=running, knobs=ORDER_STOPS, now=DAY))
    assert [each[2] for each in stopped(plan)] == ["id-m"] * 2
    assert len({a.node[:2] for a in plan.promise[0].placement.assignments}) == 1
    assert not plan.waits


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"spec": a_job().spec}, id="neither a checkpoint nor preemptible"),
        pytest.param({"priority": 5}, id="of higher priority"),
        pytest.param(
            {"evictions": Evictions(lost=Duration(45 * HOUR))}, id="has lost a tenth already"
        ),
    ],
)
def test_a_domain_is_held_where_too_few_gangs_may_be_stopped(changes: dict[str, Any]) -> None:
    names = {"r1-n0": "v1", "r1-n1": "v2", "r2-n0": "v3", "r2-n1": "v4"}
    running = [
        on(victim(name, **(changes if name in ("v1", "v3") else {})), node)
        for node, name in names.items()
    ]
    new = a_job("new", submitted_at=at(9))
    plan = planned(a_world(an_elder(), new, running=running, knobs=ORDER_STOPS, now=DAY))
    held = [wait.episode.held for wait in plan.waits]
    assert [each and each.path for each in held] == [("r1",)]
    # In the domain nobody is stopped for others; elsewhere the order goes on.
    assert stopped(plan) == [("id-v4", StopCause.PREEMPT, "id-new")]


def test_jobs_still_hold_out_for_closer_gpus_where_the_order_may_stop() -> None:
    two = a_job("s", workers=2)
    running = [on(a_job("other"), "r1-n0"), on(a_job("another"), "r2-n0")]
    plan = planned(a_world(two, running=running, knobs=ORDER_STOPS))
    assert not plan.start
    assert [wait.job_id for wait in plan.waits] == ["id-s"]


def test_a_job_that_declines_and_is_promised_closer_gpus_is_not_told_to_wait() -> None:
    # The other nodes of both racks are free: it declines them, and r1-n0 is left to it.
    running = [on(victim(), "r1-n0"), on(a_job("other"), "r2-n0")]
    plan = planned(a_world(a_job("s", workers=2), running=running, knobs=ORDER_STOPS))
    assert {a.node for a in plan.promise[0].placement.assignments} == {"r1-n0", "r1-n1"}
    # One job in two changes of a plan would be a race against itself.
    assert not plan.waits
