"""NCCL's own estimate of a collective (src/graph/tuning.cc, v2.30.7): a prior for InfiniBand.

For each algorithm and protocol: latency + bytes / bandwidth; the smallest wins. Where a class of
hardware was measured its fitted constants stand in `links`; on other networks than InfiniBand the
latencies here are 3 to 6 times too small.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import log2
from types import MappingProxyType

from scheduler.network.units import MICROSECOND


class Algorithm(StrEnum):
    """How NCCL moves the data of an all-reduce."""

    RING = "ring"
    TREE = "tree"


class Protocol(StrEnum):
    """How NCCL flags data; later ones cost more latency and less bandwidth."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLinks:
    """What the estimate knows of the hardware."""

    inside_bytes_per_s: float
    """Bus rate inside a node."""
    network_bytes_per_s: float
    """Bus rate between nodes."""
    channels: int = 16


_BASE_US = MappingProxyType(
    {
        Algorithm.RING: MappingProxyType(
            {Protocol.LL: 6.6, Protocol.LL128: 14.0, Protocol.SIMPLE: 8.4}
        ),
        Algorithm.TREE: MappingProxyType(
            {Protocol.LL: 6.8, Protocol.LL128: 14.0, Protocol.SIMPLE: 8.4}
        ),
    }
)
_NVLINK_US = MappingProxyType(
    {
        Algorithm.RING: MappingProxyType(
            {Protocol.LL: 0.6, Protocol.LL128: 1.9, Protocol.SIMPLE: 3.4}
        ),
        Algorithm.TREE: MappingProxyType(
            {Protocol.LL: 0.6, Protocol.LL128: 1.25, Protocol.SIMPLE: 4.0}
        ),
    }
)
_NETWORK_US = MappingProxyType(
    {
        Algorithm.RING: MappingProxyType(
            {Protocol.LL: 2.7, Protocol.LL128: 4.0, Protocol.SIMPLE: 14.0}
        ),
        Algorithm.TREE: MappingProxyType(
            {Protocol.LL: 5.0, Protocol.LL128: 8.5, Protocol.SIMPLE: 14.0}
        ),
    }
)
_BANDWIDTH_SHARE = MappingProxyType(
    {
        Algorithm.RING: MappingProxyType(
            {Protocol.LL: 0.5, Protocol.LL128: 0.92, Protocol.SIMPLE: 1.0}
        ),
        Algorithm.TREE: MappingProxyType(
            {Protocol.LL: 0.92 / 3.8, Protocol.LL128: 0.92 * 120 / 128, Protocol.SIMPLE: 0.92}
        ),
    }
)

_LL128_ONE_NODE = 7 / 9 / (120 / 128)
"""Tree LL128 inside one node, divided by the same over several."""

PLATEAU_BYTES_MIN = 64
"""Bytes per channel and rank from which on a ring over nodes is on its plateau."""

PLATEAU_FACTOR = 1.4
"""By how much the latency of a Simple ring grows there (Ampere and later; before: 1.9)."""


def applies_plateau_factor(size: float, *, channels: int, ranks: int) -> bool:
    """Whether a message is large enough for NCCL's correction of a ring over nodes."""
    return size / (channels * ranks) >= PLATEAU_BYTES_MIN


def all_reduce_prior_s(size: float, *, nodes: int, ranks: int, links: NcclLinks) -> float:
    """NCCL's estimate of an all-reduce: that of the algorithm and protocol it would take."""
    if ranks <= 1 or size <= 0:
        return 0.0
    is_long = nodes > 1 and applies_plateau_factor(size, channels=links.channels, ranks=ranks)
    return min(
        _latency_s(algorithm, protocol, nodes, ranks)
        * (PLATEAU_FACTOR if is_long and (algorithm, protocol) == _PLATEAU else 1.0)
        + _wire_s(algorithm, protocol, size, nodes=nodes, ranks=ranks, links=links)
        for algorithm in Algorithm
        for protocol in Protocol
    )


_PLATEAU = (Algorithm.RING, Protocol.SIMPLE)


def _latency_s(algorithm: Algorithm, protocol: Protocol, nodes: int, ranks: int) -> float:
    base = _BASE_US[algorithm][protocol]
    inside = _NVLINK_US[algorithm][protocol]
    network = _NETWORK_US[algorithm][protocol]
    if algorithm is Algorithm.RING:
        between = 2 * (nodes - 1)
        return (base + (2 * (ranks - 1) - between) * inside + between * network) * MICROSECOND
    return (base + 2 * ((ranks / nodes - 1) * inside + log2(nodes) * network)) * MICROSECOND


def _wire_s(
    algorithm: Algorithm,
    protocol: Protocol,
    size: float,
    *,
    nodes: int,
    ranks: int,
    links: NcclLinks,
) -> float:
    rate = links.inside_bytes_per_s if nodes == 1 else links.network_bytes_per_s
    rate *= _BANDWIDTH_SHARE[algorithm][protocol]
    if nodes == 1 and (algorithm, protocol) == (Algorithm.TREE, Protocol.LL128):
        rate *= _LL128_ONE_NODE
    moved = 2 * size if algorithm is Algorithm.TREE else 2 * (ranks - 1) / ranks * size
    return moved / rate
