"""Where a lone worker of another role can go, and how many workers it displaces there."""

from typing import NamedTuple

from scheduler.engine.counting import FitCounts, Need, amounts


class Beside(NamedTuple):
    """What a domain holds together with the companion."""

    is_possible: bool
    """Whether the companion finds room at all."""
    fits: int
    """Workers that fit beside it; all that fit, where it is not possible."""
    groups: int
    """Slices that fit beside it, likewise."""


class Companion:
    """The counts of a role when one worker of another role goes into the same domain.

    The needs are told apart from the counts: counts may be shared by needs that differ in what
    does not bind.
    """

    def __init__(self, counts: FitCounts, need: Need, own: FitCounts, own_need: Need) -> None:
        self._counts = counts
        self._need = need
        self._own = own
        self._own_need = own_need
        self._known: dict[tuple[int, int], Beside] = {}

    @property
    def displaced_max(self) -> int:
        """The most workers that the companion can displace on any node."""
        taken = _amounts_of(self._own_need)
        each = _amounts_of(self._need)
        # What the companion takes, in workers and rounded up.
        return max(-(-taken.get(name, 0) // amount) for name, amount in each.items() if amount)

    def beside(self, level: int, domain: int) -> Beside:
        """What `domain` holds beside the companion, which goes where it displaces the fewest."""
        found = self._known.get((level, domain))
        if found is None:
            found = self._on_node(domain) if level == 0 else self._in(level, domain)
            self._known[level, domain] = found
        return found

    def _on_node(self, node: int) -> Beside:
        counts = self._counts
        is_possible = self._own.fits[0][node] > 0
        fits = counts.fits[0][node]
        if is_possible and fits:
            fits = counts.usable(0, node, self._fit_beside(node))
        groups = counts.slices(0, node, fits) if counts.grouping.level == 0 else 0
        return Beside(is_possible=is_possible, fits=fits, groups=groups)

    def _fit_beside(self, node: int) -> int:
        """Workers that fit on an allowed node beside the companion."""
        free = self._counts.free
        taken = {name: amount for _, amount, name in amounts(free, self._own_need, node)}
        return max(
            0,
            min(
                (have - taken.get(name, 0)) // amount
                for have, amount, name in amounts(free, self._need, node)
            ),
        )

    def _in(self, level: int, domain: int) -> Beside:
        counts = self._counts
        below = level - 1
        lost_fits: list[int] = []
        lost_groups: list[int] = []
        for child in counts.free.tree.domains[level][domain].children:
            part = self.beside(below, child)
            if part.is_possible:
                alone = counts.share(below, child, counts.fits[below][child])
                lost_fits.append(alone - counts.share(below, child, part.fits))
                lost_groups.append(counts.groups[below][child] - part.groups)
        fits, groups = counts.fits[level][domain], counts.groups[level][domain]
        if not lost_fits:
            return Beside(is_possible=False, fits=fits, groups=groups)
        fits = counts.usable(level, domain, counts.raw[level][domain] - min(lost_fits))
        if level == counts.grouping.level:
            groups = counts.slices(level, domain, fits)
        elif level > counts.grouping.level:
            groups -= min(lost_groups)
        return Beside(is_possible=True, fits=fits, groups=groups)


def _amounts_of(need: Need) -> dict[str, int]:
    """What one worker takes, by resource; a seat always."""
    resources = need.resources
    return {
        "workers": 1,
        "gpus": need.gpus,
        "cpu": resources.cpu_milli,
        "memory": resources.memory_bytes,
        **dict(resources.extended),
    }
