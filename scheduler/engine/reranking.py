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

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.job import StopCause
from scheduler.domain.placement import Placement, PromisedGpus
from scheduler.domain.plan import Promise, Stop
from scheduler.engine.holding import Holds
from scheduler.engine.making_room import fewest_from_the_end, nodes_of, stay_beside
from scheduler.engine.ranking import Ranked, Ranking
from scheduler.engine.scratch import Scratch
from scheduler.engine.waiting import Waiting
from scheduler.policies.interface import Key, Ranks

_rank_of = attrgetter("rank")


@dataclass(slots=True)
class _Bench:
    """Running gangs by rank, which of them are behind the walk, and which are given up."""

    ranking: Ranking
    ranks: Ranks
    overdrawn: frozenset[NodeName]
    """Of these nodes more is promised than has been left so far: nobody else is stopped there."""
    passed: Key = ()
    """Rank of the job the walk is at."""
    given_up: dict[JobId, Ranked] = field(default_factory=dict)
    beneficiaries: dict[JobId, JobId] = field(default_factory=dict)
    """For whom gangs were given up."""
    leaving: set[NodeName] = field(default_factory=set)
    """Nodes of gangs that are given up: their GPUs are free only when these have left."""
    _ends_soon: dict[JobId, bool] = field(default_factory=dict)

    def behind(self) -> list[Ranked]:
        """Gangs ranked behind the walk that may be stopped and are not given up yet."""
        return [
            each
            for each in self.ranking.stoppable_behind(self.passed)
            if each.gang.job.id not in self.given_up
            and not (each.tells_length and self._is_spared(each))
            and not (self.overdrawn and not self.overdrawn.isdisjoint(nodes_of(each.gang)))
        ]

    def _is_spared(self, each: Ranked) -> bool:
        """It ends soon by itself."""
        job_id = each.gang.job.id
        found = self._ends_soon.get(job_id)
        if found is None:
            found = self._ends_soon[job_id] = self.ranks.ends_soon(each.gang)
        return found


def rerank(scratch: Scratch, ranks: Ranks, holds: Holds | None = None) -> None:
    """Walk the line; jobs start, are promised GPUs of gangs ranked behind them, or wait.

    In a held domain nobody is stopped but for its holder: it is kept for that one.
    """
    bench = _Bench(scratch.standing.ranking, ranks, _overdrawn(scratch))
    if holds is not None and holds.held:
        _make_room_for_holders(holds, bench, scratch)
    for waiting in scratch.walk:
        if waiting.job.id in scratch.settled:
            continue
        assert waiting.key is not None
        _pass_until(waiting.key, bench, scratch)
        _consider(waiting, bench, scratch, holds)
    _pass_until(None, bench, scratch)
    scratch.stop.extend(
        Stop(
            job_id=each.gang.job.id,
            revision=each.gang.job.revision,
            cause=StopCause.PREEMPT,
            beneficiary=bench.beneficiaries[each.gang.job.id],
        )
        for each in sorted(bench.given_up.values(), key=_rank_of)
    )


def _overdrawn(scratch: Scratch) -> frozenset[NodeName]:
    return frozenset(name for name, _ in scratch.standing.free.overdrawn())


def _make_room_for_holders(holds: Holds, bench: _Bench, scratch: Scratch) -> None:
    """Who holds a domain is at the head of the line: if enough gangs may be stopped for it, of
    whatever rank but of no higher priority, the domain need not run empty."""
    for hold in tuple(holds.held):
        holds.lift(hold)
        bench.overdrawn = _overdrawn(scratch)
        behind = [
            each for each in bench.behind() if each.gang.job.priority <= hold.holder.job.priority
        ]
        if not _make_room(hold.holder, behind, bench, scratch):
            holds.add(hold)
    bench.overdrawn = _overdrawn(scratch)


def _pass_until(key: Key | None, bench: _Bench, scratch: Scratch) -> None:
    """The walk comes to `key` (None: to the end): gangs ranked before it are out of its reach.

    One that was given up and fits after all stays.
    """
    before, free = bench.passed, scratch.standing.free
    if key is not None:
        bench.passed = key
    if not bench.given_up:
        return
    in_order = sorted(bench.given_up.values(), key=_rank_of)
    first = bisect_right(in_order, before, key=_rank_of)
    last = len(in_order) if key is None else bisect_right(in_order, key, key=_rank_of)
    for each in in_order[first:last]:
        job_id = each.gang.job.id
        free.hold(each.gang.reservations)
        if scratch.standing.is_covered(nodes_of(each.gang)):
            del bench.given_up[job_id]
            scratch.leaving.discard(job_id)
            scratch.offers.clear()
        else:
            free.let_go(each.gang.reservations)


def _consider(waiting: Waiting, bench: _Bench, scratch: Scratch, holds: Holds | None) -> None:
    answer = scratch.place(waiting)
    if holds is not None and not isinstance(answer, Placement):
        answer = holds.instead(waiting) or answer
    if isinstance(answer, Placement) and scratch.accepts(waiting, answer):
        _give(waiting, answer, bench, scratch)
        return
    if _make_room(waiting, bench.behind(), bench, scratch):
        return
    if not isinstance(answer, Placement):
        scratch.refuse(waiting, answer)
    scratch.hold_up(waiting, answer)


def _make_room(waiting: Waiting, behind: Sequence[Ranked], bench: _Bench, scratch: Scratch) -> bool:
    """Give up gangs that stand behind the job for it, if that makes room the policy likes.

    The fewest from the end of the list that are enough; of these, whoever fits beside it stays.
    """
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
            bench.given_up[each.gang.job.id] = each
            bench.beneficiaries[each.gang.job.id] = waiting.job.id
            bench.leaving |= nodes_of(each.gang)
            scratch.leaving.add(each.gang.job.id)
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
    scratch.offers.clear()
    scratch.takes_back(job)
    scratch.promise.append(Promise(job_id=job.id, revision=job.revision, placement=placement))
    scratch.comes(job, placement)
    scratch.blocked[job.id] = PromisedGpus(
        level=placement.tier_name,
        nodes=len({assignment.node for assignment in placement.assignments}),
        gpus=waiting.request.gpus,
    )
