"""Which ranks talk to each other: the groups of one or more parallel axes, laid on a shape.

Ranks are numbered in topology order, and axes innermost first, so a group is a pattern of strides:

    8 ranks, tensor 2 (innermost), data 4      tensor: 01 23 45 67      data: 0246 1357
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from scheduler.domain.communication import Axis
from scheduler.network.shape import Shape


class Part(NamedTuple):
    """The ranks that one domain holds: of the whole job, and of the group."""

    job_ranks: int
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group of ranks that run a collective, as far as its cost depends on it."""

    ranks: int
    domains_by_level: tuple[int, ...]
    """Domains it touches, closest level first; ends with the level where that is one."""
    parts_by_level: tuple[frozenset[Part], ...]
    """Per level, the distinct kinds of domains it touches."""

    @property
    def nodes(self) -> int:
        """Nodes it touches."""
        return self.domains_by_level[0]

    @property
    def tier(self) -> int:
        """The closest level that holds all of it."""
        return len(self.domains_by_level) - 1


@lru_cache(maxsize=4096)
def whole_gang(shape: Shape) -> Group:
    """All ranks of a shape as one group."""
    return Group(
        ranks=shape.ranks,
        domains_by_level=tuple(len(level) for level in shape.ranks_by_level),
        parts_by_level=tuple(
            frozenset(Part(ranks, ranks) for ranks in level) for level in shape.ranks_by_level
        ),
    )


@lru_cache(maxsize=4096)
def groups_of(
    shape: Shape, dimensions: tuple[tuple[Axis, int], ...], axes: frozenset[Axis]
) -> tuple[Group, ...]:
    """The distinct kinds of groups whose ranks differ in `axes` only.

    `dimensions` counts the ranks along every axis, innermost first; their product is at most the
    gang's ranks (what is over joins no group).
    """
    inside: list[_Stride] = []
    outside: list[_Stride] = []
    stride = 1
    for axis, size in dimensions:
        if size > 1:
            (inside if axis in axes else outside).append(_Stride(size, stride))
            stride *= size
    if not outside and stride == shape.ranks:
        return (whole_gang(shape),)
    regular = _regular_group(shape, inside) if stride == shape.ranks else None
    return (regular,) if regular is not None else _enumerated(shape, inside, outside)


class _Stride(NamedTuple):
    """So many ranks, so far apart."""

    size: int
    step: int


def _regular_group(shape: Shape, inside: Sequence[_Stride]) -> Group | None:
    """The one kind of group there is where equal domains and axes nest; None where they do not."""
    counts: list[int] = []
    parts: list[frozenset[Part]] = []
    ranks = prod(stride.size for stride in inside)
    for level in shape.ranks_by_level:
        held = level[0]
        if level.count(held) != len(level):
            return None
        own = 1
        for size, step in inside:
            span = size * step
            if step >= held:
                if step % held:
                    return None
            elif held % step or (held % span and span % held):
                return None
            else:
                own *= min(size, held // step)
        counts.append(ranks // own)
        parts.append(frozenset((Part(held, own),)))
        if own == ranks:
            break
    return Group(ranks=ranks, domains_by_level=tuple(counts), parts_by_level=tuple(parts))


def _enumerated(
    shape: Shape, inside: Sequence[_Stride], outside: Sequence[_Stride]
) -> tuple[Group, ...]:
    """Every group looked at."""
    homes = [_home_of_ranks(level) for level in shape.ranks_by_level]
    members = _offsets(inside)
    kinds: dict[Group, None] = {}
    for start in _offsets(outside):
        kinds.setdefault(_group_at([start + step for step in members], shape, homes))
    return tuple(kinds)


def _offsets(strides: Sequence[_Stride]) -> list[int]:
    return [sum(place) for place in product(*(range(0, n * s, s) for n, s in strides))]


def _home_of_ranks(ranks_by_domain: tuple[int, ...]) -> list[int]:
    homes: list[int] = []
    for domain, ranks in enumerate(ranks_by_domain):
        homes += [domain] * ranks
    return homes


def _group_at(ranks: list[int], shape: Shape, homes: Sequence[list[int]]) -> Group:
    counts: list[int] = []
    parts: list[frozenset[Part]] = []
    for held, home in zip(shape.ranks_by_level, homes, strict=True):
        own = Counter([home[rank] for rank in ranks])
        counts.append(len(own))
        parts.append(frozenset(Part(held[domain], count) for domain, count in own.items()))
        if len(own) == 1:
            break
    return Group(ranks=len(ranks), domains_by_level=tuple(counts), parts_by_level=tuple(parts))
