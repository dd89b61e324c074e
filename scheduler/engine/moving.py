"""Stops gangs so that others run closer together, and moves gangs that run too far apart.

Each move is tried out on the scratch pad first: where the job would stand, and with the fewest
gangs gone; only then are its victims chosen, and only if it is worth what they lose.
"""

from collections.abc import Sequence

from scheduler.domain.ids import JobId
from scheduler.domain.job import StopCause
from scheduler.domain.placement import (
    Blocked,
    Placement,
    PromisedGpus,
    TooFewGpus,
    WaitingForCloserTier,
)
from scheduler.domain.plan import Promise, Stop
from scheduler.domain.snapshot import RunningGang
from scheduler.engine.making_room import fewest_from_the_end, stay_beside
from scheduler.engine.placing import place_gang
from scheduler.engine.scratch import Scratch
from scheduler.engine.waiting import Waiting
from scheduler.policies.interface import Moves

BENEFICIARIES_MAX = 16
UPGRADES_MAX = 16
"""So many are tried in one cycle; the others in the next ones."""


def stop_for_others(scratch: Scratch, moves: Moves) -> None:
    """Gangs give way to waiting jobs that gain more by it than they lose."""
    waiting_jobs = [
        waiting
        for waiting in (scratch.standing.line[job_id] for job_id in _measured(scratch))
        if waiting.job.id not in scratch.leaves_line()
        and isinstance(_answer(waiting, scratch), TooFewGpus | WaitingForCloserTier)
        and moves.stake(waiting.job)
    ]
    waiting_jobs.sort(key=lambda waiting: (waiting.key or (), waiting.job.id))
    for waiting in waiting_jobs[:BENEFICIARIES_MAX]:
        _stop_for(waiting, scratch, moves)


def upgrade(scratch: Scratch, moves: Moves) -> None:
    """Gangs move to closer GPUs that are free, the largest saving first."""
    if scratch.standing.all_lie_well:
        return
    for gang in moves.upgradable()[:UPGRADES_MAX]:
        if gang.job.id in {stop.job_id for stop in scratch.stop}:
            continue
        placement = _closer(gang, scratch)
        if placement is not None and moves.is_upgrade(gang, placement):
            scratch.standing.free.take(placement, scratch.standing.request_of(gang.job))
            scratch.has_changed = True
            scratch.offers.clear()
            _move(gang, placement, scratch, moves)


def _measured(scratch: Scratch) -> Sequence[JobId]:
    """Waiting jobs that have run before: only they can have been measured."""
    return sorted(scratch.standing.stopped)


def _answer(waiting: Waiting, scratch: Scratch) -> Blocked | None:
    own = scratch.blocked.get(waiting.job.id)
    return scratch.alike.get(waiting.kind) if own is None else own


def _stop_for(waiting: Waiting, scratch: Scratch, moves: Moves) -> None:
    taken = {stop.job_id for stop in scratch.stop}
    behind = [gang for gang in moves.victims(waiting.job) if gang.job.id not in taken]
    found = fewest_from_the_end(waiting, behind, scratch)
    if found is None:
        return
    first, placement = found
    free = scratch.standing.free
    with free.trial():
        victims = stay_beside(waiting, placement, behind[first:], scratch)
    if not moves.is_worth(waiting.job, victims):
        return
    for gang in victims:
        free.let_go(gang.reservations)
        scratch.leaving.add(gang.job.id)
        scratch.stop.append(
            Stop(
                job_id=gang.job.id,
                revision=gang.job.revision,
                cause=StopCause.PREEMPT,
                beneficiary=waiting.job.id,
                price=moves.price(gang),
            )
        )
    free.take(placement, waiting.request)
    _promise(waiting, placement, scratch)


def _promise(waiting: Waiting, placement: Placement, scratch: Scratch) -> None:
    job = waiting.job
    scratch.has_changed = True
    scratch.parked.clear()
    scratch.offers.clear()
    scratch.takes_back(job)
    scratch.promise.append(Promise(job_id=job.id, revision=job.revision, placement=placement))
    scratch.comes(job, placement)
    scratch.blocked[job.id] = PromisedGpus(
        level=placement.tier_name,
        nodes=len({assignment.node for assignment in placement.assignments}),
        gpus=waiting.request.gpus,
    )


def _closer(gang: RunningGang, scratch: Scratch) -> Placement | None:
    """Where the gang would stand with its own GPUs free as well."""
    request = scratch.standing.request_of(gang.job)

    def find() -> Placement | Blocked:
        free = scratch.standing.free
        with free.trial():
            free.let_go(gang.reservations)
            return place_gang(request, free, scratch.rules)

    answer = scratch.found(("closer", gang.job.id, request), find)
    if not isinstance(answer, Placement) or answer.tier > gang.attempt.placement.tier:
        return None
    return None if answer == gang.attempt.placement else answer


def _move(gang: RunningGang, placement: Placement, scratch: Scratch, moves: Moves) -> None:
    job = gang.job
    scratch.stop.append(
        Stop(
            job_id=job.id,
            revision=job.revision,
            cause=StopCause.UPGRADE,
            beneficiary=job.id,
            price=moves.price(gang),
        )
    )
    scratch.promise.append(Promise(job_id=job.id, revision=job.revision, placement=placement))
