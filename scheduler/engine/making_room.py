"""Who has to go so that a waiting job fits: tried out on the scratch pad."""

from collections.abc import Sequence
from itertools import accumulate

from scheduler.domain.ids import NodeName
from scheduler.domain.placement import Blocked, Placement
from scheduler.domain.snapshot import RunningGang
from scheduler.engine.placing import place_gang
from scheduler.engine.scratch import Scratch
from scheduler.engine.waiting import Waiting


def fewest_from_the_end(
    waiting: Waiting, behind: Sequence[RunningGang], scratch: Scratch
) -> tuple[int, Placement] | None:
    """From where on the gangs have to go, and where the job stands then; None if all are not
    enough. More gangs gone is never less room, so the place is found by halving."""
    best = _placement_without(behind, waiting, scratch) if behind else None
    if best is None:
        return None
    lacking = waiting.request.gpus - sum(left for left in scratch.standing.free.gpus if left > 0)
    gpus_from = _gpus_from_each_on(behind)
    enough, too_few = 0, len(behind)
    while too_few - enough > 1:
        middle = (enough + too_few) // 2
        found: Placement | None = None
        if gpus_from[middle] >= lacking:
            found = _placement_without(behind[middle:], waiting, scratch)
        if found is None:
            too_few = middle
        else:
            enough, best = middle, found
    return enough, best


def _gpus_from_each_on(gangs: Sequence[RunningGang]) -> list[int]:
    """GPUs that each gang and those after it hold."""
    held = [sum(each.gpus for each in gang.reservations) for gang in reversed(gangs)]
    return list(accumulate(held))[::-1]


def stay_beside(
    waiting: Waiting, placement: Placement, gone: Sequence[RunningGang], scratch: Scratch
) -> list[RunningGang]:
    """Those of the gangs that do not fit beside the job at its place.

    The pad is left so: the job stands there, the others are gone.
    """
    free = scratch.standing.free
    for gang in gone:
        free.let_go(gang.reservations)
    free.take(placement, waiting.request)
    victims: list[RunningGang] = []
    for gang in gone:
        free.hold(gang.reservations)
        if not scratch.standing.is_covered(nodes_of(gang)):
            free.let_go(gang.reservations)
            victims.append(gang)
    return victims


def nodes_of(gang: RunningGang) -> set[NodeName]:
    """Nodes on which the gang holds something."""
    return {held.node for held in gang.reservations}


def _placement_without(
    gone: Sequence[RunningGang], waiting: Waiting, scratch: Scratch
) -> Placement | None:
    """Where the job would stand without these gangs, if the policy likes it."""
    names = tuple(gang.job.id for gang in gone)

    def find() -> Placement | Blocked:
        free = scratch.standing.free
        with free.trial():
            for gang in gone:
                free.let_go(gang.reservations)
            return place_gang(waiting.request, free, scratch.rules)

    placement = scratch.found(("without", waiting.kind.request, names), find)
    if not isinstance(placement, Placement):
        return None
    declined = scratch.policy.accept(waiting.job, scratch.offer(placement, leaving=set(names)))
    return placement if declined is None else None
