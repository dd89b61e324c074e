"""Whom Dally stops so that a gang runs closer together, when gangs move, who is left alone."""

from collections.abc import Mapping
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from scheduler.domain.job import Job, JobPhase, StopCause
from scheduler.domain.knobs import JobOrder, NetworkMoves, PolicyKnobs
from scheduler.domain.patience import Evictions, HeldDomain, WaitEpisode
from scheduler.domain.plan import Plan
from scheduler.domain.snapshot import RunningGang
from tests.builders import a_job, at
from tests.step_times import SaidStepTimes
from tests.unit.policies.moves_world import NOW, SAVES, a_world, hurt, on, planned, stopped, victim


# One node of each rack is free: 16 GPUs across racks, and one gang of one node too much for one.
def rivals(first: Job) -> list[RunningGang]:
    return [on(first, "r1-n0"), on(a_job("other"), "r2-n0")]


def test_a_gang_gives_way_to_one_that_gains_far_more_by_proximity() -> None:
    plan = planned(a_world(hurt(), running=rivals(victim())))
    assert stopped(plan) == [("id-v", StopCause.PREEMPT, "id-s")]
    assert {a.node for a in plan.promise[0].placement.assignments} == {"r1-n0", "r1-n1"}
    assert plan.stop[0].price == 30 * SECOND
    assert not plan.waits


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
        pytest.param(
            {"spec": a_job(checkpoint=SAVES, queue="another").spec}, id="of another queue"
        ),
        pytest.param({"spec": a_job(checkpoint=SAVES, iterations=101).spec}, id="nearly done"),
        pytest.param({"phase": JobPhase.STARTING}, id="that does not run yet"),
    ],
)
def test_who_is_never_stopped_for_proximity(changes: Mapping[str, object]) -> None:
    gang = rivals(victim())[0]
    gang = replace(gang, job=replace(gang.job, **changes))  # type: ignore[arg-type]  # any field
    losses = {"s": 3.0, "v": 1.0}
    assert not stopped(planned(a_world(hurt(), running=[gang, *rivals(victim())[1:]], lost=losses)))


def test_nobody_is_stopped_for_a_job_of_the_same_class_of_service() -> None:
    old = hurt(ran_for=Duration(5 * HOUR))
    young = replace(victim(), ran_for=Duration(0))
    assert not stopped(planned(a_world(old, running=rivals(young))))


def test_a_gang_runs_for_its_quantum_before_it_is_stopped() -> None:
    young = on(victim(), "r1-n0", since=Instant(NOW - 19 * MINUTE))
    assert not stopped(planned(a_world(hurt(), running=[young, *rivals(victim())[1:]])))
    older = on(victim(), "r1-n0", since=Instant(NOW - 21 * MINUTE))
    assert stopped(planned(a_world(hurt(), running=[older, *rivals(victim())[1:]])))


def test_a_gang_that_held_a_domain_is_protected_for_half_its_wait() -> None:
    held = HeldDomain(level=SaidStepTimes({}).ladder(a_job()).best.level, path=("r1",), since=at(0))
    job = victim(waiting=WaitEpisode(began_at=at(0), held=held))
    placed = on(job, "r1-n0", since=at(8 * 3600))
    running = [placed, *rivals(victim())[1:]]
    assert not stopped(planned(a_world(hurt(), running=running)))
    assert stopped(planned(a_world(hurt(), running=running, now=at(12 * 3600 + 60))))


def test_a_gang_is_protected_no_longer_than_it_held_its_domain() -> None:
    rack = SaidStepTimes({}).ladder(a_job()).best.level
    held = HeldDomain(level=rack, path=("r1",), since=at(7.5 * 3600))
    job = victim(waiting=WaitEpisode(began_at=at(0), held=held))
    running = [on(job, "r1-n0", since=at(8 * 3600)), *rivals(victim())[1:]]
    assert not stopped(planned(a_world(hurt(), running=running, now=at(8.5 * 3600 - 1))))
    assert stopped(planned(a_world(hurt(), running=running, now=at(8.5 * 3600))))


def test_a_job_without_step_reports_never_evicts() -> None:
    assert not stopped(planned(a_world(hurt(), running=rivals(victim()), lost={"x": 2.0})))


def test_t8_a_job_that_was_measured_to_lose_nothing_evicts_nobody() -> None:
    assert not stopped(planned(a_world(hurt(), running=rivals(victim()), lost={"s": 1.04})))


def test_t14_what_victims_declare_changes_nothing_in_who_is_stopped() -> None:
    said = CommunicationProfile(gradient_bytes=10**12, compute_s=1e-6)
    job = victim()
    declared = replace(job, spec=replace(job.spec, communication=said))
    assert stopped(planned(a_world(hurt(), running=rivals(job)))) == stopped(
        planned(a_world(hurt(), running=rivals(declared)))
    )


@settings(max_examples=40, deadline=None)
@given(
    ran_h=st.tuples(st.floats(0, 400), st.floats(0, 400)),
    lost=st.tuples(st.floats(1, 9), st.floats(1, 9)),
    passed_s=st.integers(0, 20 * 60 - 1),
    order=st.sampled_from(JobOrder),
)
def test_t6_two_jobs_do_not_stop_each_other_in_turns(
    ran_h: tuple[float, float], lost: tuple[float, float], passed_s: int, order: JobOrder
) -> None:
    knobs = PolicyKnobs(preemption=NetworkMoves.ON, order=order)
    losses = {"v": lost[0], "s": lost[1]}
    v, s = victim(), hurt(checkpoint_of=SAVES)
    v = replace(v, ran_for=Duration(round(ran_h[0] * HOUR)))
    s = replace(s, ran_for=Duration(round(ran_h[1] * HOUR)))
    if not stopped(planned(a_world(s, running=rivals(v), lost=losses, knobs=knobs))):
        return
    # It got its rack; until it has run for its quantum the other one does not get it back.
    later = Instant(NOW + passed_s * SECOND)
    waits = replace(v, phase=JobPhase.PENDING, spec=replace(v.spec, roles=hurt().spec.roles))
    runs = on(s, "r1-n0", "r1-n1", since=NOW)
    running = [runs, on(a_job("other"), "r2-n0")]
    swapped = a_world(waits, running=running, lost=losses, knobs=knobs, now=later)
    assert not stopped(planned(swapped))


def test_what_is_saved_must_be_twice_what_is_lost() -> None:
    # 6 h left lose 0.6 h, on twice the GPUs; the victim waits again as long as it has waited.
    patient = victim(first_started_at=at(0.4 * 3600))
    gang = replace(on(patient, "r1-n0"), job=replace(patient, phase=JobPhase.RUNNING))
    running = [gang, *rivals(victim())[1:]]
    assert stopped(planned(a_world(hurt(), running=running, lost={"s": 1.1})))
    slower = replace(gang, job=replace(gang.job, first_started_at=at(0.7 * 3600)))
    assert not stopped(planned(a_world(hurt(), running=[slower, *running[1:]], lost={"s": 1.1})))


@pytest.mark.parametrize(("knob", "stops"), [(NetworkMoves.OFF, 0), (NetworkMoves.ON, 1)])
def test_preemption_is_a_knob(knob: NetworkMoves, stops: int) -> None:
    knobs = PolicyKnobs(preemption=knob)
    assert len(planned(a_world(hurt(), running=rivals(victim()), knobs=knobs)).stop) == stops


def test_when_stopping_all_who_may_be_stopped_makes_no_room_nobody_is_stopped() -> None:
    running = [on(victim(), "r1-n0"), on(a_job("a"), "r1-n1"), on(a_job("b"), "r2-n0")]
    assert not stopped(planned(a_world(hurt(), running=running)))


def spread(**changes: object) -> RunningGang:
    """A gang that runs across the racks and would be three times as fast inside one."""
    job = replace(a_job("m", workers=2, checkpoint=SAVES), **changes)  # type: ignore[arg-type]  # any field
    return on(job, "r1-n0", "r2-n0")


def test_a_hurt_gang_moves_when_closer_gpus_are_free() -> None:
    plan = planned(a_world(running=[spread()]))
    assert stopped(plan) == [("id-m", StopCause.UPGRADE, "id-m")]
    nodes = {a.node for a in plan.promise[0].placement.assignments}
    assert nodes in ({"r1-n0", "r1-n1"}, {"r2-n0", "r2-n1"})


@pytest.mark.parametrize(
    "gang",
    [
        pytest.param(on(a_job("m", workers=2), "r1-n0", "r2-n0"), id="that may not be stopped"),
        pytest.param(spread(evictions=Evictions(lost=Duration(2 * HOUR))), id="has lost enough"),
        pytest.param(
            on(a_job("i", workers=2, checkpoint=SAVES), "r1-n0", "r2-n0"), id="loses nothing"
        ),
        pytest.param(
            spread(spec=a_job("m", workers=2, checkpoint=SAVES, iterations=110).spec),
            id="nearly done",
        ),
    ],
)
def test_who_does_not_move(gang: RunningGang) -> None:
    assert not stopped(planned(a_world(running=[gang], lost={"m": 3.0})))


def test_the_gpus_a_gang_moves_to_are_nobody_elses() -> None:
    plan = planned(a_world(running=[spread()]))
    promise = plan.promise[0]
    gang = spread()
    leaving = replace(
        gang,
        job=replace(
            gang.job,
            phase=JobPhase.STOPPING,
            stop_requested=StopCause.UPGRADE,
            promised=promise.placement,
        ),
    )
    taken = {a.node for a in promise.placement.assignments}
    rest = {NodeName(f"r{rack}-n{node}") for rack in (1, 2) for node in (0, 1)} - taken
    later = planned(a_world(a_job("a"), a_job("b"), a_job("c"), running=[leaving]))
    got = {a.node for start in later.start for a in start.placement.assignments}
    assert got
    assert got <= rest


def test_upgrades_are_a_knob() -> None:
    knobs = PolicyKnobs(upgrades=NetworkMoves.OFF)
    assert not stopped(planned(a_world(running=[spread()], knobs=knobs)))


def test_the_loop_is_called_when_a_gang_may_move_though_nothing_else_happens() -> None:
    def at_instant(now: Instant) -> Plan:
        far_apart = on(a_job("s", workers=2, checkpoint=SAVES), "r1-n0", "r2-n0", since=at(600))
        return planned(a_world(running=[far_apart], now=now))

    settles_at = at(600 + 1_200)
    before = at_instant(at(900))
    assert stopped(before) == []
    assert before.next_wakeup == settles_at
    assert [each[:2] for each in stopped(at_instant(settles_at))] == [("id-s", StopCause.UPGRADE)]
