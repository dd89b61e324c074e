"""Whose failure an ended attempt was, and so what becomes of its job. One table, read from the top.

A failure of the user's program counts against the job's own `maxRestarts`. A failure of the cluster
restarts the job at no cost to it, up to a bound of the cluster's. What we did ourselves for others'
sake (preemption, upgrade) brings the job back without counting at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduler.domain.copying import quickly_made
from scheduler.domain.instants import Duration
from scheduler.domain.job import Attempt, FailurePolicy, Job, JobPhase, Outcome, StopCause
from scheduler.domain.knobs import PolicyKnobs


class Blame(StrEnum):
    """Whose failure an outcome is."""

    NOBODY = "Nobody"
    """The job did what it should."""
    USER = "User"
    """Counts against `maxRestarts`."""
    CLUSTER = "Cluster"
    """Counts against the cluster's own bound."""
    SCHEDULER = "Scheduler"
    """We stopped it for others: it comes back, uncounted and without back-off."""
    FINAL = "Final"
    """It must not start again, whatever the failure policy says."""


BLAME: Mapping[Outcome, Blame] = {
    Outcome.COMPLETED: Blame.NOBODY,
    Outcome.USER_ERROR: Blame.USER,
    Outcome.KILLED: Blame.USER,
    Outcome.OUT_OF_MEMORY: Blame.USER,
    Outcome.HUNG: Blame.USER,
    Outcome.LAUNCH_FAILED: Blame.USER,
    Outcome.IMAGE_PULL_FAILED: Blame.USER,
    Outcome.START_TIMEOUT: Blame.CLUSTER,
    Outcome.NODE_LOST: Blame.CLUSTER,
    Outcome.GPU_UNHEALTHY: Blame.CLUSTER,
    Outcome.ADMISSION_REJECTED: Blame.CLUSTER,
    Outcome.WORKER_LOST: Blame.CLUSTER,
    Outcome.SYSTEM_ERROR: Blame.CLUSTER,
    Outcome.PREEMPTED: Blame.SCHEDULER,
    Outcome.UPGRADED: Blame.SCHEDULER,
    Outcome.DRAINED: Blame.SCHEDULER,
    Outcome.CANCELLED_BY_USER: Blame.FINAL,
    Outcome.DEADLINE_EXCEEDED: Blame.FINAL,
}

OUTCOME_OF_CAUSE: Mapping[StopCause, Outcome] = {
    StopCause.CANCEL: Outcome.CANCELLED_BY_USER,
    StopCause.PREEMPT: Outcome.PREEMPTED,
    StopCause.UPGRADE: Outcome.UPGRADED,
    StopCause.START_TIMEOUT: Outcome.START_TIMEOUT,
    StopCause.DEADLINE: Outcome.DEADLINE_EXCEEDED,
    StopCause.HANG: Outcome.HUNG,
    StopCause.DRAIN: Outcome.DRAINED,
    StopCause.NODE_LOST: Outcome.NODE_LOST,
}
"""What a stop for that cause makes of the attempt; a stop because a worker ended has none fixed."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class AfterEnd:
    """What becomes of a job whose attempt has ended."""

    phase: JobPhase
    backoff: Duration = Duration(0)
    """How long a job that goes back to Pending waits first."""
    restarts_user: int
    restarts_infra: int
    failures_in_row: int


def after_end(
    job: Job,
    outcome: Outcome,
    *,
    exit_code: int | None,
    run_time: Duration,
    knobs: PolicyKnobs,
) -> AfterEnd:
    """The rule of restarts: where the job goes after an attempt with that outcome.

    `run_time` is how long the whole gang ran; a healthy run forgives the failures before it.
    """
    was_healthy = run_time >= knobs.healthy_after
    infra = 0 if was_healthy else job.restarts_infra
    in_row = 0 if was_healthy else job.failures_in_row
    blame = BLAME[outcome]
    if blame in {Blame.NOBODY, Blame.SCHEDULER, Blame.FINAL}:
        return AfterEnd(
            phase=_UNCOUNTED[blame] if outcome is not Outcome.CANCELLED_BY_USER else _CANCELLED,
            restarts_user=job.restarts_user,
            restarts_infra=infra,
            failures_in_row=0 if blame is Blame.NOBODY else in_row,
        )
    is_user = blame is Blame.USER
    may_restart = (
        job.restarts_user < job.spec.failure_policy.restarts_max
        and not _is_fatal(job.spec.failure_policy, exit_code)
        if is_user
        else infra < knobs.restarts_infra_max
    )
    if not may_restart:
        return AfterEnd(
            phase=JobPhase.FAILED,
            restarts_user=job.restarts_user,
            restarts_infra=infra,
            failures_in_row=in_row + 1,
        )
    return AfterEnd(
        phase=JobPhase.PENDING,
        backoff=backoff(in_row, knobs),
        restarts_user=job.restarts_user + is_user,
        restarts_infra=infra + (not is_user),
        failures_in_row=in_row + 1,
    )


def backoff(failures_before: int, knobs: PolicyKnobs) -> Duration:
    """How long to wait after a failure that came after so many others in a row."""
    # Past 2^20 the bound has long been reached; the cap keeps the number small.
    return Duration(
        min(knobs.restart_backoff_max, knobs.restart_backoff * 2 ** min(failures_before, 20))
    )


def run_time_of(attempt: Attempt) -> Duration:
    """How long all workers of an ended attempt ran together; 0 if they never all did."""
    if attempt.running_since is None or attempt.ended_at is None:
        return Duration(0)
    return Duration(max(0, attempt.ended_at - attempt.running_since))


_CANCELLED = JobPhase.CANCELLED
_UNCOUNTED: Mapping[Blame, JobPhase] = {
    Blame.NOBODY: JobPhase.SUCCEEDED,
    Blame.SCHEDULER: JobPhase.PENDING,
    Blame.FINAL: JobPhase.FAILED,
}


def _is_fatal(policy: FailurePolicy, exit_code: int | None) -> bool:
    """Whether the first rule that names the exit code says that the job fails at once."""
    if exit_code is None:
        return False
    for rule in policy.rules:
        if exit_code in rule.exit_codes:
            return rule.action == "Fail"
    return False
