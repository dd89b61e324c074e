"""Where gangs stand that may be stopped or moved: two racks of two nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.domain.ids import JobId
from scheduler.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from scheduler.domain.job import CheckpointRequest, Job, StopCause
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.plan import Plan
from scheduler.domain.snapshot import Measured, RunningGang, Snapshot
from scheduler.engine.cycle import decide
from scheduler.engine.invariants import check_plan
from scheduler.policies.registry import policy_named
from tests.builders import a_cluster, a_job, a_running_gang, a_snapshot, at
from tests.step_times import SaidStepTimes

SAVES = CheckpointRequest(
    path="/ckpt", every=Duration(10 * MINUTE), restart_cost=Duration(30 * SECOND), is_declared=True
)
NOW = at(10 * 3600)
SLOW = (1.0, 1.0, 3.0)


@dataclass(frozen=True)
class SaidLosses:
    """Jobs by id that were measured to run so much slower than at their best tier."""

    lost: Mapping[JobId, float]

    def of(self, job_id: JobId) -> Measured | None:
        """See Measurements."""
        slowdown = self.lost.get(job_id)
        if slowdown is None:
            return None
        return Measured(steps=100, step_s=1.0, compute_s=360, best_s=3600 / slowdown, run_s=3600)


def victim(name: str = "v", **changes: object) -> Job:
    """A job of one node that has run for very long, and says that it stands being stopped."""
    job = a_job(name, checkpoint=SAVES)
    return replace(job, ran_for=Duration(400 * HOUR), **changes)  # type: ignore[arg-type]  # any field


def hurt(
    name: str = "s", *, checkpoint_of: CheckpointRequest | None = None, **changes: object
) -> Job:
    """A gang of two nodes that was stopped before, and lost much by distance."""
    checkpoint = checkpoint_of or CheckpointRequest()
    job = replace(
        a_job(name, workers=2, checkpoint=checkpoint),
        ran_for=Duration(HOUR),
        first_started_at=at(1),
    )
    return replace(job, **changes)  # type: ignore[arg-type]  # any field


def a_world(
    *pending: Job,
    running: Sequence[RunningGang],
    lost: Mapping[str, float] | None = None,
    knobs: PolicyKnobs | None = None,
    now: Instant = NOW,
) -> Snapshot:
    snapshot = a_snapshot(
        "r1: 8 8\nr2: 8 8",
        pending=pending,
        now=now,
        knobs=replace(knobs or PolicyKnobs(), policy="dally"),
    )
    losses = {JobId(f"id-{name}"): by for name, by in (lost or {"s": 3.0}).items()}
    return replace(
        snapshot,
        holding=tuple(running),
        step_times=SaidStepTimes({"s": SLOW, "m": SLOW}),
        measured=SaidLosses(losses),
    )


def on(job: Job, *nodes: str, since: Instant = Instant(0)) -> RunningGang:
    """The job on these nodes, one worker on each."""
    return a_running_gang(a_cluster("r1: 8 8\nr2: 8 8"), job, dict.fromkeys(nodes, 1), since=since)


def planned(snapshot: Snapshot) -> Plan:
    plan = decide(snapshot, policy_named("dally"))
    check_plan(snapshot, plan)
    return plan


def stopped(plan: Plan) -> list[tuple[str, StopCause, str | None]]:
    return [(stop.job_id, stop.cause, stop.beneficiary) for stop in plan.stop]
