"""Where a gang goes: the closest level, the tightest topology domain, the fewest sub-domains."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from scheduler.domain.gang import GangRequest
from scheduler.domain.ids import NodeName, RoleName
from scheduler.domain.knobs import Algorithm
from scheduler.domain.placement import Assignment, Blocked, Placement
from scheduler.domain.topology import TopologyTree
from scheduler.engine.asking import Ask, GangAsk, RoleAsk
from scheduler.engine.balancing import balanced
from scheduler.engine.choosing import (
    DEFAULT_RULES,
    Rules,
    Share,
    Tally,
    candidates,
    scattered,
    seats,
    split_down,
    whole_gang,
)
from scheduler.engine.companion import Companion
from scheduler.engine.filling import fill
from scheduler.engine.free_gpus import FreeGpus, Ready
from scheduler.engine.packing import Unsettled, Wish, pack
from scheduler.engine.reasons import why_not

PACKED_MAX = 8
"""Domains per level in which every way to seat several roles is tried."""

Seating = Mapping[RoleName, Sequence[Share]]
"""Nodes (as numbers in the tree) and workers per role."""


def place_gang(
    request: GangRequest, free: FreeGpus, rules: Rules = DEFAULT_RULES
) -> Placement | Blocked:
    """The best placement of the whole gang on what is free, or why there is none.

    Nothing is taken.
    """
    ready = free.ready(request)
    is_short = ready.is_plain and rules is DEFAULT_RULES
    found = place_plain(ready, free) if is_short else None
    if found is not None:
        return found
    ask = ready.ask
    if not isinstance(ask, Ask):
        return ask
    if is_short:
        return _no(ready, ask, free, rules)
    with free.without(request.excluded):
        seating = seat_gang(ask, free, rules)
        if seating is None:
            return _no(ready, ask, free, rules)
    return placement_of(
        {
            role: {free.tree.nodes[share.domain]: share.workers for share in shares}
            for role, shares in seating.items()
        },
        request,
        free.tree,
    )


def place_plain(ready: Ready, free: FreeGpus) -> Placement | None:
    """The placement of a plain gang, read off the counts; None if it does not fit."""
    ask = ready.ask
    assert isinstance(ask, Ask)
    role = ask.request.roles[0]
    workers = role.workers
    for level in range(ask.widest + 1):
        for counts in ready.counts:
            if level == 0:
                node = counts.tightest_node(workers)
                if node >= 0:
                    known = ready.alone.get(node)
                    return known or free.records.lone_placement(role.name, node, workers)
                continue
            if level == 1:
                counts.refresh()
            domain = counts.tightest(level, workers)
            if domain >= 0:
                spots = fill(counts, level, domain, workers)
                name = free.tree.levels[level].name
                return free.records.wide_placement(role.name, spots, level, name)
    return None


def _no(ready: Ready, ask: Ask, free: FreeGpus, rules: Rules) -> Blocked:
    if ready.could_ever is None:
        ready.could_ever = _could_ever(ask, free.empty(), rules)
    return why_not(ask, free, could_ever=ready.could_ever)


def _could_ever(ask: Ask, empty: FreeGpus, rules: Rules) -> bool:
    """Whether the empty cluster holds the gang; where nobody can say so soon, it might."""
    if ask.is_plain:
        return place_plain(empty.ready(ask.request), empty) is not None
    if seat_gang(ask, empty, rules) is not None:
        return True
    search = _Search(
        ask=ask, free=empty, rules=rules, level=ask.widest, is_start=False, is_widest=True
    )
    return any(search.may_have_missed(gang) for gang in ask.choices)


def seat_gang(ask: Ask, free: FreeGpus, rules: Rules = DEFAULT_RULES) -> Seating | None:
    """Seats for every role at the closest level that holds the gang; None if none does."""
    start = 0
    if rules.starts_at is not None:
        start = min(ask.widest, free.tree.level_index(rules.starts_at) or 0)
    for level in range(start, ask.widest + 1):
        search = _Search(
            ask=ask,
            free=free,
            rules=rules,
            level=level,
            is_start=level == start,
            is_widest=level == ask.widest,
        )
        for gang in ask.choices:
            seating = search.seat(gang)
            if seating is not None:
                return seating
    return None


def placement_of(
    workers_by_node: Mapping[RoleName, Mapping[NodeName, int]],
    request: GangRequest,
    tree: TopologyTree,
) -> Placement:
    """The placement of these workers: by role as the job lists them, then in topology order."""
    assignments = tuple(
        Assignment(role=role.name, node=node, workers=workers)
        for role in request.roles
        for node, workers in sorted(
            workers_by_node[role.name].items(), key=lambda item: tree.index_of[item[0]]
        )
    )
    tier = tree.tier_of(assignment.node for assignment in assignments)
    return Placement(assignments=assignments, tier=tier, tier_name=tree.levels[tier].name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The search for a gang at one level."""

    ask: Ask
    free: FreeGpus
    rules: Rules
    level: int
    is_start: bool
    is_widest: bool

    def seat(self, gang: GangAsk) -> Seating | None:
        """Seats for all roles; None if they do not fit at this level."""
        if self.level == 0 and self._is_too_large(gang):
            return None
        if not gang.others:
            return self._seat_alone(gang.main)
        if gang.companion is not None and self._is_pair(gang):
            return self._seat_pair(gang.main, gang.companion)
        return self._seat_together(gang)

    def _is_too_large(self, gang: GangAsk) -> bool:
        """Whether no node has so many GPUs, so that none needs to be looked at."""
        if self.is_start and (self.rules.is_anywhere or self.rules.algorithm is Algorithm.BALANCED):
            return False
        return sum(ask.role.workers * ask.need.gpus for ask in gang) > self.free.gpus_max

    def _seat_alone(self, main: RoleAsk) -> Seating | None:
        found = self._seats(self._tally(main), main.groups)
        return None if found is None else {main.role.name: found}

    def _seat_pair(self, main: RoleAsk, other: RoleAsk) -> Seating | None:
        """Seats for a role and a lone worker of another."""
        tally = self._tally(main, other)
        found = self._seats(tally, main.groups)
        if found is None:
            return None
        return {
            main.role.name: [share for share in found if share.workers],
            other.role.name: [Share(share.domain, 1) for share in found if share.companions],
        }

    def _seat_together(self, gang: GangAsk) -> Seating | None:
        """Seats for any number of roles: one after the other inside each domain that may do."""
        for domain in self._domains_for_all(gang):
            seating = self._seat_in(domain, gang)
            if seating is not None:
                return seating
        if all(ask.grouping.is_plain for ask in gang):
            for domain in islice(self._domains_for_all(gang), PACKED_MAX):
                seating = self._packed(domain, gang)
                if seating is not None:
                    return seating
        return None

    def _domains_for_all(self, gang: GangAsk) -> Iterator[int]:
        """Domains that hold each role of its own, the tightest for the main one first."""
        main, *others = [self._tally(ask) for ask in gang]
        for domain in candidates(main, self.level, gang.main.groups):
            if all(
                tally.value(self.level, domain, ask.grouping.size) >= ask.groups
                for tally, ask in zip(others, gang.others, strict=True)
            ):
                yield domain

    def may_have_missed(self, gang: GangAsk) -> bool:
        """Whether there may be a way to seat several roles, though `seat` has found none."""
        if not gang.others or self._is_pair(gang):
            return False
        domains = list(islice(self._domains_for_all(gang), PACKED_MAX + 1))
        if all(ask.grouping.is_plain for ask in gang) and len(domains) <= PACKED_MAX:
            return any(isinstance(self._pack(domain, gang), Unsettled) for domain in domains)
        return bool(domains)

    def _is_pair(self, gang: GangAsk) -> bool:
        return gang.companion is not None and self.rules.algorithm is not Algorithm.FIRST_FIT

    def _packed(self, domain: int, gang: GangAsk) -> Seating | None:
        """Seats for all roles inside one domain, where trying every way has found them."""
        packed = self._pack(domain, gang)
        if packed is None or isinstance(packed, Unsettled):
            return None
        return {
            ask.role.name: [Share(node, workers) for node, workers in workers_by_node.items()]
            for ask, workers_by_node in zip(gang, packed, strict=True)
        }

    def _pack(self, domain: int, gang: GangAsk) -> list[dict[int, int]] | Unsettled | None:
        wishes = [
            Wish(
                workers=ask.role.workers,
                need=ask.need,
                allowed=self.free.allowed(ask.eligible),
            )
            for ask in gang
        ]
        return pack(self.free, wishes, self.free.tree.domains[self.level][domain].nodes)

    def _seat_in(self, domain: int, gang: GangAsk) -> Seating | None:
        """Seats for all roles inside one domain, the largest needs first."""
        seating: dict[RoleName, Sequence[Share]] = {}
        with self.free.trial():
            for ask in gang:
                tally = self._tally(ask)
                if tally.value(self.level, domain, ask.grouping.size) < ask.groups:
                    return None
                found = seats(tally, self.level, [Share(domain, ask.role.workers)])
                if found is None:
                    return None
                seating[ask.role.name] = found
                for share in found:
                    gpus = share.workers * ask.need.gpus
                    self.free.change(share.domain, -gpus, -share.workers, ask.need.resources)
        return seating

    def _seats(self, tally: Tally, groups: int) -> list[Share] | None:
        is_balanced = self.rules.algorithm is Algorithm.BALANCED
        # Inside a domain with a cap, shares of several domains could exceed it together.
        is_start = self.is_start and self.level >= tally.counts.grouping.capped_level
        if is_balanced and is_start and not self.is_widest:
            found = balanced(tally, self.level, groups)
            if found is not None:
                return split_down(tally, *found)
        shares = whole_gang(tally, self.level, groups, is_widest=self.is_widest)
        is_anywhere = self.rules.is_anywhere and self.ask.request.required is None
        if shares is None and is_start and is_anywhere:
            shares = scattered(tally, self.level, groups)
        return None if shares is None else seats(tally, self.level, shares)

    def _tally(self, ask: RoleAsk, other: RoleAsk | None = None) -> Tally:
        counts = self.free.counts(ask.eligible, ask.need, ask.grouping)
        companion = None
        if other is not None:
            own = self.free.counts(other.eligible, other.need, other.grouping)
            companion = Companion(counts, ask.need, own, other.need)
        return Tally(
            counts=counts,
            rules=self.rules,
            companion=companion,
            scores=self._scores(ask),
        )

    def _scores(self, ask: RoleAsk) -> list[dict[int, int]]:
        """Preferences of the gang summed over each domain, where it has any."""
        preferences = self.ask.request.preferences
        if not preferences:
            return []
        tree = self.free.tree
        allowed = self.free.allowed(ask.eligible)
        scores: list[dict[int, int]] = [{} for _ in tree.levels]
        for name, weight in preferences.items():
            node = tree.index_of.get(name)
            if node is not None and allowed[node]:
                for level, domain in enumerate(tree.homes[node]):
                    scores[level][domain] = scores[level].get(domain, 0) + weight
        return scores
