"""Several roles on the nodes of one domain, tried to the end: for when one after another fails.

    node a   3 CPUs, 1 GPU      trainer: 1 GPU, 1 CPU      servers: 3 CPUs
    node b   3 CPUs             seated first on a, a trainer leaves the servers b alone

Nodes are gone through one by one; what is kept is which numbers of workers per role can still be
without a seat, and the fewest nodes it takes. Work is bounded: past the bound there is no answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.engine.counting import Need, amounts
from scheduler.engine.free_nodes import FreeNodes

STEPS_MAX = 100_000
"""Combinations looked at per domain: a tenth of a second at most."""

Left = tuple[int, ...]
"""Workers per role that have no seat yet."""


class Unsettled:
    """It would take too long to say whether there is a way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One role: how many workers, what each needs, and which nodes they may use."""

    workers: int
    need: Need
    allowed: Sequence[bool]


@dataclass(frozen=True, slots=True)
class _Step:
    """How a number of workers without a seat was reached."""

    nodes_used: int
    before: "_Step | None" = None
    node: int = -1
    seated: Left = ()


def pack(
    free: FreeNodes, wishes: Sequence[Wish], nodes: Iterable[int]
) -> list[dict[int, int]] | Unsettled | None:
    """Workers per node for each role; None if they do not all fit."""
    start: Left = tuple(wish.workers for wish in wishes)
    reached: dict[Left, _Step] = {start: _Step(0)}
    steps = 0
    for node in nodes:
        fuller = dict(reached)
        for left, step in reached.items():
            for seated in _fullest(free, wishes, node, left):
                steps += 1
                if steps > STEPS_MAX:
                    return Unsettled()
                after = tuple(have - here for have, here in zip(left, seated, strict=True))
                known = fuller.get(after)
                if known is None or known.nodes_used > step.nodes_used + 1:
                    fuller[after] = _Step(step.nodes_used + 1, step, node, seated)
        reached = fuller
    whole = reached.get(tuple(0 for _ in wishes))
    return None if whole is None else _seats(whole, len(wishes))


def _fullest(free: FreeNodes, wishes: Sequence[Wish], node: int, left: Left) -> Iterator[Left]:
    """Numbers of workers per role that fit on a node together, the last role as many as can be.

    Fewer never help: who has a seat needs none elsewhere.
    """
    have: dict[str, int] = {}
    each: list[Mapping[str, int]] = []
    for wish in wishes:
        needs = list(amounts(free, wish.need, node))
        have.update((name, amount) for amount, _, name in needs)
        each.append({name: need for _, need, name in needs})
    most = [count if wish.allowed[node] else 0 for count, wish in zip(left, wishes, strict=True)]
    yield from (seated for seated in _choices(have, each, most) if any(seated))


def _choices(
    have: Mapping[str, int], each: Sequence[Mapping[str, int]], most: Sequence[int]
) -> Iterator[Left]:
    need = each[0]
    fit = min([most[0], *(have[name] // amount for name, amount in need.items())])
    if len(each) == 1:
        yield (max(0, fit),)
        return
    for count in range(max(0, fit), -1, -1):
        rest = {name: amount - count * need.get(name, 0) for name, amount in have.items()}
        for others in _choices(rest, each[1:], most[1:]):
            yield (count, *others)


def _seats(step: _Step, roles: int) -> list[dict[int, int]]:
    seats: list[dict[int, int]] = [{} for _ in range(roles)]
    while step.before is not None:
        for role, workers in enumerate(step.seated):
            if workers:
                seats[role][step.node] = workers
        step = step.before
    return seats
