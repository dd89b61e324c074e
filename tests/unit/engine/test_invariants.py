"""check_plan finds every broken promise: each case breaks one on purpose."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.domain.errors import BrokenPlanError
from scheduler.domain.ids import GpuModel, JobId, LevelName, NodeName, PoolName, RoleName, Sequence
from scheduler.domain.job import Job, StopCause, TopologyRequest
from scheduler.domain.placement import Assignment, BehindHead
from scheduler.domain.plan import Plan, Start, Withdrawal
from scheduler.domain.resources import Resources
from scheduler.domain.snapshot import Snapshot
from scheduler.engine.cycle import decide
from scheduler.engine.invariants import check_plan
from scheduler.policies.fifo import Fifo
from tests.builders import a_cluster, a_job, a_snapshot, at

CLUSTER = a_cluster("r1: 8 8\nr2: 8 8", resources=Resources(cpu_milli=8000))


def a_decision() -> tuple[Snapshot, Plan]:
    """Two gangs start, one waits."""
    snapshot = a_snapshot(
        CLUSTER,
        pending=[
            a_job("a", workers=2, resources=Resources(cpu_milli=1000)),
            a_job("b"),
            a_job("c", workers=4),
        ],
    )
    return snapshot, decide(snapshot, Fifo)


def moved(plan: Plan, job: str, *nodes: str) -> Plan:
    """The plan with one gang put on these nodes, a worker on each."""
    assignments = tuple(
        Assignment(role=RoleName("worker"), node=NodeName(node), workers=1) for node in nodes
    )
    return replace(
        plan,
        start=tuple(
            replace(start, placement=replace(start.placement, assignments=assignments))
            if start.job_id == f"id-{job}"
            else start
            for start in plan.start
        ),
    )


def test_a_decision_keeps_its_promises() -> None:
    check_plan(*a_decision())


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        pytest.param(
            lambda s, p: (s, replace(p, blocked={})), "id-c has no answer", id="no answer"
        ),
        pytest.param(
            lambda s, p: (
                s,
                replace(p, blocked={**p.blocked, JobId("id-a"): BehindHead(jobs_ahead=1)}),
            ),
            "id-a has 2 answers",
            id="two answers",
        ),
        pytest.param(
            lambda s, p: (replace(s, pending=s.pending[1:]), p),
            "id-a is not pending",
            id="not pending",
        ),
        pytest.param(
            lambda s, p: (replace(s, version=Sequence(9)), p), "made on 1, not 9", id="version"
        ),
        pytest.param(
            lambda s, p: (
                replace(s, pending=(replace(s.pending[0], revision=3), *s.pending[1:])),
                p,
            ),
            "id-a starts at revision 0, not 3",
            id="revision",
        ),
        pytest.param(
            lambda s, p: (
                replace(s, pending=(replace(s.pending[0], not_before=at(9)), *s.pending[1:])),
                p,
            ),
            "before its back-off ends",
            id="back-off",
        ),
        pytest.param(
            lambda s, p: (
                replace(
                    s,
                    pending=(
                        replace(s.pending[0], stop_requested=StopCause.CANCEL),
                        *s.pending[1:],
                    ),
                ),
                p,
            ),
            "although it is to stop",
            id="to stop",
        ),
        pytest.param(
            lambda s, p: (s, replace(p, withdraw=(Withdrawal(job_id=JobId("id-c"), revision=0),))),
            "id-c has no promise to withdraw",
            id="nothing to withdraw",
        ),
        pytest.param(
            lambda s, p: (s, moved(p, "a", "r1-n0")), "id-a is not whole", id="half a gang"
        ),
        pytest.param(
            lambda s, p: (s, moved(p, "a", "r1-n0", "r9-n9")),
            "nodes that do not exist",
            id="unknown node",
        ),
        pytest.param(
            lambda s, p: (s, moved(p, "b", "r1-n0")),
            "r1-n0: 16 of 8 GPUs given away",
            id="oversold by the plan",
        ),
        pytest.param(
            lambda s, p: (s, moved(p, "a", "r1-n0", "r2-n0")),
            "within one rack, and is not",
            id="tier",
        ),
    ],
)
def test_a_broken_promise_is_found(
    break_it: Callable[[Snapshot, Plan], tuple[Snapshot, Plan]], said: str
) -> None:
    with pytest.raises(BrokenPlanError, match=said):
        check_plan(*break_it(*a_decision()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"is_ready": False}, "takes no workers", id="unready"),
        pytest.param({"is_cordoned": True}, "takes no workers", id="cordoned"),
        pytest.param({"gpus": 4}, "8 of 4 GPUs given away", id="too few GPUs"),
        pytest.param(
            {"resources": Resources(cpu_milli=500)}, "1000 of 500 thousandths", id="too few CPUs"
        ),
        pytest.param({"workers_max": 0}, "1 of 0 workers", id="too many workers"),
        pytest.param({"gpu_model": GpuModel("A100")}, "mixes GPU models", id="mixed models"),
    ],
)
def test_a_node_that_changed_since_the_decision_is_found(
    change: dict[str, object], said: str
) -> None:
    _, plan = a_decision()
    changed = CLUSTER.with_node("r1-n0", **change)
    snapshot = a_snapshot(changed, pending=a_decision()[0].pending)
    with pytest.raises(BrokenPlanError, match=said):
        check_plan(snapshot, plan)


@pytest.mark.parametrize(
    ("asks_for", "said"),
    [
        pytest.param(a_job(workers=2, pool=PoolName("h100")), "not of pool h100", id="pool"),
        pytest.param(a_job(workers=2, gpu_models=(GpuModel("H100"),)), "got GPU", id="model"),
        pytest.param(
            a_job(workers=2, topology=TopologyRequest(required=LevelName("node"))),
            "wider than one node",
            id="required level",
        ),
    ],
)
def test_a_gang_that_stands_where_it_must_not_is_found(asks_for: Job, said: str) -> None:
    snapshot, plan = a_decision()
    first = snapshot.pending[0]
    other = replace(first, spec=asks_for.spec)
    with pytest.raises(BrokenPlanError, match=said):
        check_plan(replace(snapshot, pending=(other, *snapshot.pending[1:])), plan)


def test_what_others_hold_counts() -> None:
    snapshot, plan = a_decision()
    holding = a_snapshot(CLUSTER, running=[(a_job("r", gpus=1), {"r1-n0": 1})]).holding
    with pytest.raises(BrokenPlanError, match="r1-n0: 9 of 8 GPUs"):
        check_plan(replace(snapshot, holding=holding), plan)


def test_all_broken_promises_are_named() -> None:
    snapshot, plan = a_decision()
    start: tuple[Start, ...] = moved(plan, "a", "r1-n0").start
    with pytest.raises(BrokenPlanError, match=r"no answer.*not whole"):
        check_plan(snapshot, replace(plan, blocked={}, start=start))
