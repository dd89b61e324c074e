"""Moves and claims as units of the store, and the kill point around each."""

from collections.abc import Mapping
from enum import Enum

from scheduler.control.gang import Gang
from scheduler.control.lessons import lessons_of_end
from scheduler.control.moves import Move
from scheduler.domain.copying import maker_of, replace
from scheduler.domain.ids import Epoch
from scheduler.domain.job import AttemptPhase, Job, JobPhase, StopCause
from scheduler.ports.kill_points import KillPoint
from scheduler.ports.unit import Change, FreeReservations, SaveAttempt, SaveJob, Unit


class Step(Enum):
    """What a move is to the story of a job: its kill points, before and after it is written."""

    PREPARING = (KillPoint.LAUNCH_BEFORE_PREPARING, KillPoint.LAUNCH_AFTER_PREPARING)
    PREPARED = (KillPoint.LAUNCH_BEFORE_PREPARED, KillPoint.LAUNCH_AFTER_PREPARED)
    RELEASED = (KillPoint.LAUNCH_BEFORE_RELEASED, KillPoint.LAUNCH_AFTER_RELEASED)
    RUNNING = (KillPoint.LAUNCH_BEFORE_RUNNING, KillPoint.LAUNCH_AFTER_RUNNING)
    WORKER_END = (KillPoint.RUN_BEFORE_WORKER_END, KillPoint.RUN_AFTER_WORKER_END)
    STOPPING = (KillPoint.RUN_BEFORE_STOPPING, KillPoint.RUN_AFTER_STOPPING)
    CANCELLING = (KillPoint.CANCEL_BEFORE_STOPPING, KillPoint.CANCEL_AFTER_STOPPING)
    SOONER = (KillPoint.CANCEL_BEFORE_SOONER, KillPoint.CANCEL_AFTER_SOONER)
    RESTART = (KillPoint.RUN_BEFORE_RESTART, KillPoint.RUN_AFTER_RESTART)
    END = (KillPoint.RUN_BEFORE_END, KillPoint.RUN_AFTER_END)
    CANCELLED = (KillPoint.CANCEL_BEFORE_END, KillPoint.CANCEL_AFTER_END)

    def __init__(self, before: KillPoint, after: KillPoint) -> None:
        """The points before and after the write."""
        self.before = before
        self.after = after


_RISING: Mapping[AttemptPhase, Step] = {
    AttemptPhase.PREPARING: Step.PREPARING,
    AttemptPhase.PREPARED: Step.PREPARED,
    AttemptPhase.RELEASED: Step.RELEASED,
    AttemptPhase.RUNNING: Step.RUNNING,
}

_ENDING: Mapping[JobPhase, Step] = {
    JobPhase.PENDING: Step.RESTART,
    JobPhase.SUCCEEDED: Step.END,
    JobPhase.FAILED: Step.END,
    JobPhase.CANCELLED: Step.CANCELLED,
}


_save_job, _save_attempt, _unit = maker_of(SaveJob), maker_of(SaveAttempt), maker_of(Unit)


def step_of(before: Gang, after: Gang) -> Step:
    """What the move from `before` to `after` is."""
    if before.attempt.phase is after.attempt.phase:
        is_sooner = before.attempt.kill_at != after.attempt.kill_at
        return Step.SOONER if is_sooner else Step.WORKER_END
    if after.attempt.phase is AttemptPhase.STOPPING:
        is_cancel = after.attempt.stop_cause is StopCause.CANCEL
        return Step.CANCELLING if is_cancel else Step.STOPPING
    if after.attempt.phase is AttemptPhase.ENDED:
        return _ENDING[after.job.phase]
    return _RISING[after.attempt.phase]


def unit_of(before: Gang, after: Gang, move: Move, epoch: Epoch) -> Unit:
    """The unit that makes a move durable; `after` is its gang as written."""
    changes: list[Change] = []
    if after.job is not before.job:
        changes.append(_save_job(job=after.job, expected_revision=before.job.revision))
    changes.append(_save_attempt(attempt=after.attempt))
    if move.freed:
        changes.append(FreeReservations(attempt=before.key, ranks=tuple(move.freed)))
    if after.job.ended_at is not None:
        changes += lessons_of_end(before.job, after.job)
    return _unit(changes=tuple(changes), events=move.events, epoch=epoch)


def as_written(before: Gang, after: Gang) -> Gang:
    """`after` as the store holds it now: a changed job has the next revision."""
    if after.job is before.job or after.job.revision == before.job.revision + 1:
        return after
    return replace(after, job=revised(after.job, before.job))


def revised(job: Job, before: Job) -> Job:
    """`job` with the revision the store gave it when it replaced `before`."""
    return replace(job, revision=before.revision + 1)
