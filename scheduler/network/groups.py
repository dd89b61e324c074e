"""Which ranks talk to each other: the groups of one or more parallel axes, laid on a shape.

Ranks are numbered in topology order, and axes innermost first, so a group is a pattern of strides:

    8 ranks, tensor 2 (innermost), data 4      tensor: 01 23 45 67      data: 0246 1357
"""

from collections import Counter
from collections.abc import Mapping, Sequence
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


def groups_of(
    shape: Shape, sizes: Mapping[Axis, int], order: Sequence[Axis], axes: frozenset[Axis]
) -> tuple[Group, ...]:
    """The distinct kinds of groups whose ranks differ in `axes` only.

    `sizes` counts the ranks along every axis; their product is at most the gang's ranks (what is
    over joins no group). `order` names all axes, innermost first.
    """
    strides: dict[Axis, int] = {}
    stride = 1
    for axis in order:
        strides[axis] = stride
        stride *= sizes[axis]
    if prod(sizes[axis] for axis in axes) == stride == shape.ranks:
        return (whole_gang(shape),)
    inside = _offsets([(sizes[axis], strides[axis]) for axis in order if axis in axes])
    outside = _offsets([(sizes[axis], strides[axis]) for axis in order if axis not in axes])
    homes = [_home_of_ranks(level) for level in shape.ranks_by_level]
    kinds: dict[Group, None] = {}
    for start in outside:
        kinds.setdefault(_group_at([start + step for step in inside], shape, homes))
    return tuple(kinds)


def _offsets(dimensions: Sequence[tuple[int, int]]) -> list[int]:
    return [sum(place) for place in product(*(range(0, n * s, s) for n, s in dimensions))]


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
