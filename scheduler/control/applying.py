"""Plan -> effects, one gang at a time: each is claimed only if its job is as the plan saw it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.control import events
from scheduler.control.lessons import lessons_of_end
from scheduler.control.live_jobs import LiveJobs
from scheduler.control.outside import Outside
from scheduler.control.writing import revised
from scheduler.domain.copying import copier_of, maker_of, quickly_made, replace
from scheduler.domain.errors import ConflictError
from scheduler.domain.event import Event
from scheduler.domain.explain import explain_eviction
from scheduler.domain.ids import AttemptNumber, Epoch, JobId, JobName, NodeName, Rank
from scheduler.domain.instants import Instant, elapsed, in_seconds
from scheduler.domain.job import Attempt, Job, JobPhase, Outcome
from scheduler.domain.patience import HeldDomain
from scheduler.domain.plan import Plan, Start, Stop
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.snapshot import RunningGang
from scheduler.domain.topology import Node
from scheduler.domain.waits import WaitObservation
from scheduler.ports.kill_points import KillPoint, reach
from scheduler.ports.unit import RecordWaits, Reserve, SaveAttempt, SaveJob, Unit


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What became of the starts of a plan."""

    job_ids: tuple[JobId, ...]
    has_lost_a_race: bool
    """A job had changed since the snapshot: the next cycle decides again."""


def withdraw_promises(plan: Plan, live: LiveJobs, outside: Outside, *, epoch: Epoch) -> bool:
    """Give what void promises keep back to all; whether a race was lost.

    Then nothing of the plan may be applied: its starts may stand where such a promise still holds.
    """
    void = [replace(live.pending[each.job_id], promised=None) for each in plan.withdraw]
    changes = tuple(
        SaveJob(job=job, expected_revision=each.revision)
        for job, each in zip(void, plan.withdraw, strict=True)
    )
    if not changes:
        return False
    try:
        live.write(Unit(changes=changes, epoch=epoch), outside.store)
    except ConflictError:
        outside.sink.emit("withdrawals_lost", {"jobs": len(void)})
        return True
    for job in void:
        live.changed(revised(job, job))
        outside.sink.emit("promise_withdrawn", {"job": job.id})
    return False


def claim_starts(
    plan: Plan, live: LiveJobs, nodes: Iterable[Node], outside: Outside, *, epoch: Epoch
) -> Claimed:
    """Reserve for each start of the plan: job, attempt, reservations and event in one unit."""
    now = outside.clock.now()
    indices = FreeIndices(nodes, live.attempts.values(), live.held_besides)
    claimed: list[JobId] = []
    waits: dict[JobId, list[WaitObservation]] = {}
    for wait in plan.observations:
        waits.setdefault(wait.job_id, []).append(wait)
    for start in plan.start:
        job = live.pending[start.job_id]
        number = live.next_start_number()
        unit, taken = _claim(job, start, indices, epoch=epoch, now=now, start_number=number)
        learned = waits.get(job.id)
        if learned:
            unit = _with_lessons(unit, taken, tuple(learned), now)
        reach(KillPoint.LAUNCH_BEFORE_RESERVE)
        try:
            live.write(unit, outside.store)
        except ConflictError:
            outside.sink.emit("claim_lost", {"job": job.id})
            indices.give_back(taken.reservations)
            continue
        reach(KillPoint.LAUNCH_AFTER_RESERVE)
        live.put(taken.job, taken)
        claimed.append(job.id)
        if outside.is_listened_to:
            _tell_placed(job, taken.attempt, outside, now)
    return Claimed(job_ids=tuple(claimed), has_lost_a_race=len(claimed) < len(plan.start))


def _tell_placed(job: Job, attempt: Attempt, outside: Outside, now: Instant) -> None:
    outside.sink.emit(
        "gang_placed",
        {
            "job": job.id,
            "queue": job.spec.queue,
            "attempt": attempt.number,
            "workers": job.spec.workers,
            "gpus": job.spec.gpus,
            "tier": attempt.placement.tier_name,
            "waited_s": in_seconds(elapsed(job.phase_since, now)),
        },
    )


def _with_lessons(
    unit: Unit, taken: RunningGang, learned: tuple[WaitObservation, ...], now: Instant
) -> Unit:
    """A claim with what its job's wait has taught; a wait in vain is told."""
    in_vain = [wait for wait in learned if wait.is_censored]
    told = (events.timer_expired(taken.job, taken.attempt, in_vain, now),) if in_vain else ()
    return replace(
        unit,
        changes=(*unit.changes, RecordWaits(waits=learned)),
        events=(*told, *unit.events),
    )


def claim_stops(plan: Plan, live: LiveJobs, outside: Outside, *, epoch: Epoch) -> Claimed:
    """Mark the gangs the plan stops, and promise what they leave: all in one unit, or nothing.

    A promise without its stops would wait for GPUs that nobody leaves.
    """
    changed = _stopped_and_promised(plan, live) if plan.stop or plan.promise else {}
    if not changed:
        return Claimed(job_ids=(), has_lost_a_race=False)
    jobs = tuple(changed.values())
    changes = tuple(SaveJob(job=job, expected_revision=job.revision) for job in jobs)
    told = tuple(_evictions(plan, live, outside.clock.now()))
    reach(KillPoint.RUN_BEFORE_PREEMPT)
    try:
        live.write(Unit(changes=changes, events=told, epoch=epoch), outside.store)
    except ConflictError:
        outside.sink.emit("stops_lost", {"jobs": len(jobs)})
        return Claimed(job_ids=(), has_lost_a_race=True)
    reach(KillPoint.RUN_AFTER_PREEMPT)
    for job in jobs:
        live.changed(revised(job, job))
    for stop in plan.stop:
        facts = {"job": stop.job_id, "cause": stop.cause, "beneficiary": stop.beneficiary}
        outside.sink.emit("gang_evicted", facts)
    return Claimed(job_ids=tuple(stop.job_id for stop in plan.stop), has_lost_a_race=False)


def _stopped_and_promised(plan: Plan, live: LiveJobs) -> dict[JobId, Job]:
    """The jobs of the plan's stops and promises as they are to be; one that moves is in both."""
    changed: dict[JobId, Job] = {}
    for stop in plan.stop:
        job = live.attempts[stop.job_id].job
        changed[job.id] = replace(
            job,
            revision=stop.revision,
            stop_requested=stop.cause,
            message=explain_eviction(
                stop.cause, price=stop.price, beneficiary=_beneficiary(stop, live)
            ),
        )
    for to in plan.promise:
        known = changed.get(to.job_id) or live.pending[to.job_id]
        changed[known.id] = replace(known, revision=to.revision, promised=to.placement)
    return changed


def _beneficiary(stop: Stop, live: LiveJobs) -> JobName | None:
    """The name of the job that a gang is stopped for; None if it moves, or nobody waits for it."""
    job = live.pending.get(stop.beneficiary) if stop.beneficiary else None
    return None if job is None else job.name


def _evictions(plan: Plan, live: LiveJobs, now: Instant) -> Iterator[Event]:
    """One event a stop: for whom, and at what price."""
    for stop in plan.stop:
        gang = live.attempts[stop.job_id]
        name = _beneficiary(stop, live)
        yield events.gang_evicted(gang.job, gang.attempt, stop, now, beneficiary=name)


def claim_waits(plan: Plan, live: LiveJobs, outside: Outside, *, epoch: Epoch) -> bool:
    """Note the waits of jobs that have declined an offer, in one unit; whether to decide again."""
    jobs = [
        replace(live.pending[wait.job_id], revision=wait.revision, waiting=wait.episode)
        for wait in plan.waits
    ]
    if not jobs:
        return False
    changes = tuple(SaveJob(job=job, expected_revision=job.revision) for job in jobs)
    told = tuple(_declined(jobs, live, outside.clock.now()))
    try:
        live.write(Unit(changes=changes, events=told, epoch=epoch), outside.store)
    except ConflictError:
        outside.sink.emit("waits_lost", {"jobs": len(jobs)})
        return True
    must_look_again = False
    for job in jobs:
        if _held_of(live.pending[job.id]) == _held_of(job):
            live.noted(revised(job, job))
        else:
            # Who holds a domain may stand elsewhere in the line.
            live.changed(revised(job, job))
            must_look_again = True
    return must_look_again


def _declined(jobs: Iterable[Job], live: LiveJobs, now: Instant) -> Iterator[Event]:
    """Events of the jobs that begin to hold out; repeats of one episode are folded."""
    for job in jobs:
        before = live.pending[job.id].waiting
        held_out = before is not None and before.runs_since is not None
        if job.waiting is not None and job.waiting.runs_since is not None and not held_out:
            yield events.offer_declined(job, job.waiting, now)


def _held_of(job: Job) -> HeldDomain | None:
    return None if job.waiting is None else job.waiting.held


def cancel_waiting(live: LiveJobs, outside: Outside, *, epoch: Epoch) -> bool:
    """End the jobs that hold nothing and were asked to stop; whether a race was lost."""
    if not live.waiting_to_stop:
        return False
    now = outside.clock.now()
    has_lost = False
    for job in [live.waiting_to_stop[job_id] for job_id in sorted(live.waiting_to_stop)]:
        outcome = Outcome.CANCELLED_BY_USER
        cancelled = replace(
            job.moved_to(
                JobPhase.CANCELLED, at=now, reason=outcome, message="cancelled before it started"
            ),
            stop_requested=None,
        )
        unit = Unit(
            changes=(
                SaveJob(job=cancelled, expected_revision=job.revision),
                *lessons_of_end(job, cancelled),
            ),
            events=(events.job_cancelled(cancelled, now),),
            epoch=epoch,
        )
        try:
            live.write(unit, outside.store)
        except ConflictError:
            has_lost = True
        else:
            live.drop(job.id)
    return has_lost


class FreeIndices:
    """Which GPUs of each node are free, by number, on nodes where we say who gets which."""

    def __init__(
        self,
        nodes: Iterable[Node],
        attempts: Iterable[RunningGang],
        besides: Iterable[Reservation] = (),
    ) -> None:
        self._free: dict[NodeName, list[int]] = {
            node.name: list(node.gpu_indices) for node in nodes if node.gpu_indices is not None
        }
        # Where the cluster numbers its GPUs itself there is nothing to look for.
        if self._free:
            self._hold(besides)
            for live in attempts:
                self._hold(live.reservations)

    def take(self, node: NodeName, gpus: int) -> tuple[int, ...] | None:
        """The lowest free numbers; None where the cluster decides."""
        free = self._free.get(node)
        if free is None:
            return None
        assert len(free) >= gpus, f"{node} has {len(free)} free GPUs, not {gpus}"
        self._free[node] = free[gpus:]
        return tuple(free[:gpus])

    def give_back(self, reservations: Iterable[Reservation]) -> None:
        """What was taken for a claim that was lost."""
        for held in reservations:
            if held.gpu_indices:
                self._free[held.node] = sorted((*self._free[held.node], *held.gpu_indices))

    def _hold(self, reservations: Iterable[Reservation]) -> None:
        for held in reservations:
            free = self._free.get(held.node)
            if free is not None and held.gpu_indices:
                self._free[held.node] = [n for n in free if n not in held.gpu_indices]


_attempt, _reservation = maker_of(Attempt), maker_of(Reservation)
_save_job, _unit, _running_gang = maker_of(SaveJob), maker_of(Unit), maker_of(RunningGang)
_placed = copier_of(
    Job,
    *("revision", "attempts", "not_before", "promised", "former", "waiting"),
    *("last_placed_at", "start_number"),
)


def _claim(
    job: Job,
    start: Start,
    indices: FreeIndices,
    *,
    epoch: Epoch,
    now: Instant,
    start_number: int,
) -> tuple[Unit, RunningGang]:
    number = AttemptNumber(job.attempts)
    attempt = _attempt(
        job_id=job.id,
        number=number,
        phase_since=now,
        epoch=epoch,
        placement=start.placement,
        created_at=now,
    )
    starting = _placed(
        job.moved_to(JobPhase.STARTING, at=now),
        revision=job.revision + 1,
        attempts=job.attempts + 1,
        not_before=None,
        promised=None,
        former=None,
        waiting=None if job.waiting is None else job.waiting.standing(now),
        last_placed_at=now,
        start_number=start_number,
    )
    reservations = _reservations(job, attempt, indices)
    unit = _unit(
        changes=(
            _save_job(job=starting, expected_revision=start.revision),
            SaveAttempt(attempt=attempt),
            Reserve(reservations=reservations),
        ),
        events=(events.gang_placed(starting, attempt, now),),
        epoch=epoch,
    )
    taken = _running_gang(job=starting, attempt=attempt, reservations=reservations)
    return unit, taken


def _reservations(job: Job, attempt: Attempt, indices: FreeIndices) -> tuple[Reservation, ...]:
    roles_by_name = {role.name: role for role in job.spec.roles}
    key = AttemptKey(job.id, attempt.number)
    return tuple(
        [
            _reservation(
                attempt=key,
                role=role,
                rank=Rank(rank),
                node=node,
                gpus=roles_by_name[role].gpus_per_worker,
                resources=roles_by_name[role].resources,
                gpu_indices=indices.take(node, roles_by_name[role].gpus_per_worker),
            )
            for rank, (role, node) in enumerate(attempt.placement.node_of_ranks())
        ]
    )
