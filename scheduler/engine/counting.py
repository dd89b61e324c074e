"""How many workers of one kind fit on each node and in each topology domain, kept up to date.

    cluster   fits 11   groups 2          groups: slices of so many workers that share a domain
      rack    fits 8    groups 2          (here 4 within a rack); without slices a group is one
        node  fits 5                      worker, and groups are the fits themselves
        node  fits 3
      rack    fits 3    groups 0

Counts follow the log of changed nodes: a change costs one step per level, and nothing else is
looked at again.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.domain.resources import NOTHING, Resources
from scheduler.engine.buckets import Buckets
from scheduler.engine.free_nodes import FreeNodes
from scheduler.engine.gpu_order import GANGS, GANGS_MAX, GpuOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one worker takes."""

    gpus: int
    resources: Resources = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """How the workers of a role must stay together or apart, per level (None: no rule)."""

    level: int = 0
    """Level of which one domain holds a whole slice; 0 where there are no slices."""
    size: int = 1
    """Workers of a slice of the widest kind; 1 where there are no slices."""
    multiples: tuple[int | None, ...] = ()
    """Domains below `level` hold workers in multiples of an inner slice only."""
    caps: tuple[int | None, ...] = ()
    """At most so many workers in one domain."""

    @property
    def is_plain(self) -> bool:
        """Whether workers may go anywhere, one by one."""
        return self == PLAIN

    @property
    def split_level(self) -> int:
        """From this level down every domain has its own share, which others can not take over."""
        return max(self.level, self.capped_level)

    @property
    def capped_level(self) -> int:
        """The widest level whose domains have a cap; 0 where none has."""
        return max((level for level, cap in enumerate(self.caps) if cap is not None), default=0)

    def multiple(self, level: int) -> int:
        """Workers come into a domain of `level` in multiples of this."""
        return (self.multiples[level] if level < len(self.multiples) else None) or 1

    def cap(self, level: int) -> int | None:
        """At most so many workers in one domain of `level`."""
        return self.caps[level] if level < len(self.caps) else None


PLAIN = Grouping()


class FitCounts:
    """Counts for one need, one set of nodes and one grouping."""

    def __init__(
        self, free: FreeNodes, need: Need, allowed: Sequence[bool], grouping: Grouping = PLAIN
    ) -> None:
        self.free = free
        self.need = need
        self.allowed = allowed
        self.grouping = grouping
        self.fits: list[list[int]] = [[0] * len(domains) for domains in free.tree.domains]
        """Per level and domain: workers that fit, as many as the grouping lets use at once."""
        self.groups: list[list[int]] = (
            self.fits if grouping.size == 1 and grouping.level == 0 else _copied(self.fits)
        )
        """Per level and domain: slices that fit; 0 below the level of the slices."""
        self.raw = self.fits if not grouping.caps else _copied(self.fits)
        """Per level and domain: workers that fit, before the caps."""
        self._allowed_nodes = sum(allowed)
        self._short: dict[str, int] = {}
        self._short_of = [""] * len(free.nodes)
        self._homes = free.tree.homes
        self._dirty: list[set[int]] = [set() for _ in self.fits]
        self._orders: list[Buckets | None] = [
            # Only where counts alone decide can domains be kept in order; one needs none.
            Buckets(len(domains)) if grouping.is_plain and len(domains) > 1 else None
            for domains in self.fits
        ]
        self._known = [[d.is_known for d in domains] for domains in free.tree.domains]
        self.seen = -1
        """Place in the pad's log up to which changes are taken in."""
        self.told: tuple[int, Mapping[str, int]] = (-2, {})
        """Why nodes are kept away, as worked out at that place."""
        self._seen_uplinks = -1
        self.changes = 0
        """Grows whenever what fits somewhere, or what is short there, has changed: while it is the
        same, no answer read off these counts alone is another."""

    def refresh(self) -> None:
        """Take in what has changed since the last call."""
        free = self.free
        now = free.log_start + len(free.log)
        if self.seen != now:
            self._update(free.changed_since(self.seen))
            self.seen = now
        now = free.uplink_log_start + len(free.uplink_log)
        if self._seen_uplinks != now:
            self._note_uplinks(self._seen_uplinks - free.uplink_log_start)
            self._seen_uplinks = now

    def tightest_node(self, workers: int) -> int:
        """The node with room for the fewest workers that are enough; -1 if there is none."""
        self.refresh()
        return self.tightest(0, workers)

    def tightest(self, level: int, groups: int) -> int:
        """The known domain of `level` with the fewest groups that are enough; -1 if none is.

        Ties: least left over, fewest gangs on its uplink, topology order.
        """
        order = self._order(level)
        if order is not None:
            return order.find(self._key(level, groups))
        size = self.grouping.size
        return min(
            (number for number in self.known(level) if self.units(level, number, size) >= groups),
            key=lambda number: self._tightness(level, number),
            default=-1,
        )

    def holding(self, level: int, groups: int) -> Iterator[int]:
        """The known domains of `level` that hold so many groups, the tightest first.

        What is free may change in between, if it is as before when the next one is asked for.
        """
        order, start = self._order_for(level, groups)
        if order is None:
            size = self.grouping.size
            found = [n for n in self.known(level) if self.units(level, n, size) >= groups]
            yield from sorted(found, key=lambda number: self._tightness(level, number))
            return
        for key in order.keys[bisect_left(order.keys, start) :]:
            self.refresh()
            self._order(level)
            yield from order.members(key)

    def _order_for(self, level: int, groups: int) -> tuple[Buckets | None, int]:
        """The order of a level, and the key from which on its domains hold so many groups."""
        return self._order(level), self._key(level, groups)

    def _tightness(self, level: int, number: int) -> tuple[int, ...]:
        return (
            self.units(level, number, self.grouping.size),
            self.fits[level][number],
            self.left_over(number) if level == 0 else 0,
            min(GANGS_MAX, self.free.uplinks[level][number]),
            number,
        )

    def most(self, level: int) -> int:
        """The most groups that fit in one known domain of `level`."""
        order = self._order(level) if level else None
        if order is not None:
            return order.keys[-1] // GANGS if order.keys else 0
        size = self.grouping.size
        return max((self.units(level, number, size) for number in self.known(level)), default=0)

    def units(self, level: int, domain: int, unit: int) -> int:
        """How many units a domain holds: slices at and above their level, else `unit` workers."""
        if level >= self.grouping.level:
            return self.groups[level][domain]
        return self.fits[level][domain] // unit

    def usable(self, level: int, domain: int, fits: int) -> int:
        """How many of `fits` workers in a domain may be used at once.

        A cap can not be promised where it is not known which domain of its level this is.
        """
        cap = self.grouping.cap(level)
        if cap is None:
            return fits
        is_promised = level < len(self.grouping.caps) - 1 or self._known[level][domain]
        return min(fits, cap) if is_promised else 0

    def share(self, level: int, domain: int, fits: int) -> int:
        """How many of `fits` workers a domain adds to the domain around it: whole slices only."""
        fits = self.usable(level, domain, fits)
        multiple = self.grouping.multiple(level)
        if multiple == 1:
            return fits
        is_whole_inside = level > 0 and self.grouping.multiple(level - 1) == multiple
        return fits - fits % multiple if is_whole_inside or self._known[level][domain] else 0

    def slices(self, level: int, domain: int, fits: int) -> int:
        """How many slices `fits` workers in a domain of the slices' level make."""
        return fits // self.grouping.size if self._known[level][domain] else 0

    def known(self, level: int) -> Iterator[int]:
        """Numbers of the domains of `level` that can be promised."""
        return (
            number for number, domain in enumerate(self.free.tree.domains[level]) if domain.is_known
        )

    def nodes_short(self) -> dict[str, int]:
        """Allowed nodes on which not one worker fits, by the resource that is shortest."""
        return self._short

    def short_on(self, node: int) -> str:
        """The resource that is shortest on an allowed node; empty if a worker fits."""
        return self._short_of[node]

    def left_over(self, node: int) -> int:
        """Free GPUs that stay on a node when it is filled with workers of this kind."""
        return max(0, self.free.gpus[node] - self.fits[0][node] * self.need.gpus)

    def _update(self, nodes: Iterable[int]) -> None:
        fits, allowed, dirty = self.raw[0], self.allowed, self._dirty[0]
        is_plain = self.grouping.is_plain
        for node in nodes:
            if not allowed[node]:
                continue
            fit = self._fit(node)
            before = fits[node]
            if fit != before:
                self.changes += 1
                if is_plain:
                    self._carry(node, fit - before)
                else:
                    self._set(node, fit)
            if not fit:
                self._note_short(
                    node,
                    min((h // a, name) for h, a, name in amounts(self.free, self.need, node))[1],
                )
            elif not before:
                self._note_short(node, "")
            dirty.add(node)

    def _note_uplinks(self, start: int) -> None:
        """Uplinks above the nodes have changed since a place in their log."""
        dirty = self._dirty
        if start < 0:
            for level in range(1, len(dirty)):
                dirty[level].update(range(len(self.fits[level])))
        else:
            for level, domain in self.free.uplink_log[start:]:
                dirty[level].add(domain)

    def _fit(self, node: int) -> int:
        """Workers that fit on an allowed node, whatever the grouping."""
        free, resources = self.free, self.need.resources
        fit = free.seats[node]
        if self.need.gpus:
            fit = min(fit, free.gpus[node] // self.need.gpus)
        if resources.cpu_milli and fit > 0:
            fit = min(fit, free.cpu_milli[node] // resources.cpu_milli)
        if resources.memory_bytes and fit > 0:
            fit = min(fit, free.memory_bytes[node] // resources.memory_bytes)
        if resources.extended and fit > 0:
            extended = free.extended[node]
            for name, amount in resources.extended:
                if amount:
                    fit = min(fit, extended.get(name, 0) // amount)
        return max(0, fit)

    def _note_short(self, node: int, resource: str) -> None:
        before = self._short_of[node]
        if resource != before:
            self.changes += 1
            self._short_of[node] = resource
            if before:
                self._short[before] -= 1
            if resource:
                self._short[resource] = self._short.get(resource, 0) + 1

    def _carry(self, node: int, change: int) -> None:
        """So many more (or fewer) workers fit on a node, and in all domains around it."""
        for level, domain in enumerate(self._homes[node]):
            self.fits[level][domain] += change
            self._dirty[level].add(domain)

    def _set(self, node: int, fit: int) -> None:
        """Another number of workers fits on a node: carry it up by the rules of the grouping."""
        grouping = self.grouping
        change, group_change = fit - self.raw[0][node], 0
        for level, domain in enumerate(self._homes[node]):
            raw = self.raw[level]
            before = raw[domain]
            after = before + change
            raw[domain] = after
            if grouping.caps:
                self.fits[level][domain] = self.usable(level, domain, after)
            if self.groups is not self.fits:
                group_change = self._set_groups(level, domain, group_change)
            change = self.share(level, domain, after) - self.share(level, domain, before)
            if not change and not group_change and level >= grouping.level:
                return

    def _set_groups(self, level: int, domain: int, change: int) -> int:
        """Groups of a domain whose fits (or, above the slices, whose groups) have changed."""
        groups = self.groups[level]
        if level == self.grouping.level:
            change = self.slices(level, domain, self.fits[level][domain]) - groups[domain]
        if level >= self.grouping.level:
            groups[domain] += change
        return change

    def _order(self, level: int) -> Buckets | None:
        """The domains of a level in order, up to date; None where none is kept."""
        order, dirty = self._orders[level], self._dirty[level]
        if order is not None and dirty:
            self._file(level, dirty, order)
            dirty.clear()
        return order

    def _file(self, level: int, dirty: Iterable[int], order: Buckets) -> None:
        fits, uplinks, known = self.fits[level], self.free.uplinks[level], self._known[level]
        move = order.move
        for number in dirty:
            fit, gangs = fits[number], uplinks[number]
            if not fit or not known[number]:
                move(number, -1)
                continue
            key = fit * GANGS if level else self._key(0, fit, self.left_over(number))
            move(number, key + (gangs if gangs < GANGS_MAX else GANGS_MAX))

    def _key(self, level: int, fit: int, left: int = 0) -> int:
        if level == 0:
            # What is left over on a node comes before the gangs on its uplink.
            return (fit * (self.free.gpus_max + 1) + left) * GANGS
        return fit * GANGS


class GpuCounts(FitCounts):
    """The same where only GPUs bind and workers may go anywhere: the common case, made short."""

    def __init__(
        self, free: FreeNodes, need: Need, allowed: Sequence[bool], order: GpuOrder
    ) -> None:
        super().__init__(free, need, allowed)
        self._nodes = order
        self._least = need.gpus * GANGS
        """The least key of a node with room for a worker in the order of nodes."""
        self._orders[0] = None
        # The widest level has one domain: it needs no looking up and no order.
        self._between = list(
            zip(self.fits[1:-1], free.tree.domain_of[1:-1], self._dirty[1:-1], strict=True)
        )

    def tightest_node(self, workers: int) -> int:
        """Found in the order that all such needs share, without counting anything."""
        order = self._nodes
        order.refresh()
        return order.buckets.find(workers * self._least)

    def tightest(self, level: int, groups: int) -> int:
        """As for all counts."""
        return super().tightest(level, groups) if level else self.tightest_node(groups)

    def _order_for(self, level: int, groups: int) -> tuple[Buckets | None, int]:
        if level:
            return super()._order_for(level, groups)
        self._nodes.refresh()
        return self._nodes.buckets, groups * self._least

    def most(self, level: int) -> int:
        """As for all counts."""
        if level:
            return super().most(level)
        self._nodes.refresh()
        return self._nodes.gpus_most() // self.need.gpus

    def nodes_short(self) -> dict[str, int]:
        """Allowed nodes on which not one worker fits."""
        self._nodes.refresh()
        return {"gpus": self._allowed_nodes - self._nodes.nodes_with(self.need.gpus)}

    def short_on(self, node: int) -> str:
        """`gpus` if no worker fits on the node."""
        return "" if self.fits[0][node] else "gpus"

    def _update(self, nodes: Iterable[int]) -> None:
        fits, need, gpus, allowed = self.fits[0], self.need.gpus, self.free.gpus, self.allowed
        between = self._between
        changes = total = 0
        for node in nodes:
            have = gpus[node]
            fit = have // need if have > 0 and allowed[node] else 0
            change = fit - fits[node]
            if change:
                fits[node] = fit
                changes += 1
                total += change
                for level_fits, domain_of, dirty in between:
                    domain = domain_of[node]
                    level_fits[domain] += change
                    dirty.add(domain)
        if changes:
            self.changes += changes
            self.fits[-1][0] += total


def amounts(free: FreeNodes, need: Need, node: int) -> Iterator[tuple[int, int, str]]:
    """What is free on a node and what one worker takes of it, for all that it takes."""
    if need.gpus:
        yield free.gpus[node], need.gpus, "gpus"
    yield free.seats[node], 1, "workers"
    resources = need.resources
    if resources.cpu_milli:
        yield free.cpu_milli[node], resources.cpu_milli, "cpu"
    if resources.memory_bytes:
        yield free.memory_bytes[node], resources.memory_bytes, "memory"
    if resources.extended:
        extended = free.extended[node]
        for name, amount in resources.extended:
            if amount:
                yield extended.get(name, 0), amount, name


def _copied(levels: list[list[int]]) -> list[list[int]]:
    return [list(level) for level in levels]
