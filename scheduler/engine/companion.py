"""Where a lone worker of another role can go, and how many workers it displaces there."""

from typing import NamedTuple

from scheduler.engine.counting import FitCounts, Need


class Beside(NamedTuple):
    """What a domain holds together with the companion."""

    is_possible: bool
    """Whether the companion finds room at all."""
    fits: int
    """Workers that fit beside it; all that fit, where it is not possible."""
    groups: int
    """Slices that fit beside it, likewise."""


class Companion:
    """The counts of a role when one worker of another role goes into the same domain."""

    def __init__(self, counts: FitCounts, own: FitCounts) -> None:
        self._counts = counts
        self._own = own
        self._known: dict[tuple[int, int], Beside] = {}

    @property
    def need(self) -> Need:
        """What the companion takes."""
        return self._own.need

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
            fits = counts.usable(0, node, counts.fit_beside(node, self.need))
        groups = counts.slices(0, node, fits) if counts.grouping.level == 0 else 0
        return Beside(is_possible=is_possible, fits=fits, groups=groups)

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
