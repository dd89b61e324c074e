"""Baselines that run at their best tier or not at all, and those ranked by learned lengths."""

from dataclasses import replace

import pytest

from scheduler.domain.instants import HOUR, Duration
from scheduler.domain.job import CheckpointRequest, Job, StopCause
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import BehindHead, WaitingForCloserTier
from scheduler.domain.plan import Plan
from scheduler.engine.cycle import decide
from scheduler.engine.invariants import check_plan
from scheduler.policies.registry import policy_named
from tests.builders import a_job, a_snapshot, at
from tests.step_times import SaidStepTimes

CONSOLIDATED = ("consolidated", "fifo-consolidated", "las-consolidated", "gittins-consolidated")
TAKEN = ((a_job("x"), {"r1-n0": 1}), (a_job("y"), {"r2-n0": 1}))


def planned(policy: str, *jobs: Job, running: tuple[tuple[Job, dict[str, int]], ...]) -> Plan:
    snapshot = replace(
        a_snapshot(
            "r1: 8 8\nr2: 8 8",
            pending=jobs,
            running=running,
            now=at(10 * 3600),
            knobs=PolicyKnobs(policy=policy),
        ),
        step_times=SaidStepTimes({"m": (1.0, 1.0, 3.0)}),
    )
    plan = decide(snapshot, policy_named(policy))
    check_plan(snapshot, plan)
    return plan


def started(plan: Plan) -> list[str]:
    return [start.job_id.removeprefix("id-") for start in plan.start]


@pytest.mark.parametrize("policy", CONSOLIDATED)
def test_a_job_waits_for_its_best_tier_however_long(policy: str) -> None:
    job = replace(a_job("a", workers=2), ran_for=Duration(900 * HOUR))
    answer = planned(policy, job, running=TAKEN).blocked[job.id]
    assert isinstance(answer, WaitingForCloserTier)
    assert answer.until is None
    assert started(planned(policy, job, running=TAKEN[1:])) == ["a"]


def test_the_strict_one_holds_up_those_behind_and_the_other_does_not() -> None:
    jobs = (a_job("a", workers=2), a_job("b", submitted_at=at(9)))
    assert started(planned("consolidated", *jobs, running=TAKEN)) == ["b"]
    strict = planned("fifo-consolidated", *jobs, running=TAKEN)
    assert started(strict) == []
    assert strict.blocked[jobs[1].id] == BehindHead(jobs_ahead=1)


def test_gittins_nowait_stops_a_gang_of_a_later_class_for_a_new_job() -> None:
    full = tuple((a_job(f"{r}{n}"), {f"r{r}-n{n}": 1}) for r in (1, 2) for n in (0, 1))
    plan = planned("gittins-nowait", a_job("new"), running=full)
    assert [stop.beneficiary for stop in plan.stop] == ["id-new"]


def test_las_nowait_upgrade_takes_the_first_offer_and_moves_later() -> None:
    assert started(planned("las-nowait-upgrade", a_job("m", workers=2), running=TAKEN)) == ["m"]
    saves = CheckpointRequest(is_declared=True, every=Duration(HOUR // 60))
    spread = (a_job("m", workers=2, checkpoint=saves), {"r1-n0": 1, "r2-n0": 1})
    plan = planned("las-nowait-upgrade", running=(spread,))
    assert [stop.cause for stop in plan.stop] == [StopCause.UPGRADE]
