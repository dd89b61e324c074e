"""The short way for the common gang: equal workers that may go anywhere, by best fit.

The same answers as the general way (choosing.py; a property test holds the two together), read
off counts that are kept in order.
"""

from collections.abc import Sequence

from scheduler.engine.counting import FitCounts
from scheduler.engine.gpu_order import GANGS, GANGS_MAX

Spot = tuple[int, int]
"""A node and the workers on it."""


def fill(counts: FitCounts, level: int, domain: int, workers: int) -> list[Spot]:
    """The nodes that `workers` get inside a domain that holds them, in topology order."""
    domains: Sequence[int] = (domain,)
    for inner in range(level - 1, 0, -1):
        domains = _fewest_domains(counts, inner, domains, workers)
    spots = _fewest_nodes(counts, domains, workers)
    spots.sort()
    return spots


def _fewest_domains(
    counts: FitCounts, level: int, around: Sequence[int], workers: int
) -> list[int]:
    """Sub-domains at `level`, the fullest first and the last one tight."""
    outer = counts.free.tree.domains[level + 1]
    fits, uplinks = counts.fits[level], counts.free.uplinks[level]
    # One whole number per domain sorts like (-fits, gangs on the uplink, domain).
    scale = len(fits)
    keys = [
        (min(GANGS_MAX, uplinks[child]) - fits[child] * GANGS) * scale + child
        for domain in around
        for child in outer[domain].children
        if fits[child]
    ]
    keys.sort()
    return [domain for domain, _ in _fewest([key % scale for key in keys], fits, workers)]


def _fewest_nodes(counts: FitCounts, racks: Sequence[int], workers: int) -> list[Spot]:
    """Nodes, the fullest first and the last one tight."""
    domains = counts.free.tree.domains[1]
    fits, gpus, need = counts.fits[0], counts.free.gpus, counts.need.gpus
    uplinks, gpus_max = counts.free.uplinks[0], counts.free.gpus_max
    nodes = [node for rack in racks for node in domains[rack].nodes if fits[node]]
    if need == gpus_max and not any(map(uplinks.__getitem__, nodes)):
        # Whole nodes without a gang on their uplinks: all are alike.
        return [(node, 1) for node in nodes[:workers]]
    # Likewise (-fits, GPUs left over, gangs on the uplink, node).
    lefts = (gpus_max + 1) * GANGS
    scale = len(fits)
    keys = [
        (
            (gpus[node] - fits[node] * need) * GANGS
            + (uplinks[node] if uplinks[node] < GANGS_MAX else GANGS_MAX)
            - fits[node] * lefts
        )
        * scale
        + node
        for node in nodes
    ]
    keys.sort()
    return _fewest([key % scale for key in keys], fits, workers)


def _fewest(ordered: Sequence[int], fits: Sequence[int], workers: int) -> list[Spot]:
    """The first items, until one holds what is left: then the tightest that does."""
    spots: list[Spot] = []
    left = workers
    for index, item in enumerate(ordered):
        fit = fits[item]
        if fit >= left:
            best, best_fit = item, fit
            for other in ordered[index + 1 :]:
                other_fit = fits[other]
                if other_fit < left:
                    break
                if other_fit < best_fit:
                    best, best_fit = other, other_fit
            spots.append((best, left))
            return spots
        spots.append((item, fit))
        left -= fit
    raise AssertionError("the domain was said to hold the workers")
