"""Collectives played message by message: every port carries one message at a time."""

from collections import defaultdict
from math import ceil, log2

from scheduler.network.collectives import Hop


class Wires:
    """Full-duplex ports: a message holds its sender's way out and its receiver's way in."""

    def __init__(self, hop: Hop) -> None:
        self._hop = hop
        self._out_free: dict[int, float] = defaultdict(float)
        self._in_free: dict[int, float] = defaultdict(float)

    def send(self, source: int, target: int, size: float, ready: float) -> float:
        """When the whole message has arrived."""
        start = max(ready, self._out_free[source], self._in_free[target])
        done = start + size / self._hop.bytes_per_s
        # The latency of one step is paid before the next may begin, as alpha-beta counts it.
        self._out_free[source] = done + self._hop.latency_s
        self._in_free[target] = done + self._hop.latency_s
        return done + self._hop.latency_s

    def reduced(self, size: float, at: float) -> float:
        """When a received message has been added up."""
        return at + size * self._hop.reduce_s_per_byte


def play_ring_reduce_scatter(size: float, ranks: int, hop: Hop) -> float:
    wires = Wires(hop)
    ready = [0.0] * ranks
    for _ in range(ranks - 1):
        arrived = [wires.send(r, (r + 1) % ranks, size / ranks, ready[r]) for r in range(ranks)]
        ready = [
            wires.reduced(size / ranks, max(ready[r], arrived[(r - 1) % ranks]))
            for r in range(ranks)
        ]
    return max(ready)


def play_ring_all_gather(size: float, ranks: int, hop: Hop) -> float:
    return play_ring_reduce_scatter(
        size, ranks, Hop(latency_s=hop.latency_s, bytes_per_s=hop.bytes_per_s)
    )


def play_ring_all_reduce(size: float, ranks: int, hop: Hop) -> float:
    return play_ring_reduce_scatter(size, ranks, hop) + play_ring_all_gather(size, ranks, hop)


def play_halving_doubling(size: float, ranks: int, hop: Hop) -> float:
    wires = Wires(hop)
    ready = [0.0] * ranks
    part = size
    distance = ranks // 2
    steps: list[tuple[int, float, bool]] = []
    while distance >= 1:
        part /= 2
        steps.append((distance, part, True))
        distance //= 2
    steps += [(distance, part, False) for distance, part, _ in reversed(steps)]
    for distance, part, adds in steps:
        arrived = [wires.send(r, r ^ distance, part, ready[r]) for r in range(ranks)]
        ready = [
            wires.reduced(part, max(ready[r], arrived[r ^ distance]))
            if adds
            else max(ready[r], arrived[r ^ distance])
            for r in range(ranks)
        ]
    return max(ready)


def play_recursive_doubling(size: float, ranks: int, hop: Hop) -> float:
    wires = Wires(hop)
    ready = [0.0] * ranks
    for step in range(ceil(log2(ranks))):
        arrived = [wires.send(r, r ^ (1 << step), size, ready[r]) for r in range(ranks)]
        ready = [wires.reduced(size, max(ready[r], arrived[r ^ (1 << step)])) for r in range(ranks)]
    return max(ready)


def play_binomial_broadcast(size: float, ranks: int, hop: Hop) -> float:
    wires = Wires(hop)
    have = {0: 0.0}
    step = 1
    while len(have) < ranks:
        for rank, since in sorted(have.items()):
            if rank + step < ranks:
                have[rank + step] = wires.send(rank, rank + step, size, since)
        # A rank sends its next copy when this one is through.
        step *= 2
    return max(have.values())


def play_pipelined_chain(size: float, depth: int, hop: Hop, chunk: float) -> float:
    wires = Wires(hop)
    chunks = ceil(size / chunk)
    arrived = [0.0] * chunks
    for link in range(depth):
        arrived = [wires.send(link, link + 1, chunk, ready) for ready in arrived]
    return arrived[-1]


def play_pairwise_all_to_all(size: float, ranks: int, hop: Hop) -> float:
    wires = Wires(hop)
    ready = [0.0] * ranks
    for step in range(1, ranks):
        arrived = [wires.send(r, (r + step) % ranks, size / ranks, ready[r]) for r in range(ranks)]
        ready = [max(arrived[r], arrived[(r - step) % ranks]) for r in range(ranks)]
    return max(ready)


def busiest_port_s(sizes: dict[tuple[str, str], float], hop: Hop) -> float:
    """Time of the busiest way in or out, for traffic that is pipelined in small chunks."""
    out: dict[str, float] = defaultdict(float)
    into: dict[str, float] = defaultdict(float)
    for (source, target), size in sizes.items():
        if source != target:
            out[source] += size
            into[target] += size
    return max([*out.values(), *into.values(), 0.0]) / hop.bytes_per_s


def tree_edges(ranks: int) -> list[tuple[int, int]]:
    """(parent, child) of a binary heap."""
    return [((child - 1) // 2, child) for child in range(1, ranks)]
