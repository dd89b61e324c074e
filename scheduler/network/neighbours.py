"""Gossip: ranks that average with a few neighbours instead of with everybody."""

from math import ceil, log2

from scheduler.network.collectives import Hop, send_s


def gossip_degree(ranks: int, degree: int) -> int:
    """Neighbours a rank really has: with two ranks there is but one, alone there is none."""
    return min(degree, ranks - 1)


def gossip_s(size: float, ranks: int, degree: int, hop: Hop) -> float:
    """One exchange with every neighbour; the same rate in and out, whatever the gang's size."""
    neighbours = gossip_degree(ranks, degree)
    if neighbours <= 0:
        return 0.0
    return hop.latency_s + neighbours * size / hop.bytes_per_s


def one_peer_exponential_s(size: float, ranks: int, hop: Hop) -> float:
    """One partner a step, 1, 2, 4, ... away in turn: the cheapest gossip that still mixes."""
    return send_s(size, hop) if ranks > 1 else 0.0


def static_exponential_degree(ranks: int) -> int:
    """Neighbours at distances 1, 2, 4, ...: all of them every step."""
    return ceil(log2(ranks)) if ranks > 1 else 0
