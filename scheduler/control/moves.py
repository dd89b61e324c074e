"""The next move of one gang: a pure function of its records, its workers' reports and the time.

reports   ──▶ ends are recorded, their GPUs freed: together, if the rest of the gang ends at once
all down  ──▶ Ended, and the job goes where the failure table says
a reason  ──▶ Stopping: a worker ended, a cancel, a lost node, a time that has passed
else      ──▶ Reserved ▶ Preparing ▶ Prepared ▶ Released ▶ Running, as the workers come up
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scheduler.control import events
from scheduler.control.gang import Gang
from scheduler.domain.copying import copier_of, maker_of, quickly_made, replace
from scheduler.domain.cordon import Leaving
from scheduler.domain.event import Event
from scheduler.domain.explain import (
    explain_held_back,
    explain_leaving,
    explain_outcome,
    explain_stop,
)
from scheduler.domain.failures import after_end, run_time_of
from scheduler.domain.ids import NodeName, QueueName, Rank
from scheduler.domain.instants import Duration, Instant, after, seconds
from scheduler.domain.job import (
    Attempt,
    AttemptPhase,
    Job,
    JobPhase,
    Outcome,
    StopCause,
    WorkerEnd,
)
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.patience import carried_on
from scheduler.domain.restarts import evicted
from scheduler.ports.cluster import WorkerState

ENDS_GATHERED = seconds(1)
"""So long the GPUs of the first workers that end wait for those of the rest of their gang: what
comes piece by piece goes to small gangs, past those that wait for all of it (record 0019)."""

FOR_OTHERS = frozenset({StopCause.PREEMPT, StopCause.UPGRADE})

BEFORE_RELEASE = frozenset({AttemptPhase.RESERVED, AttemptPhase.PREPARING, AttemptPhase.PREPARED})
"""No worker has run a line of the user's code yet: there is nothing to save in a grace."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When a move is looked for, and by which rules."""

    now: Instant
    knobs: PolicyKnobs
    reachable_since: Instant | None
    """Since when the cluster answers; None while it does not."""
    lost_nodes: frozenset[NodeName] = frozenset()
    """Nodes that have been unready or missing for too long."""
    leaving: Mapping[NodeName, Leaving] = field(default_factory=dict)
    """Nodes that their gangs are to leave, and why."""
    own_knobs: Mapping[QueueName, PolicyKnobs] = field(default_factory=dict)
    """Of the queues that have some."""

    def knobs_of(self, queue: QueueName) -> PolicyKnobs:
        """The knobs that hold in a queue."""
        return self.own_knobs.get(queue, self.knobs)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One step of a gang, written as one unit."""

    gang: Gang
    """After the move."""
    freed: tuple[Rank, ...] = ()
    """Ranks whose reservations end."""
    events: tuple[Event, ...] = ()


_move = maker_of(Move)
_with_attempt = copier_of(Gang, "attempt")
_with_both = copier_of(Gang, "job", "attempt")
_freed = copier_of(Gang, "attempt", "reservations")
_with_job = copier_of(Gang, "job")
_since = copier_of(Attempt, "running_since")
_judged = copier_of(Attempt, "outcome", "message")
_first_started = copier_of(Job, "first_started_at", "revision")


def next_move(gang: Gang, moment: Moment) -> Move | None:
    """The next move; None to wait. The request of the gang's phase has been made to the cluster."""
    if moment.reachable_since is None:
        # Nothing that is said of the workers can be trusted now; what the user says can.
        return _stop_if_asked(gang, moment)
    if gang.is_untouched and not moment.lost_nodes:
        # What follows comes to the same, after asking every rank for its end several times over.
        return _move_whole(gang, moment)
    ends = gang.new_ends(moment.now, moment.lost_nodes)
    known = gang.with_ends(ends)
    move = (
        _end_if_down(known, moment)
        or _stop_if_due(known, moment)
        or _stop_sooner(known, moment)
        or _rise(known, moment)
        or (Move(gang=known) if ends and not _is_gathering(gang, moment) else None)
    )
    if move is None or not ends:
        return move
    return replace(move, freed=(*(end.rank for end in ends), *move.freed))


def _is_gathering(gang: Gang, moment: Moment) -> bool:
    """Whether ends that decide nothing wait for those of the rest of the gang."""
    until = gang.gathers_until(ENDS_GATHERED)
    # A clock that is ahead of ours would hold the GPUs for as long.
    return until is not None and moment.now < until <= after(moment.now, ENDS_GATHERED)


def _move_whole(gang: Gang, moment: Moment) -> Move | None:
    """The next move of a gang all of whose workers are there, on nodes that are not lost."""
    if gang.attempt.phase is AttemptPhase.STOPPING:
        return _stop_sooner(gang, moment)
    cause = gang.job.stop_requested
    if cause is None and moment.leaving:
        cause = _drain(gang, moment)
    if cause is None:
        cause = _time_out(gang, moment)
    return _rise(gang, moment) if cause is None else _stop(gang, cause, moment)


def next_due(gang: Gang, moment: Moment) -> Instant | None:
    """When the passing of time alone may bring a move; later than now."""
    attempt, spec = gang.attempt, gang.job.spec
    gathers_until = None
    if len(gang.reports) > 1 and not gang.is_untouched:
        gathers_until = gang.gathers_until(ENDS_GATHERED)
    if (
        attempt.phase is AttemptPhase.RUNNING
        and spec.run_time_max is None
        and spec.hang_timeout is None
        and gathers_until is None
    ):
        # Most gangs that run wait for nothing but their end.
        return None
    instants = [] if gathers_until is None else [gathers_until]
    if attempt.phase is AttemptPhase.STOPPING:
        if attempt.kill_at is not None and moment.lost_nodes:
            instants.append(attempt.kill_at)
    else:
        if attempt.phase is not AttemptPhase.RUNNING:
            instants.append(_start_timeout_at(gang, moment))
        if spec.run_time_max is not None:
            instants.append(after(attempt.created_at, spec.run_time_max))
        overdue_at = hang_at(gang)
        if overdue_at is not None:
            instants.append(overdue_at)
    return min([at for at in instants if at > moment.now], default=None)


def hang_at(gang: Gang) -> Instant | None:
    """When the gang counts as hung if no step is reported till then."""
    timeout, since = gang.job.spec.hang_timeout, gang.attempt.running_since
    if timeout is None or since is None:
        return None
    return after(max(since, gang.last_step_at or since), timeout)


def _end_if_down(gang: Gang, moment: Moment) -> Move | None:
    if not gang.is_down():
        return None
    started = _ran_unseen(gang, moment)
    if started is not None:
        gang = started.gang
    attempt = gang.attempt
    is_stopping = attempt.phase is AttemptPhase.STOPPING
    outcome = attempt.outcome if is_stopping else gang.verdict()
    assert outcome is not None, gang.key
    message = attempt.message if is_stopping else _message(gang, outcome)
    if gang.job.stop_requested is StopCause.CANCEL and outcome is not Outcome.COMPLETED:
        outcome = Outcome.CANCELLED_BY_USER
        message = explain_outcome(outcome)
    ended = _judged(
        attempt.moved_to(AttemptPhase.ENDED, at=moment.now), outcome=outcome, message=message
    )
    freed = tuple([held.rank for held in gang.reservations])
    gang = _freed(gang, attempt=ended, reservations=())
    gang = _job_after_end(gang, outcome, moment)
    told = events.attempt_ended(gang.job, ended, moment.now)
    before = started.events if started is not None else ()
    return _move(gang=gang, freed=freed, events=(*before, told))


def _ran_unseen(gang: Gang, moment: Moment) -> Move | None:
    """A gang that ran and ended between two looks has been Running all the same."""
    ran = all(end.exit_code is not None for end in gang.attempt.worker_ends)
    if gang.attempt.phase is not AttemptPhase.RELEASED or not ran:
        return None
    return _to_running(gang, moment)


def _job_after_end(gang: Gang, outcome: Outcome, moment: Moment) -> Gang:
    end = gang.deciding_end
    run_time = run_time_of(gang.attempt)
    then = after_end(
        gang.job,
        outcome,
        exit_code=None if end is None else end.exit_code,
        run_time=run_time,
        knobs=moment.knobs_of(gang.job.spec.queue),
    )
    moved = gang.job.moved_to(
        then.phase, at=moment.now, reason=outcome, message=gang.attempt.message
    )
    is_node_lost = outcome is Outcome.NODE_LOST and then.phase is JobPhase.PENDING
    job = replace(
        moved,
        former=gang.attempt.placement if is_node_lost else None,
        not_before=after(moment.now, then.backoff) if then.backoff else None,
        stop_requested=None,
        stop_now=False,
        ran_for=Duration(moved.ran_for + run_time),
        waiting=carried_on(moved.waiting, run_time, moment.now),
        promised=moved.promised if outcome is Outcome.UPGRADED else None,
        restarts_user=then.restarts_user,
        restarts_infra=then.restarts_infra,
        failures_in_row=then.failures_in_row,
        revision=gang.job.revision + 1,
    )
    if outcome in {Outcome.PREEMPTED, Outcome.UPGRADED}:
        knobs = moment.knobs_of(job.spec.queue)
        job = replace(job, evictions=evicted(job, run_time, knobs, moment.now))
    return _with_job(gang, job=job)


def _stop_if_asked(gang: Gang, moment: Moment) -> Move | None:
    if gang.job.stop_requested is None:
        return None
    if gang.attempt.phase is AttemptPhase.STOPPING:
        return _stop_sooner(gang, moment)
    return _stop(gang, gang.job.stop_requested, moment)


def _stop_if_due(gang: Gang, moment: Moment) -> Move | None:
    if gang.attempt.phase is AttemptPhase.STOPPING:
        return None
    cause = _stop_cause(gang, moment)
    return None if cause is None else _stop(gang, cause, moment)


def _stop_cause(gang: Gang, moment: Moment) -> StopCause | None:
    verdict = gang.verdict()
    asked = gang.job.stop_requested
    if verdict is not None and (verdict is Outcome.COMPLETED or asked is None):
        return StopCause.WORKER_ENDED
    if asked is not None:
        return asked
    ended, lost = gang.ended_ranks, moment.lost_nodes
    if any(node in lost for rank, node in enumerate(gang.nodes) if rank not in ended):
        return StopCause.NODE_LOST
    return _drain(gang, moment) or _time_out(gang, moment)


def _drain(gang: Gang, moment: Moment) -> StopCause | None:
    return None if _left(gang, moment) is None else StopCause.DRAIN


def _left(gang: Gang, moment: Moment) -> Leaving | None:
    """Why the gang is to leave a node that a worker of it still is on."""
    if not moment.leaving:
        return None
    ended = gang.ended_ranks
    nodes = (node for rank, node in enumerate(gang.nodes) if rank not in ended)
    return next((moment.leaving[node] for node in nodes if node in moment.leaving), None)


def _time_out(gang: Gang, moment: Moment) -> StopCause | None:
    attempt, run_time_max = gang.attempt, gang.job.spec.run_time_max
    if run_time_max is not None and moment.now >= after(attempt.created_at, run_time_max):
        return StopCause.DEADLINE
    if attempt.phase is not AttemptPhase.RUNNING:
        return StopCause.START_TIMEOUT if moment.now >= _start_timeout_at(gang, moment) else None
    overdue_at = hang_at(gang)
    return StopCause.HANG if overdue_at is not None and moment.now >= overdue_at else None


def _start_timeout_at(gang: Gang, moment: Moment) -> Instant:
    # An outage is not the gang's fault: its time starts again when the cluster answers.
    since, answers_since = gang.attempt.created_at, moment.reachable_since
    if answers_since is not None and answers_since > since:
        since = answers_since
    own = moment.own_knobs
    knobs = moment.knobs_of(gang.job.spec.queue) if own else moment.knobs
    return after(since, knobs.start_timeout)


def _stop(gang: Gang, cause: StopCause, moment: Moment) -> Move:
    outcome = gang.outcome_of_stop(cause)
    if cause is StopCause.WORKER_ENDED:
        message = told = _message(gang, outcome)
    elif cause in FOR_OTHERS and gang.job.message:
        # For whose sake and at what price was noted when it was decided.
        message, told = gang.job.message, f"{explain_outcome(outcome)}: {gang.job.message}"
    elif cause is StopCause.DRAIN and (left := _left(gang, moment)) is not None:
        message = explain_leaving(left)
        told = f"{explain_outcome(outcome)}: {message}"
    else:
        message, told = explain_stop(cause), explain_outcome(outcome)
    attempt = replace(
        gang.attempt.moved_to(AttemptPhase.STOPPING, at=moment.now),
        stop_cause=cause,
        kill_at=_kill_at(gang, moment),
        outcome=outcome,
        message=told,
    )
    job = gang.job.moved_to(JobPhase.STOPPING, at=moment.now, reason=cause, message=message)
    gang = replace(gang, job=job, attempt=attempt)
    return Move(gang=gang, events=(events.gang_stopping(job, attempt, moment.now),))


def _kill_at(gang: Gang, moment: Moment) -> Instant:
    if gang.job.stop_now or gang.attempt.phase in BEFORE_RELEASE:
        return moment.now
    return after(moment.now, gang.job.spec.checkpoint.grace)


def _stop_sooner(gang: Gang, moment: Moment) -> Move | None:
    """`cancel --now` ends a grace that has begun."""
    attempt = gang.attempt
    if attempt.phase is not AttemptPhase.STOPPING or not gang.job.stop_now:
        return None
    if attempt.kill_at is not None and attempt.kill_at <= moment.now:
        return None
    return Move(gang=replace(gang, attempt=replace(attempt, kill_at=moment.now)))


def _rise(gang: Gang, moment: Moment) -> Move | None:
    """On to the next phase, if its workers have come so far."""
    rise = _RISES.get(gang.attempt.phase)
    return None if rise is None else rise(gang, moment)


def _to_preparing(gang: Gang, moment: Moment) -> Move:
    return _to_phase(gang, AttemptPhase.PREPARING, moment)


def _to_prepared(gang: Gang, moment: Moment) -> Move | None:
    if not gang.in_state(*_MADE):
        return None
    attempt = gang.attempt.moved_to(AttemptPhase.PREPARED, at=moment.now)
    told = events.gang_prepared(gang.job, attempt, moment.now)
    return _move(gang=_with_attempt(gang, attempt=attempt), events=(told,))


def _to_released(gang: Gang, moment: Moment) -> Move:
    return _to_phase(gang, AttemptPhase.RELEASED, moment)


def _to_running_or_held_back(gang: Gang, moment: Moment) -> Move | None:
    return _to_running(gang, moment) if gang.in_state(*_UP) else _held_back(gang)


def _held_back(gang: Gang) -> Move | None:
    """What the cluster says keeps the first of the workers from running becomes the job's message,
    and is taken back when nothing does any more."""
    waiting = (
        report
        for _, report in sorted(gang.reports.items())
        if report.state is WorkerState.MADE and report.message
    )
    first = next(waiting, None)
    message = "" if first is None else explain_held_back(first.rank, first.node, first.message)
    if message == gang.job.message:
        return None
    return Move(gang=replace(gang, job=replace(gang.job, message=message)))


def _to_phase(gang: Gang, phase: AttemptPhase, moment: Moment) -> Move:
    return _move(gang=_with_attempt(gang, attempt=gang.attempt.moved_to(phase, at=moment.now)))


def _to_running(gang: Gang, moment: Moment) -> Move:
    attempt = _since(
        gang.attempt.moved_to(AttemptPhase.RUNNING, at=moment.now), running_since=moment.now
    )
    started_at = gang.job.first_started_at
    job = _first_started(
        gang.job.moved_to(JobPhase.RUNNING, at=moment.now),
        first_started_at=moment.now if started_at is None else started_at,
        revision=gang.job.revision + 1,
    )
    gang = _with_both(gang, job=job, attempt=attempt)
    return _move(gang=gang, events=(events.gang_started(job, attempt, moment.now),))


_MADE = (WorkerState.MADE, WorkerState.RUNNING, WorkerState.ENDED)
_UP = (WorkerState.RUNNING, WorkerState.ENDED)

_RISES: Mapping[AttemptPhase, Callable[[Gang, Moment], Move | None]] = {
    AttemptPhase.RESERVED: _to_preparing,
    AttemptPhase.PREPARING: _to_prepared,
    AttemptPhase.PREPARED: _to_released,
    AttemptPhase.RELEASED: _to_running_or_held_back,
}


def _message(gang: Gang, outcome: Outcome) -> str:
    end: WorkerEnd | None = None if outcome is Outcome.COMPLETED else gang.deciding_end
    return explain_outcome(outcome, end=end, node=gang.nodes[end.rank] if end else None)
