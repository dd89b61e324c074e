"""What the loop tells of each move; one event a transition, written with it."""

from collections.abc import Iterable

from scheduler.domain.copying import maker_of
from scheduler.domain.cordon import Cordon
from scheduler.domain.event import Event, EventKind
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.explain import (
    clock_time,
    explain_cordon,
    explain_declined,
    explain_eviction,
    explain_exclusion,
    explain_given_up,
    explain_placement,
    explain_retuned,
    explain_stop,
)
from scheduler.domain.ids import JobName, NodeName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Attempt, Job, JobPhase, Outcome, StopCause
from scheduler.domain.patience import WaitEpisode
from scheduler.domain.plan import Stop
from scheduler.domain.timers import TimerRow
from scheduler.domain.waits import WaitObservation

WARNING_CAUSES = frozenset(StopCause) - {StopCause.CANCEL, StopCause.UPGRADE}

ENDS = {
    JobPhase.SUCCEEDED: "JobSucceeded",
    JobPhase.FAILED: "JobFailed",
    JobPhase.CANCELLED: "JobCancelled",
}


_event = maker_of(Event)


def gang_placed(job: Job, attempt: Attempt, at: Instant) -> Event:
    """The job got a placement and its GPUs are reserved."""
    return _of(job, attempt, "GangPlaced", explain_placement(attempt.placement), at)


def gang_prepared(job: Job, attempt: Attempt, at: Instant) -> Event:
    """Every worker exists and waits at the barrier."""
    return _of(job, attempt, "GangPrepared", "every worker is made and waits for the others", at)


def gang_started(job: Job, attempt: Attempt, at: Instant) -> Event:
    """Every worker runs."""
    return _of(job, attempt, "GangStarted", "every worker runs", at)


def offer_declined(job: Job, episode: WaitEpisode, at: Instant) -> Event:
    """The job could start, and holds out for closer GPUs."""
    return _of(job, None, "OfferDeclined", explain_declined(episode), at)


def timer_expired(
    job: Job, attempt: Attempt, waits: Iterable[WaitObservation], at: Instant
) -> Event:
    """The job has held out in vain."""
    return _of(job, attempt, "TimerExpired", explain_given_up(waits), at)


def gang_evicted(
    job: Job, attempt: Attempt, stop: Stop, at: Instant, *, beneficiary: JobName | None
) -> Event:
    """A gang is to be stopped: for whose sake, and what it loses."""
    message = explain_eviction(stop.cause, price=stop.price, beneficiary=beneficiary)
    is_upgrade = stop.cause is StopCause.UPGRADE
    return _of(job, attempt, "GangUpgraded" if is_upgrade else "GangPreempted", message, at)


def gang_stopping(job: Job, attempt: Attempt, at: Instant) -> Event:
    """The gang is being stopped."""
    cause = attempt.stop_cause
    assert cause is not None
    is_success = attempt.outcome is Outcome.COMPLETED
    kind = EventKind.WARNING if cause in WARNING_CAUSES and not is_success else EventKind.NORMAL
    message = attempt.message or explain_stop(cause)
    return _of(job, attempt, f"GangStoppedFor{cause}", message, at, kind=kind)


def attempt_ended(job: Job, attempt: Attempt, at: Instant) -> Event:
    """The attempt is over: the job has ended with it, or waits to start again."""
    if job.phase.is_terminal:
        is_failure = job.phase is JobPhase.FAILED
        kind = EventKind.WARNING if is_failure else EventKind.NORMAL
        return _of(job, attempt, ENDS[job.phase], attempt.message, at, kind=kind)
    if job.not_before is None:
        return _of(job, attempt, "JobRequeued", attempt.message, at)
    message = f"{attempt.message}; starts again from {clock_time(job.not_before)} on"
    return _of(job, attempt, "JobRestarting", message, at, kind=EventKind.WARNING)


def job_cancelled(job: Job, at: Instant) -> Event:
    """A job that held nothing was cancelled."""
    return _of(job, None, ENDS[JobPhase.CANCELLED], job.message, at)


def timer_retuned(before: TimerRow | None, row: TimerRow, at: Instant) -> Event:
    """The tuner's timer of a demand and level has moved."""
    message = explain_retuned(row, None if before is None else before.timer)
    return Event(reason="TimersRetuned", message=message, at=at)


def node_cordoned(cordon: Cordon) -> Event:
    """An admin keeps workers from a node, or drains it."""
    return Event(
        reason="NodeDraining" if cordon.is_drain else "NodeCordoned",
        message=explain_cordon(cordon.node, cordon, by=cordon.by, reason=cordon.reason),
        at=cordon.at,
        actor=cordon.by,
        node=cordon.node,
    )


def node_left_alone(node: NodeName, exclusion: Exclusion, *, at: Instant) -> Event:
    """A node gets no new workers for a while."""
    message = explain_exclusion(node, exclusion)
    kind = EventKind.WARNING
    return Event(reason="NodeLeftAlone", message=message, at=at, kind=kind, node=node)


def node_uncordoned(node: NodeName, *, by: str, reason: str, at: Instant) -> Event:
    """An admin lets workers come to a node again."""
    message = explain_cordon(node, None, by=by, reason=reason)
    return Event(reason="NodeUncordoned", message=message, at=at, actor=by, node=node)


def _of(
    job: Job,
    attempt: Attempt | None,
    reason: str,
    message: str,
    at: Instant,
    *,
    kind: EventKind = EventKind.NORMAL,
) -> Event:
    return _event(
        reason=reason,
        message=message,
        at=at,
        kind=kind,
        project=job.project,
        job_id=job.id,
        job_name=job.name,
        attempt=None if attempt is None else attempt.number,
    )
