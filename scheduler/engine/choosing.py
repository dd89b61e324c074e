"""Which domains a role gets, level by level, once it is known how many workers fit where.

    best fit      the tightest domain that holds the gang; inside it as few sub-domains as can be,
                  the fullest first, and the last one again the tightest that holds the rest
    least free    the smallest holes first, wherever they are
    first fit     the first in topology order that has room; what is left over does not matter

A companion is the only worker of another role (a launcher, a leader); it goes into the same domain
and there to where it costs the workers least.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from scheduler.domain.ids import LevelName
from scheduler.domain.knobs import Algorithm
from scheduler.engine.companion import Companion
from scheduler.engine.counting import FitCounts
from scheduler.engine.gpu_order import GANGS_MAX


class TieBreak(StrEnum):
    """Which of equally good domains is taken."""

    UPLINKS = "uplinks"
    """Fewest GPUs left over on a node, fewest gangs on the uplink, topology order."""
    KUEUE = "kueue"
    """As Kueue: fewest workers that would fit besides, then topology order; below the level of
    the slices the smallest holes are filled first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a gang is placed."""

    algorithm: Algorithm = Algorithm.BEST_FIT
    tie_break: TieBreak = TieBreak.UPLINKS
    starts_at: LevelName | None = None
    """The closest level that is tried; None for `node`."""
    is_anywhere: bool = False
    """Distance does not matter: what does not fit in one domain of the first level goes into
    several of them, wherever they are."""

    @property
    def is_in_order(self) -> bool:
        """Whether domains are filled in one order, the last one too."""
        return self.algorithm in (Algorithm.LEAST_FREE, Algorithm.FIRST_FIT)


DEFAULT_RULES = Rules()
RULES = {
    algorithm: DEFAULT_RULES if algorithm is Algorithm.BEST_FIT else Rules(algorithm=algorithm)
    for algorithm in Algorithm
}
"""Per algorithm; those of best fit are known to the short way by being the default ones."""


class Share(NamedTuple):
    """What one domain gets of a gang."""

    domain: int
    workers: int
    companions: int = 0
    """1 where the companion goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The counts of one role, and of its companion if it has one, as the algorithms read them."""

    counts: FitCounts
    rules: Rules
    companion: Companion | None = None
    scores: Sequence[Mapping[int, int]] = ()
    """Per level and domain: the sum of the gang's preferences for nodes; empty for none."""

    def value(self, level: int, domain: int, unit: int) -> int:
        """How many units fit in a domain."""
        return self.counts.units(level, domain, unit)

    def value_beside(self, level: int, domain: int, unit: int) -> int:
        """The same when the companion goes into this domain; -1 where it can not."""
        if self.companion is None:
            return self.value(level, domain, unit)
        beside = self.companion.beside(level, domain)
        if not beside.is_possible:
            return -1
        return beside.groups if level >= self.counts.grouping.level else beside.fits // unit

    def score(self, level: int, domain: int) -> int:
        """How much the gang would like to be in this domain."""
        return self.scores[level].get(domain, 0) if self.scores else 0

    def order(self, level: int, domain: int, unit: int) -> tuple[int, ...]:
        """Sorts the domains of a level: the smallest is filled first."""
        if self.rules.algorithm is Algorithm.FIRST_FIT:
            return (-self.score(level, domain), domain)
        counts = self.counts
        value = self.value(level, domain, unit)
        if self.rules.tie_break is TieBreak.KUEUE:
            value = counts.groups[level][domain]
        fits = counts.fits[level][domain]
        return (
            -self.score(level, domain),
            self._sign * value,
            fits,
            *self._ties(level, domain),
        )

    def order_beside(self, level: int, domain: int, unit: int) -> tuple[int, ...]:
        """The same while the companion has no place yet."""
        if self.companion is None:
            return self.order(level, domain, unit)
        beside = self.companion.beside(level, domain)
        value = self.value_beside(level, domain, unit)
        if self.rules.tie_break is TieBreak.KUEUE:
            value = beside.groups
        return (
            -int(beside.is_possible),
            -self.score(level, domain),
            self._sign * value,
            beside.fits,
            *self._ties(level, domain),
        )

    @property
    def is_indexed(self) -> bool:
        """Whether the counts keep their domains in the very order that is asked for."""
        return (
            not self.scores
            and self.companion is None
            and not self.rules.is_in_order
            and self.rules.tie_break is TieBreak.UPLINKS
        )

    @property
    def _sign(self) -> int:
        return 1 if self.rules.algorithm is Algorithm.LEAST_FREE else -1

    def _ties(self, level: int, domain: int) -> tuple[int, ...]:
        if self.rules.tie_break is TieBreak.KUEUE:
            return (domain,)
        left = self.counts.left_over(domain) if level == 0 else 0
        return (left, min(GANGS_MAX, self.counts.free.uplinks[level][domain]), domain)


def whole_gang(tally: Tally, level: int, groups: int, *, is_widest: bool) -> list[Share] | None:
    """The one domain of `level` that holds all groups; None if none does."""
    domain = _fitting(tally, level, groups, is_widest=is_widest)
    if domain < 0:
        return None
    companions = int(tally.companion is not None)
    return [Share(domain, groups * tally.counts.grouping.size, companions)]


def scattered(tally: Tally, level: int, groups: int) -> list[Share] | None:
    """Domains of `level` that hold all groups together, wherever they are; None if they do not."""
    companions = int(tally.companion is not None)
    everywhere = range(len(tally.counts.groups[level]))
    return take(tally, level, everywhere, Wanted(groups, companions, tally.counts.grouping.size))


def seats(tally: Tally, level: int, shares: list[Share]) -> list[Share] | None:
    """The nodes, given what the domains of a wider level get; None if the companion has no room."""
    grouping = tally.counts.grouping
    domains = tally.counts.free.tree.domains
    found: list[Share] | None = shares
    while level > 0 and found is not None:
        around, level = level, level - 1
        if around > grouping.split_level:
            children = [c for share in found for c in domains[around][share.domain].children]
            wanted = Wanted(
                sum(share.workers for share in found) // grouping.size,
                sum(share.companions for share in found),
                grouping.size,
            )
            found = take(tally, level, children, wanted)
        else:
            found = split(tally, level, found)
    return found


def split_down(tally: Tally, level: int, shares: list[Share]) -> list[Share] | None:
    """The nodes, where every domain of `level` keeps just its own share."""
    found: list[Share] | None = shares
    while level > 0 and found is not None:
        level -= 1
        found = split(tally, level, found)
    return found


def split(tally: Tally, level: int, shares: Iterable[Share]) -> list[Share] | None:
    """The shares of sub-domains at `level`, each domain's own share divided among its own."""
    grouping = tally.counts.grouping
    unit = grouping.size if level >= grouping.level else grouping.multiple(level)
    domains = tally.counts.free.tree.domains[level + 1]
    found: list[Share] = []
    for share in shares:
        wanted = Wanted(share.workers // unit, share.companions, unit)
        part = take(tally, level, domains[share.domain].children, wanted)
        if part is None:
            return None
        found += part
    return found


class Wanted(NamedTuple):
    """What several domains are to hold together."""

    units: int
    companions: int
    unit: int
    """Workers per unit."""


def candidates(tally: Tally, level: int, groups: int) -> Iterable[int]:
    """Known domains of `level` that hold so many groups, in the order in which they are tried."""
    if tally.is_indexed:
        return tally.counts.holding(level, groups)
    size = tally.counts.grouping.size
    found = [d for d in tally.counts.known(level) if tally.value(level, d, size) >= groups]
    return sorted(found, key=lambda d: (tally.value(level, d, size), tally.order(level, d, size)))


def take(tally: Tally, level: int, domains: Iterable[int], wanted: Wanted) -> list[Share] | None:
    """Shares of `domains` that add up to what is wanted; None if they do not hold it."""
    unit = wanted.unit
    rest = sorted(domains, key=lambda domain: tally.order(level, domain, unit))
    shares: list[Share] = []
    units = wanted.units
    if wanted.companions:
        first = _for_companion(tally, level, rest, wanted)
        if first is None:
            return None
        shares.append(first)
        units -= first.workers // unit
        rest.remove(first.domain)
    is_best_fit = not tally.rules.is_in_order
    for index, domain in enumerate(rest):
        if units <= 0:
            break
        value = tally.value(level, domain, unit)
        if is_best_fit and value >= units:
            domain, value = _tightest(tally, level, rest[index:], units, unit)  # noqa: PLW2901 - the last one is chosen anew
        used = min(value, units)
        if used:
            shares.append(Share(domain, used * unit))
            units -= used
    return None if units > 0 else shares


def _tightest(
    tally: Tally, level: int, domains: Sequence[int], units: int, unit: int
) -> tuple[int, int]:
    """The first of the domains with the fewest units that are enough, among the most preferred."""
    best, best_value = -1, 0
    score = tally.score(level, domains[0])
    for domain in domains:
        if tally.score(level, domain) != score:
            break
        value = tally.value(level, domain, unit)
        if value >= units and (best < 0 or value < best_value):
            best, best_value = domain, value
    return best, best_value


def _for_companion(
    tally: Tally, level: int, domains: Sequence[int], wanted: Wanted
) -> Share | None:
    """The share of the domain that takes the companion.

    All of the gang if one domain holds it; else where enough room stays for the others.
    """
    unit = wanted.unit
    possible = [d for d in domains if tally.value_beside(level, d, unit) >= 0]
    whole = [d for d in possible if tally.value_beside(level, d, unit) >= wanted.units]
    if whole:
        first = min(
            whole,
            key=lambda d: (
                -tally.score(level, d),
                tally.value_beside(level, d, unit),
                tally.order_beside(level, d, unit),
            ),
        )
        return Share(first, wanted.units * unit, 1)
    total = sum(tally.value(level, d, unit) for d in domains)
    enough = [
        d
        for d in possible
        if total - tally.value(level, d, unit) + tally.value_beside(level, d, unit) >= wanted.units
    ]
    if not enough:
        return None
    first = min(enough, key=lambda d: tally.order_beside(level, d, unit))
    return Share(first, tally.value_beside(level, first, unit) * unit, 1)


def _fitting_beside(tally: Tally, level: int, groups: int) -> int:
    """The domain that holds all groups and the companion with the least room to spare."""
    counts, size = tally.counts, tally.counts.grouping.size
    displaced_max = 0 if tally.companion is None else tally.companion.displaced_max
    is_first_enough = tally.rules.tie_break is TieBreak.UPLINKS
    best, best_key = -1, (0, tuple[int, ...]())
    for domain in counts.holding(level, groups):
        if best >= 0 and counts.units(level, domain, size) - displaced_max > best_key[0]:
            break
        value = tally.value_beside(level, domain, size)
        if value < groups:
            continue
        key = (value, tally.order_beside(level, domain, size))
        if best < 0 or key < best_key:
            best, best_key = domain, key
        if value == groups and is_first_enough:
            break
    return best


def _fitting(tally: Tally, level: int, groups: int, *, is_widest: bool) -> int:
    """The domain of `level` that takes the whole gang; -1 if none does."""
    if tally.is_indexed:
        return tally.counts.tightest(level, groups)
    if not tally.scores and not tally.rules.is_in_order:
        return _fitting_beside(tally, level, groups)
    size = tally.counts.grouping.size
    fitting = [d for d in tally.counts.known(level) if tally.value_beside(level, d, size) >= groups]
    if not fitting:
        return -1
    first = min(fitting, key=lambda d: tally.order_beside(level, d, size))
    if tally.rules.is_in_order:
        return first
    if tally.scores and not is_widest:
        # A preferred domain that is too small leads to a wider level, not to a worse domain.
        liked = min(tally.counts.known(level), key=lambda d: tally.order_beside(level, d, size))
        if liked not in fitting:
            return -1
    score = tally.score(level, first)
    return min(
        (d for d in fitting if tally.score(level, d) == score),
        key=lambda d: (
            tally.value_beside(level, d, size),
            tally.order_beside(level, d, size),
        ),
    )
