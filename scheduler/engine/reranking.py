"""The second recipe: running gangs are ranked with the jobs that wait, and the first that fit run.

The list of all live jobs by rank, each taking GPUs as far as they go, would be

    rank 1 pending   8 GPUs   gets them: rank 4 has to go
    rank 2 running   8        stays
    rank 3 pending  16        does not fit behind ranks 1 and 2
    rank 4 running   8        is stopped, and rank 1 is promised its GPUs

The walk below comes to that list without taking every running gang up: a job that waits is placed
on what is free; if that fails, the gangs ranked behind it are let go in a trial, and those that
still fit beside it are taken back. A gang given up early is taken back when its own rank comes and
it fits after all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.job import JobPhase, StopCause
from scheduler.domain.placement import Placement, PromisedGpus
from scheduler.domain.plan import Promise, Stop
from scheduler.domain.snapshot import RunningGang
from scheduler.engine.holding import Holds
from scheduler.engine.making_room import fewest_from_the_end, nodes_of, stay_beside
from scheduler.engine.scratch import Scratch
from scheduler.engine.waiting import Waiting
from scheduler.policies.interface import Key, Ranks


@dataclass(slots=True)
class _Ranked:
    """A running gang by rank."""

    rank: Key
    gang: RunningGang
    gpus: int
    may_stop: bool
    is_given_up: bool = False
    beneficiary: JobId | None = None


@dataclass(slots=True)
class _Bench:
    """Running gangs, the first in rank first, and which of them are behind the walk."""

    ranked: list[_Ranked]
    passed: int = 0
    """So many are ranked before the job the walk is at."""
    leaving: set[NodeName] = field(default_factory=set)
    """Nodes of gangs that are given up: their GPUs are free only when these have left."""

    def behind(self) -> Sequence[_Ranked]:
        """Gangs ranked behind the walk that may be stopped and are not given up yet."""
        return [
            each for each in self.ranked[self.passed :] if each.may_stop and not each.is_given_up
        ]


def rerank(scratch: Scratch, ranks: Ranks, holds: Holds | None = None) -> None:
    """Walk the line; jobs start, are promised GPUs of gangs ranked behind them, or wait.

    Nobody is stopped in a held domain: its gangs end there, and it is kept for its holder.
    """
    bench: _Bench | None = None
    for waiting in scratch.walk:
        if waiting.job.id in scratch.settled:
            continue
        if bench is None:
            bench = _Bench(_ranked(scratch, ranks))
        assert waiting.key is not None
        _pass_until(waiting.key, bench, scratch)
        _consider(waiting, bench, scratch, holds)
    if bench is not None:
        _pass_until(None, bench, scratch)
        scratch.stop.extend(
            Stop(
                job_id=each.gang.job.id,
                revision=each.gang.job.revision,
                cause=StopCause.PREEMPT,
                beneficiary=each.beneficiary,
            )
            for each in bench.ranked
            if each.is_given_up
        )


def _ranked(scratch: Scratch, ranks: Ranks) -> list[_Ranked]:
    """Gangs that are not leaving anyway, the first in rank first.

    On nodes of which more is promised than has been left so far, nobody else is stopped.
    """
    overdrawn = {name for name, _ in scratch.standing.free.overdrawn()}
    found = [
        _Ranked(
            rank=ranks.rank(gang),
            gang=gang,
            gpus=sum(held.gpus for held in gang.reservations),
            may_stop=ranks.may_stop(gang) and overdrawn.isdisjoint(nodes_of(gang)),
        )
        for gang in scratch.snapshot.holding
        if gang.job.phase is not JobPhase.STOPPING and gang.job.stop_requested is None
    ]
    return sorted(found, key=lambda each: each.rank)


def _pass_until(key: Key | None, bench: _Bench, scratch: Scratch) -> None:
    """The walk comes to `key` (None: to the end): gangs ranked before it are out of its reach.

    One that was given up and fits after all stays.
    """
    free = scratch.standing.free
    while bench.passed < len(bench.ranked):
        each = bench.ranked[bench.passed]
        if key is not None and each.rank > key:
            return
        bench.passed += 1
        if not each.is_given_up:
            continue
        free.hold(each.gang.reservations)
        if scratch.standing.is_covered(nodes_of(each.gang)):
            each.is_given_up = False
            scratch.leaving.discard(each.gang.job.id)
        else:
            free.let_go(each.gang.reservations)


def _consider(waiting: Waiting, bench: _Bench, scratch: Scratch, holds: Holds | None) -> None:
    answer = scratch.place(waiting)
    if holds is not None and not isinstance(answer, Placement):
        answer = holds.instead(waiting) or answer
    if isinstance(answer, Placement) and scratch.accepts(waiting, answer):
        _give(waiting, answer, bench, scratch)
        return
    if _make_room(waiting, bench, scratch):
        return
    if not isinstance(answer, Placement):
        scratch.refuse(waiting, answer)
    scratch.hold_up(waiting, answer)


def _make_room(waiting: Waiting, bench: _Bench, scratch: Scratch) -> bool:
    """Give up gangs ranked behind the job for it, if that makes room the policy likes.

    The fewest from the end of the list that are enough; of these, whoever fits beside it stays.
    """
    behind = bench.behind()
    free = scratch.standing.free
    gpus_free = sum(left for left in free.gpus if left > 0)
    if gpus_free + sum(each.gpus for each in behind) < waiting.request.gpus:
        return False
    found = fewest_from_the_end(waiting, [each.gang for each in behind], scratch)
    if found is None:
        return False
    first, placement = found
    gone = behind[first:]
    victims = {
        gang.job.id
        for gang in stay_beside(waiting, placement, [each.gang for each in gone], scratch)
    }
    for each in gone:
        if each.gang.job.id in victims:
            each.is_given_up = True
            scratch.leaving.add(each.gang.job.id)
            each.beneficiary = waiting.job.id
            bench.leaving |= nodes_of(each.gang)
    _promise(waiting, placement, scratch)
    return True


def _give(waiting: Waiting, placement: Placement, bench: _Bench, scratch: Scratch) -> None:
    """Start the job, or promise it the place if somebody has to leave it first."""
    if bench.leaving.isdisjoint(assignment.node for assignment in placement.assignments):
        scratch.begin(waiting, placement)
        return
    scratch.standing.free.take(placement, waiting.request)
    _promise(waiting, placement, scratch)


def _promise(waiting: Waiting, placement: Placement, scratch: Scratch) -> None:
    job = waiting.job
    scratch.has_changed = True
    scratch.parked.clear()
    scratch.takes_back(job)
    scratch.promise.append(Promise(job_id=job.id, revision=job.revision, placement=placement))
    scratch.comes(job, placement)
    scratch.blocked[job.id] = PromisedGpus(
        level=placement.tier_name,
        nodes=len({assignment.node for assignment in placement.assignments}),
        gpus=waiting.request.gpus,
    )
