"""A queue's own knobs reach the decisions on its jobs, and on no others."""

from dataclasses import replace

import pytest

from scheduler.domain.instants import HOUR, MINUTE, Duration
from scheduler.domain.job import Job
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.plan import Plan
from scheduler.domain.queue import Queue
from scheduler.engine.cycle import decide
from scheduler.engine.invariants import check_plan
from scheduler.policies.registry import policy_named
from tests.builders import a_job, a_queue, a_snapshot, at
from tests.step_times import SaidStepTimes

SENSITIVE = (1.0, 1.0, 2.0)
THREE_RACKS = "r1: 8 8\nr2: 8 8\nr3: 8 8"
ONE_NODE_EACH = tuple((a_job(f"x{n}"), {f"r{n}-n0": 1}) for n in (1, 2, 3))
"""24 GPUs are free, eight in each rack."""

MANUAL = PolicyKnobs(policy="dally-manual", fixed_timer=Duration(10 * MINUTE))


def planned(*jobs: Job, queue: Queue, knobs: PolicyKnobs = MANUAL) -> Plan:
    """The plan for jobs that each want two nodes of one rack."""
    snapshot = replace(
        a_snapshot(
            THREE_RACKS,
            pending=jobs,
            running=ONE_NODE_EACH,
            queues=[a_queue("default"), queue],
            knobs=knobs,
        ),
        step_times=SaidStepTimes({job.name: SENSITIVE for job in jobs if job.name[0] == "s"}),
    )
    plan = decide(snapshot, policy_named(knobs.policy))
    check_plan(snapshot, plan)
    return plan


def a_sensitive(name: str = "s", *, queue: str = "q", submitted: float = 0) -> Job:
    """A job that loses by being spread."""
    return a_job(name, queue=queue, workers=2, submitted_at=at(submitted))


def timers(plan: Plan) -> dict[str, Duration | None]:
    """The timers that were frozen, by job."""
    return {wait.job_id.removeprefix("id-"): wait.episode.timers[0].timer for wait in plan.waits}


def started(plan: Plan) -> list[str]:
    """Names of the jobs that start."""
    return [start.job_id.removeprefix("id-") for start in plan.start]


def test_timers_are_those_of_the_queue() -> None:
    own = a_queue("q", fixed_timer=int(HOUR))
    plan = planned(a_sensitive("s1"), a_sensitive("s2", queue="default"), queue=own)
    assert timers(plan) == {"s1": HOUR, "s2": 10 * MINUTE}


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        pytest.param("dally-nowait", False, id="a variant without timers"),
        pytest.param("fifo-backfill", False, id="a policy without timers"),
        pytest.param("dally-consolidated", True, id="a variant that waits for ever"),
    ],
)
def test_a_queue_may_have_its_own_variant(policy: str, *, waits: bool) -> None:
    plan = planned(a_sensitive(), queue=a_queue("q", policy=policy))
    assert started(plan) == ([] if waits else ["s"])
    assert timers(plan) == ({"s": None} if waits else {})


def test_a_queue_of_its_own_may_wait_where_the_others_do_not() -> None:
    nowait = PolicyKnobs(policy="dally-nowait")
    own = a_queue("q", policy="dally-manual", fixed_timer=int(MINUTE))
    plan = planned(
        a_sensitive("s1"), a_sensitive("s2", queue="default", submitted=1), queue=own, knobs=nowait
    )
    assert started(plan) == ["s2"]
    assert timers(plan) == {"s1": MINUTE}


def test_a_strict_queue_starts_nothing_past_its_head() -> None:
    head = a_job("head", queue="q", workers=4)
    later = a_job("later", queue="q", submitted_at=at(1))
    other = a_job("other", submitted_at=at(2))
    assert started(planned(head, later, other, queue=a_queue("q"))) == ["later", "other"]
    strict = a_queue("q", policy="fifo")
    assert started(planned(head, later, other, queue=strict)) == ["other"]


def test_a_queue_leaves_no_more_gpus_idle_than_it_may() -> None:
    jobs = [a_sensitive("s1"), a_sensitive("s2", submitted=1)]
    assert set(timers(planned(*jobs, queue=a_queue("q")))) == {"s1", "s2"}
    capped = planned(*jobs, queue=a_queue("q", idle_gpus_max=16))
    assert (set(timers(capped)), started(capped)) == ({"s1"}, ["s2"])
    none_at_all = planned(*jobs[:1], queue=a_queue("q", idle_gpus_max=15))
    assert started(none_at_all) == ["s1"]


def test_the_cap_is_one_for_each_queue() -> None:
    jobs = [a_sensitive("s1"), a_sensitive("s2", queue="default", submitted=1)]
    knobs = replace(MANUAL, idle_gpus_max=16)
    assert set(timers(planned(*jobs, queue=a_queue("q"), knobs=knobs))) == {"s1", "s2"}


@pytest.mark.parametrize(
    "queue",
    [
        pytest.param(a_queue("q"), id="as the cluster says"),
        pytest.param(a_queue("q", policy="fifo"), id="strict"),
        pytest.param(a_queue("q", idle_gpus_max=16), id="capped"),
        pytest.param(a_queue("q", idle_gpus_max=15), id="may leave nothing idle"),
    ],
)
def test_what_a_queue_says_holds_where_the_order_may_stop_as_well(queue: Queue) -> None:
    jobs = [a_sensitive("s1"), a_sensitive("s2", submitted=1), a_job("head", queue="q", workers=4)]
    later = a_job("later", queue="q", submitted_at=at(2))
    # Nobody who runs stands a stop: the plans are the same, until a gang falls into a later class.
    stops = replace(MANUAL, order_stops=True)
    plan = planned(*jobs, later, queue=queue, knobs=stops)
    usual = planned(*jobs, later, queue=queue)
    assert replace(plan, next_wakeup=None) == replace(usual, next_wakeup=None)
