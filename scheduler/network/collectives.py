"""Times of single collectives over equal links: the alpha-beta closed forms.

Sizes are counted as nccl-tests counts them: an all-reduce by the buffer of one rank; all-gather,
reduce-scatter and all-to-all by the full buffer, n shards. Under LogGP read `latency_s` as L + 2o
and `bytes_per_s` as 1/G.
"""

from dataclasses import dataclass
from math import ceil, inf, log2, sqrt

from scheduler.domain.communication import Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One step over one link, in one direction."""

    latency_s: float
    bytes_per_s: float
    reduce_s_per_byte: float = 0.0
    """Cost of adding up one received byte; 0 on GPUs unless measured."""

    def __post_init__(self) -> None:
        assert self.latency_s >= 0.0
        assert self.bytes_per_s > 0.0


def send_s(size: float, hop: Hop) -> float:
    """One message from one rank to another."""
    return hop.latency_s + size / hop.bytes_per_s


def ring_all_reduce_s(size: float, ranks: int, hop: Hop) -> float:
    """Reduce-scatter, then all-gather, around a ring."""
    return ring_reduce_scatter_s(size, ranks, hop) + ring_all_gather_s(size, ranks, hop)


def ring_reduce_scatter_s(size: float, ranks: int, hop: Hop) -> float:
    """n - 1 steps of one shard, each added up on arrival."""
    shard = size / ranks
    return (ranks - 1) * (send_s(shard, hop) + shard * hop.reduce_s_per_byte)


def ring_all_gather_s(size: float, ranks: int, hop: Hop) -> float:
    """n - 1 steps of one shard."""
    return (ranks - 1) * send_s(size / ranks, hop)


def halving_doubling_all_reduce_s(size: float, ranks: int, hop: Hop) -> float:
    """Recursive halving, then doubling (Rabenseifner); `ranks` is a power of two."""
    assert ranks & (ranks - 1) == 0
    wire = (ranks - 1) / ranks * size
    return (
        2 * log2(ranks) * hop.latency_s + 2 * wire / hop.bytes_per_s + wire * hop.reduce_s_per_byte
    )


def recursive_doubling_all_reduce_s(size: float, ranks: int, hop: Hop) -> float:
    """Whole buffers exchanged with partners 1, 2, 4, ... away: best for small ones.

    `ranks` is a power of two.
    """
    assert ranks & (ranks - 1) == 0
    return log2(ranks) * (send_s(size, hop) + size * hop.reduce_s_per_byte)


def binomial_broadcast_s(size: float, ranks: int, hop: Hop) -> float:
    """Broadcast (or, backwards, reduce) along a binomial tree, not pipelined."""
    return ceil(log2(ranks)) * send_s(size, hop)


def pipelined_broadcast_s(
    size: float, depth: int, hop: Hop, chunk: float, *, children: int = 1
) -> float:
    """Down a chain of `depth` hops in chunks that follow each other; 0 bytes take no time.

    With two children (a binary tree) each step sends every chunk twice: 2c/B.
    """
    chunk = min(size, chunk)
    steps = depth + ceil(size / chunk) - 1 if size else 0
    return steps * send_s(children * chunk, hop)


def best_chunk(size: float, depth: int, hop: Hop) -> float:
    """The chunk that makes the pipelined broadcast fastest; never more than the message."""
    if depth <= 1:
        return size
    return min(size, sqrt(size * hop.latency_s * hop.bytes_per_s / (depth - 1)))


def best_pipelined_broadcast_s(size: float, depth: int, hop: Hop) -> float:
    """With the best chunk, divisible at will: the root of `size` that measurements show."""
    if not size:
        return 0.0
    if best_chunk(size, depth, hop) == size:
        return depth * send_s(size, hop)
    fill_s = (depth - 1) * hop.latency_s
    wire_s = size / hop.bytes_per_s
    return fill_s + wire_s + 2 * sqrt(fill_s * wire_s)


def single_tree_all_reduce_s(size: float, depth: int, hop: Hop, *, is_overlapped: bool) -> float:
    """Reduce up one binary tree and broadcast down it, pipelined; half of the links idle.

    An inner rank receives from two children and sends to two: 2S over one link. Up and then down is
    4S; when the way down starts while the way up runs, the busiest link carries 3S.
    """
    factor = 3 if is_overlapped else 4
    return 2 * depth * hop.latency_s + factor * size / hop.bytes_per_s


def double_tree_all_reduce_s(size: float, ranks: int, hop: Hop) -> float:
    """Two binary trees with half the buffer each: every rank sends and receives 2S."""
    return 2 * ceil(log2(ranks)) * hop.latency_s + 2 * size / hop.bytes_per_s


def in_network_all_reduce_s(size: float, hop: Hop) -> float:
    """The switches add up (SHARP): S up while S comes down."""
    return 2 * hop.latency_s + size / hop.bytes_per_s


def switch_all_reduce_s(size: float, ranks: int, hop: Hop) -> float:
    """NVLink switches add up (NVLS): (n + 1)/n of S on the wire of each rank."""
    return 2 * hop.latency_s + (ranks + 1) / ranks * size / hop.bytes_per_s


def pairwise_all_to_all_s(size: float, ranks: int, hop: Hop) -> float:
    """n - 1 exchanges of one shard with one partner each."""
    return (ranks - 1) * send_s(size / ranks, hop)


def bus_factor(collective: Collective, ranks: int) -> float:
    """busbw / algbw as nccl-tests reports it: bytes on the wire of a ring per byte of size."""
    match collective:
        case Collective.ALL_REDUCE:
            return 2 * (ranks - 1) / ranks
        case Collective.ALL_GATHER | Collective.REDUCE_SCATTER | Collective.ALL_TO_ALL:
            return (ranks - 1) / ranks
        case Collective.BROADCAST | Collective.SEND_RECEIVE:
            return 1.0


def bus_bytes_per_s(collective: Collective, *, size: float, ranks: int, time_s: float) -> float:
    """busbw of a measured time."""
    return bus_factor(collective, ranks) * size / time_s if time_s else inf


def time_at_bus_rate_s(collective: Collective, *, size: float, ranks: int, rate: float) -> float:
    """The time that busbw `rate` (bytes per second) stands for."""
    return bus_factor(collective, ranks) * size / rate


def switch_bus_bytes_per_s(ranks: int, *, ring: float, switch: float) -> float:
    """busbw inside a node whose switches can add up: the better of a ring and the switches."""
    return max(ring, 2 * (ranks - 1) / (ranks + 1) * switch)
