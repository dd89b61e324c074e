"""Balanced placement: as even as possible over as few domains as hold the gang.

    racks with room for 15 and 15, a gang of 25      best fit 15 + 10      balanced 13 + 12

The threshold is what every used domain gets at least: the larger, the more even. Domains that
could not hold it are left out; of the sets that remain, the one with the least room is taken.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import NamedTuple

from scheduler.engine.choosing import Share, Tally, TieBreak


class _Room(NamedTuple):
    """What one domain holds, alone and beside the companion if that may go here."""

    domain: int
    score: int
    workers: int
    groups: int
    takes_companion: bool
    workers_beside: int
    groups_beside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """Sibling domains among which the gang can be balanced."""

    threshold: int
    rooms: Sequence[_Room]
    inner: Mapping[int, Sequence[_Room]]
    """Per domain the sub-domains that may be used; empty where slices are not divided further."""
    domains_used: int


class _Greedy(NamedTuple):
    """What filling the largest domains first would use."""

    domains: int
    threshold: int
    """Most slices that each of them can get."""
    threshold_reserved: int
    """The same if the last of them were to keep room for the companion."""


def balanced(tally: Tally, level: int, groups: int) -> tuple[int, list[Share]] | None:
    """The level and the even shares of its domains; None where balance can not be had."""
    divides = level > tally.counts.grouping.level
    if not divides and level > 0 and tally.rules.tie_break is TieBreak.KUEUE:
        # Kueue balances at the level of the slices only if nothing lies below it.
        return None
    best: _Candidate | None = None
    for around in tally.counts.known(level + 1):
        siblings = _Siblings(tally=tally, level=level, around=around, divides=divides)
        found = siblings.candidate(groups, 1 if best is None else best.threshold)
        if found is not None and (best is None or _evenness(found) > _evenness(best)):
            best = found
    if best is None:
        return None
    rooms, at = best.rooms, level
    if divides:
        inner = best.inner
        chosen = _smallest_set(tally, rooms, groups, lambda room: _by_entropy(room, inner))
        if chosen is None:
            return None
        rooms, at = [room for outer in chosen for room in inner[outer.domain]], level - 1
    shares = _even_shares(tally, rooms, groups, best.threshold)
    return None if shares is None else (at, shares)


def _evenness(candidate: _Candidate) -> tuple[int, int]:
    return (candidate.threshold, -candidate.domains_used)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Siblings:
    """The domains of one level inside one domain of the next wider level."""

    tally: Tally
    level: int
    around: int
    divides: bool
    """Whether slices can be divided among the sub-domains of these domains."""

    def candidate(self, groups: int, threshold_min: int) -> _Candidate | None:
        """How evenly the gang fits here; None if not at all, or less evenly than the minimum."""
        outer = self._rooms(self.level, self.around)
        inner = {room.domain: self._rooms(self.level - 1, room.domain) for room in outer}
        lowest = [room for rooms in inner.values() for room in rooms] if self.divides else outer
        companions = int(self.tally.companion is not None)
        greedy = _greedy(lowest, groups, companions)
        if greedy is None:
            return None
        for threshold in sorted({greedy.threshold, greedy.threshold_reserved}, reverse=True):
            if threshold < threshold_min:
                return None
            left = {domain: _pruned(rooms, threshold) for domain, rooms in inner.items()}
            summed = [self._summed(room, left[room.domain]) for room in outer]
            rooms = _pruned(summed, threshold)
            after = _greedy(rooms, groups, companions)
            if after is not None:
                return _Candidate(
                    threshold=threshold, rooms=rooms, inner=left, domains_used=after.domains
                )
        return None

    def _rooms(self, level: int, around: int) -> list[_Room]:
        if level < 0:
            return []
        children = self.tally.counts.free.tree.domains[level + 1][around].children
        return [self._room(level, child) for child in children]

    def _room(self, level: int, domain: int) -> _Room:
        counts, companion = self.tally.counts, self.tally.companion
        workers, groups = counts.fits[level][domain], counts.groups[level][domain]
        score = self.tally.score(level, domain)
        if companion is None:
            return _Room(domain, score, workers, groups, False, workers, groups)  # noqa: FBT003 - a tuple, by position
        beside = companion.beside(level, domain)
        return _Room(domain, score, workers, groups, beside.is_possible, beside.fits, beside.groups)

    def _summed(self, room: _Room, inner: Sequence[_Room]) -> _Room:
        """What a domain holds in those of its sub-domains that are left."""
        if not self.divides:
            return room
        counts = self.tally.counts
        workers = sum(counts.share(self.level - 1, part.domain, part.workers) for part in inner)
        groups = sum(part.groups for part in inner)
        hosts = [part for part in inner if part.takes_companion or self.tally.companion is None]
        lost_workers = min((part.workers - part.workers_beside for part in hosts), default=workers)
        lost_groups = min((part.groups - part.groups_beside for part in hosts), default=groups)
        return room._replace(
            workers=workers,
            groups=groups,
            takes_companion=any(part.takes_companion for part in inner),
            workers_beside=workers - lost_workers,
            groups_beside=groups - lost_groups,
        )


def _pruned(rooms: Iterable[_Room], threshold: int) -> list[_Room]:
    """Rooms that hold the threshold; those that do not beside the companion do not take it."""
    return [
        room._replace(takes_companion=False, workers_beside=0, groups_beside=0)
        if room.takes_companion and room.groups_beside < threshold
        else room
        for room in rooms
        if room.groups >= threshold
    ]


def _by_groups(room: _Room) -> tuple[int, ...]:
    return (-room.score, -room.groups, room.workers, room.domain)


def _by_groups_beside(room: _Room) -> tuple[int, ...]:
    takes = int(room.takes_companion)
    return (-takes, -room.score, -room.groups_beside, room.workers_beside, room.domain)


def _by_entropy(room: _Room, inner: Mapping[int, Sequence[_Room]]) -> tuple[int, int, float, int]:
    """Domains whose sub-domains are alike come first: they can be filled evenly."""
    workers = [part.workers for part in inner[room.domain] if part.workers]
    total = sum(workers)
    entropy = -sum(part / total * log2(part / total) for part in workers)
    return (-int(room.takes_companion), -room.groups_beside, -entropy, room.domain)


def _greedy(rooms: Sequence[_Room], groups: int, companions: int) -> _Greedy | None:
    """The largest domains first, the companion's before all; None if they do not hold the gang."""
    rest, used, left = list(rooms), 0, groups
    bounds: list[int] = []
    if companions:
        rest.sort(key=_by_groups_beside)
        if not rest or not rest[0].takes_companion:
            return None
        host = rest.pop(0)
        used, left = 1, groups - host.groups_beside
        bounds.append(host.groups_beside)
    last: _Room | None = None
    for room in sorted(rest, key=_by_groups):
        if left <= 0 or room.groups <= 0:
            break
        used, left, last = used + 1, left - room.groups, room
    if left > 0 or not used:
        return None
    if last is not None:
        bounds.append(last.groups)
    threshold = min(groups // used, *bounds)
    reserved = threshold
    if companions and last is not None:
        reserved = min(threshold, last.groups_beside)
    return _Greedy(used, threshold, reserved)


def _smallest_set(
    tally: Tally,
    rooms: Sequence[_Room],
    groups: int,
    order: Callable[[_Room], tuple[float, ...]],
) -> list[_Room] | None:
    """As few domains as hold the gang, and of such sets the one with the least room.

    Sets are built up one domain at a time; of those that leave the same number of workers (and
    the companion) without room, the first is kept.
    """
    companions = int(tally.companion is not None)
    greedy = _greedy(rooms, groups, companions)
    if greedy is None:
        return None
    start = (companions, groups * tally.counts.grouping.size)
    sets: list[dict[tuple[int, int], list[_Room]]] = [{} for _ in range(greedy.domains + 1)]
    sets[0][start] = []
    for room in sorted(rooms, key=order):
        for size in range(greedy.domains, 0, -1):
            for left, chosen in sorted(sets[size - 1].items(), key=lambda item: item[0]):
                for after in _after(room, left):
                    sets[size].setdefault(after, [*chosen, room])
    whole = [left for left in sets[-1] if left[0] == 0 and left[1] <= 0]
    return sets[-1][max(whole)] if whole else None


def _after(room: _Room, left: tuple[int, int]) -> Iterable[tuple[int, int]]:
    """What is left without room when a domain is added: with the companion in it, and without."""
    companions, workers = left
    if companions <= 0 and workers <= 0:
        return
    if companions > 0 and room.takes_companion:
        yield (companions - 1, workers - room.workers_beside)
    if room.groups > 0:
        yield (companions, workers - room.workers)


def _even_shares(
    tally: Tally, rooms: Sequence[_Room], groups: int, threshold: int
) -> list[Share] | None:
    """The threshold for each domain of the smallest set, and what is over to the largest."""
    chosen = _smallest_set(tally, rooms, groups, lambda room: (room.domain,))
    if chosen is None or groups < len(chosen) * threshold:
        return None
    size = tally.counts.grouping.size
    companions = int(tally.companion is not None)
    over = groups - len(chosen) * threshold
    shares: list[Share] = []
    for room in sorted(chosen, key=_by_groups_beside):
        room_for = room.groups_beside if companions else room.groups
        extra = min(room_for - threshold, over)
        if extra < 0:
            return None
        shares.append(Share(room.domain, (threshold + extra) * size, companions))
        over -= extra
        companions = 0
    return None if over else shares
