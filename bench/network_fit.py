"""Fits of the network model's constants to measured points: robust, non-negative, few numbers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log, log2, sqrt
from statistics import median

from bench.network_rows import CollectiveRow
from scheduler.domain.communication import Collective
from scheduler.network.fabric import InsideLinks, NetworkLinks
from scheduler.network.transfer import TWO_NODES

LARGE_BYTES = 256 << 20
"""From here on a message says what the rate is."""

ERROR_MIN = 0.02
"""Errors below this weigh no more than one of this size: measurements repeat no better."""

RELATIVE_NOISE = 1e-12


def nonnegative_fit(
    features: Sequence[Sequence[float]],
    times: Sequence[float],
    *,
    importance: Sequence[float] = (),
    certain_s: Sequence[float] = (),
    rounds: int = 60,
) -> list[float]:
    """Non-negative coefficients of least absolute relative error (reweighted least squares).

    `certain_s` is a part of each time that is known beforehand; errors are relative to the whole.
    """
    width = len(features[0])
    active = list(range(width))
    importance = importance or [1.0] * len(times)
    certain_s = certain_s or [0.0] * len(times)
    rests = [t - known for t, known in zip(times, certain_s, strict=True)]
    weights = [i / t**2 for i, t in zip(importance, times, strict=True)]
    found = [0.0] * width
    for _ in range(rounds):
        solved = _weighted_solution(features, rests, weights, active)
        while min(solved) < 0 and len(active) > 1:
            scale = [
                value * sum(row[column] for row in features)
                for value, column in zip(solved, active, strict=True)
            ]
            active.pop(scale.index(min(scale)))
            solved = _weighted_solution(features, rests, weights, active)
        found = [0.0] * width
        for value, column in zip(solved, active, strict=True):
            found[column] = max(0.0, value)
        errors = [
            abs(sum(a * b for a, b in zip(row, found, strict=True)) - rest) / t
            for row, rest, t in zip(features, rests, times, strict=True)
        ]
        weights = [
            i / t**2 / max(e, ERROR_MIN) for i, t, e in zip(importance, times, errors, strict=True)
        ]
    return found


def _weighted_solution(
    features: Sequence[Sequence[float]],
    times: Sequence[float],
    weights: Sequence[float],
    active: Sequence[int],
) -> list[float]:
    """Solution of the normal equations, columns scaled to equal size first."""
    columns = [[row[c] for row in features] for c in active]
    scales = [sqrt(sum(w * v * v for w, v in zip(weights, c, strict=True))) or 1.0 for c in columns]
    columns = [[v / s for v in c] for c, s in zip(columns, scales, strict=True)]
    size = len(active)
    matrix = [
        [sum(w * a * b for w, a, b in zip(weights, one, two, strict=True)) for two in columns]
        for one in columns
    ]
    right = [sum(w * a * t for w, a, t in zip(weights, c, times, strict=True)) for c in columns]
    for pivot in range(size):
        matrix[pivot][pivot] += RELATIVE_NOISE
        for row in range(pivot + 1, size):
            factor = matrix[row][pivot] / matrix[pivot][pivot]
            right[row] -= factor * right[pivot]
            for column in range(pivot, size):
                matrix[row][column] -= factor * matrix[pivot][column]
    solved = [0.0] * size
    for row in range(size - 1, -1, -1):
        rest = sum(matrix[row][c] * solved[c] for c in range(row + 1, size))
        solved[row] = (right[row] - rest) / matrix[row][row]
    return [value / scale for value, scale in zip(solved, scales, strict=True)]


def importance_of(rows: Sequence[CollectiveRow]) -> list[float]:
    """Importance of rows: a system with many points counts more, but only by their root."""
    points = Counter(row.system for row in rows)
    return [1 / sqrt(points[row.system]) for row in rows]


def is_ring(row: CollectiveRow) -> bool:
    """Whether the row is of a ring even where switches could add up."""
    return row.collective is not Collective.ALL_REDUCE or row.algorithm.startswith("Ring")


def fit_inside(
    rows: Sequence[CollectiveRow],
    start: InsideLinks,
    *,
    has_switch: bool,
    keeps_latency: bool,
) -> InsideLinks:
    """Constants of links inside a node from its rows; what no row says stays as in `start`."""
    links = start
    sums = [row for row in rows if row.collective is Collective.ALL_REDUCE]
    if has_switch:
        sums = [row for row in sums if not is_ring(row)]
    if sums:
        per_byte, links = _fit_sums(sums, links, has_switch=has_switch, keeps_latency=keeps_latency)
        rate = 1 / per_byte
        if has_switch:
            links = replace(links, switch_bytes_per_s=rate)
        else:
            links = replace(links, ring_bytes_per_s=rate)
    rings = [r for r in rows if is_ring(r) and r.collective is not Collective.ALL_TO_ALL]
    exchanges = [r for r in rows if r.collective is Collective.ALL_TO_ALL]
    ring = _large_rate(rings, links)
    pairwise = _large_rate(exchanges, links)
    if ring and has_switch:
        links = replace(links, ring_bytes_per_s=ring)
    if pairwise:
        links = replace(links, pairwise_bytes_per_s=pairwise)
    return links


def _fit_sums(
    rows: Sequence[CollectiveRow], links: InsideLinks, *, has_switch: bool, keeps_latency: bool
) -> tuple[float, InsideLinks]:
    """Seconds per byte of the all-reduces, and their latencies."""
    wires = [(r.ranks + 1) / r.ranks * r.size if has_switch else r.wire for r in rows]
    importance = importance_of(rows)
    if keeps_latency:
        features = [[wire] for wire in wires]
        times = [r.time_s - links.base_s - links.root_s * sqrt(r.size) for r in rows]
        return nonnegative_fit(features, times, importance=importance)[0], links
    features = [[1.0, sqrt(r.size), wire] for r, wire in zip(rows, wires, strict=True)]
    times = [row.time_s for row in rows]
    base_s, root_s, per_byte = nonnegative_fit(features, times, importance=importance)
    return per_byte, replace(links, base_s=base_s, root_s=root_s)


def _large_rate(rows: Sequence[CollectiveRow], links: InsideLinks) -> float:
    rates = [
        row.wire / (row.time_s - links.base_s - links.root_s * sqrt(row.size))
        for row in rows
        if row.size >= LARGE_BYTES
    ]
    return median(rates) if rates else 0.0


def fit_network(
    rows: Sequence[CollectiveRow],
    start: NetworkLinks,
    *,
    line_s: Callable[[CollectiveRow], float],
    has_two_node_gain: bool,
    has_ring_hops: bool,
    keeps_latency: bool,
) -> NetworkLinks:
    """Constants of a network class from rows over several nodes.

    `line_s` is the time of a row's bytes alone, were every link as fast as its line rate.
    """
    grows = len({row.nodes for row in rows}) > 1
    features = []
    certain_s = []
    for row in rows:
        root, doublings = _root(row, start), log2(row.nodes)
        is_two = has_two_node_gain and row.nodes == TWO_NODES
        line = line_s(row)
        known_s = start.hop_s * doublings
        # Nothing beats the line rate, except over two nodes where a tree is known to.
        known_s += 0.0 if is_two else line
        lines = [0.0 if is_two else line, line if is_two else 0.0]
        if keeps_latency:
            known_s += start.base_s + (start.root_s + start.root_hop_s * doublings) * root
            features.append(lines)
        else:
            roots = [0.0, root * doublings] if grows else [root, 0.0]
            steps = 2.0 * (row.nodes - 1) if has_ring_hops else 0.0
            features.append([1.0, *roots, steps, *lines])
        certain_s.append(known_s)
    *latencies, loss, per_line_two = nonnegative_fit(
        features,
        [row.time_s for row in rows],
        importance=importance_of(rows),
        certain_s=certain_s,
    )
    has_wide = any(features[i][-2] for i in range(len(rows)))
    efficiency = 1 / (1 + loss) if has_wide else start.efficiency
    found = replace(start, efficiency=efficiency)
    if per_line_two:
        found = replace(found, two_node_factor=1 / per_line_two / efficiency)
    if latencies:
        base_s, root_s, root_hop_s, ring_hop_s = latencies
        found = replace(
            found, base_s=base_s, root_s=root_s, root_hop_s=root_hop_s, ring_hop_s=ring_hop_s
        )
    return found


def _root(row: CollectiveRow, network: NetworkLinks) -> float:
    nics = network.root_nic_bytes_per_s
    scale = sqrt(nics / row.nics_bytes_per_s) if nics else 1.0
    return sqrt(min(row.size, network.root_bytes_max)) * scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where a search ended."""

    numbers: tuple[float, ...]
    loss: float


def search(
    loss: Callable[[tuple[float, ...]], float], start: Sequence[float], *, steps: int = 400
) -> Found:
    """Nelder and Mead's simplex search over positive numbers, in their logarithms."""

    def at(point: Sequence[float]) -> float:
        return loss(tuple(exp(value) for value in point))

    simplex = [[log(value) for value in start]]
    for axis in range(len(start)):
        simplex.append([v + (0.4 if axis == i else 0.0) for i, v in enumerate(simplex[0])])
    scored = sorted((at(point), point) for point in simplex)
    for _ in range(steps):
        _improve(scored, at)
        scored.sort()
    return Found(numbers=tuple(exp(value) for value in scored[0][1]), loss=scored[0][0])


def _improve(
    scored: list[tuple[float, list[float]]], at: Callable[[Sequence[float]], float]
) -> None:
    worst_loss, worst = scored[-1]
    others = [point for _, point in scored[:-1]]
    middle = [sum(values) / len(others) for values in zip(*others, strict=True)]

    def along(factor: float) -> tuple[float, list[float]]:
        point = [m + factor * (m - w) for m, w in zip(middle, worst, strict=True)]
        return at(point), point

    reflected = along(1.0)
    if reflected[0] < scored[0][0]:
        scored[-1] = min(reflected, along(2.0))
    elif reflected[0] < scored[-2][0]:
        scored[-1] = reflected
    else:
        nearer = along(-0.5)
        if nearer[0] < worst_loss:
            scored[-1] = nearer
        else:
            best = scored[0][1]
            for index, (_, point) in enumerate(scored[1:], start=1):
                shrunk = [(b + p) / 2 for b, p in zip(best, point, strict=True)]
                scored[index] = (at(shrunk), shrunk)
