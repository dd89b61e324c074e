"""The time of one collective of a group of ranks on a fabric, with the fabric's fitted constants.

inside a node    base + hops + root x sqrt(S) + wire / rate of NVLink or PCIe
over nodes       the same with the network's constants; one ring through all ranks runs at the
                 slowest of: the inside links, the NICs of its weakest node, the uplinks it takes
"""

from dataclasses import replace
from math import ceil, inf, log2, sqrt
from typing import NamedTuple

from scheduler.domain.communication import Collective
from scheduler.network.collectives import bus_factor
from scheduler.network.ecmp import hashed_seconds_per_byte
from scheduler.network.fabric import Fabric, InsideLinks, NetworkLinks, NodeLinks, RankOrder
from scheduler.network.groups import Group, Part

ALONE: tuple[float, ...] = ()
"""Shares of a job that has every link for itself."""

TWO_NODES = 2


class Cost(NamedTuple):
    """Seconds of communication: what more bandwidth would not change, and what it would."""

    latency_s: float
    wire_s: float

    @property
    def total_s(self) -> float:
        """Both."""
        return self.latency_s + self.wire_s

    def times(self, factor: float) -> "Cost":
        """So many of them, one after the other."""
        return Cost(self.latency_s * factor, self.wire_s * factor)

    def plus(self, other: "Cost") -> "Cost":
        """One after the other."""
        return Cost(self.latency_s + other.latency_s, self.wire_s + other.wire_s)


FREE = Cost(0.0, 0.0)


def collective_cost(
    collective: Collective,
    size: float,
    group: Group,
    fabric: Fabric,
    *,
    node: NodeLinks,
    shares: tuple[float, ...] = ALONE,
) -> Cost:
    """Cost of one collective of `size` bytes (counted as in `collectives`).

    `shares[t]` is the part of the links out of a domain of level t that the job gets; missing: all.
    """
    ranks = group.ranks
    if ranks <= 1 or size <= 0:
        return FREE
    wire_s = (
        bus_factor(collective, ranks) * size / bus_rate(collective, group, fabric, node, shares)
    )
    if group.tier <= fabric.nvlink_tier:
        return Cost(_inside_latency_s(collective, size, ranks, node.inside), wire_s)
    network = fabric.network
    fill_s = network_root_s(network, group.nodes, node) * sqrt(min(size, network.root_bytes_max))
    return Cost(_latency_s(collective, group, fabric, node) + fill_s, wire_s)


def bus_rate(
    collective: Collective,
    group: Group,
    fabric: Fabric,
    node: NodeLinks,
    shares: tuple[float, ...] = ALONE,
) -> float:
    """Bytes per second of one large collective of the group, as busbw counts them."""
    ranks = group.ranks
    if group.tier <= fabric.nvlink_tier:
        return _inside_rate(collective, ranks, node.inside)
    if collective is Collective.ALL_TO_ALL:
        return _exchange_rate(group, fabric, node, shares)
    rate = _inside_rate(collective, ranks, node.inside) if ranks > group.nodes else inf
    hashes = fabric.rank_order is not RankOrder.SORTED
    network = fabric.network
    efficiency = network.efficiency
    if group.nodes == TWO_NODES:
        efficiency *= network.two_node_factor
    if collective is Collective.ALL_REDUCE:
        efficiency *= network.switch_factor
    for level in range(fabric.nvlink_tier, group.tier):
        share = shares[level] if level < len(shares) else 1.0
        for part in group.parts_by_level[level]:
            if hashes or (level and fabric.levels[level - 1].uplinks):
                way_out = share * _ring_way_out(level, part, group, fabric, node)
            else:
                way_out = share * _way_out(level, part, fabric, node)
            rate = min(rate, efficiency * way_out * part.ranks / part.job_ranks)
    return rate


def network_root_s(network: NetworkLinks, nodes: int, node: NodeLinks) -> float:
    """Seconds per square root of a byte over so many nodes with such NICs."""
    root_s = network.root_s + network.root_hop_s * log2(nodes)
    if network.root_nic_bytes_per_s and node.nics_bytes_per_s:
        root_s *= sqrt(network.root_nic_bytes_per_s / node.nics_bytes_per_s)
    return root_s


def _inside_latency_s(collective: Collective, size: float, ranks: int, links: InsideLinks) -> float:
    return links.base_s + links.hop_s * _steps(collective, ranks) + links.root_s * sqrt(size)


def _steps(collective: Collective, ranks: int) -> int:
    match collective:
        case Collective.ALL_REDUCE:
            return 2 * (ranks - 1)
        case Collective.SEND_RECEIVE:
            return 1
        case _:
            return ranks - 1


def _inside_rate(collective: Collective, ranks: int, links: InsideLinks) -> float:
    match collective:
        case Collective.ALL_REDUCE:
            # The better of a ring and of switches that add up, whose wire carries (n + 1)/n of S.
            switch = 2 * (ranks - 1) / (ranks + 1) * links.switch_bytes_per_s
            return max(links.ring_bytes_per_s, switch)
        case Collective.ALL_TO_ALL:
            return links.pairwise_bytes_per_s or links.ring_bytes_per_s
        case _:
            return links.ring_bytes_per_s


def _latency_s(collective: Collective, group: Group, fabric: Fabric, node: NodeLinks) -> float:
    network = fabric.network
    nodes = TWO_NODES if collective is Collective.SEND_RECEIVE else group.nodes
    # A ring through all ranks steps from node to node only once per node.
    steps = _steps(collective, group.ranks)
    between = _steps(collective, group.nodes)
    crossings_s = sum(
        fabric.levels[level - 1].hop_s for level in range(1, min(group.tier, len(fabric.levels)))
    )
    # What leaves a node passes through the same software and hosts as what does not.
    return (
        max(network.base_s, node.inside.base_s)
        + network.hop_s * log2(nodes)
        + max(network.ring_hop_s, node.inside.hop_s) * between
        + node.inside.hop_s * (steps - between)
        + crossings_s
    )


def _ring_way_out(level: int, part: Part, group: Group, fabric: Fabric, node: NodeLinks) -> float:
    """Rate out of one domain for the rings of all groups with ranks in it, at line rate."""
    entries = _entries(level, part, group, fabric)
    links = fabric.levels[level - 1].uplinks if level else 0
    way_out = _way_out(level, part, fabric, node)
    if not links:
        return way_out / entries
    channels = max(1, round(node.usable_nics(part.job_ranks)))
    return channels / hashed_seconds_per_byte(
        flows=max(channels, round(channels * entries)),
        links=links,
        draws=group.domains_by_level[level],
        flow_bytes_per_s=node.nic_bytes_per_s,
        link_bytes_per_s=way_out / links,
    )


def _way_out(level: int, part: Part, fabric: Fabric, node: NodeLinks) -> float:
    """Line rate out of one domain that holds the part."""
    if level == 0:
        return node.usable_nics(part.job_ranks) * node.nic_bytes_per_s
    description = fabric.levels[level - 1]
    if level == fabric.nvlink_tier:
        # An NVLink domain leaves through the NICs of the nodes that the job holds there.
        held = min(description.nodes, ceil(part.job_ranks / node.gpus))
        description = replace(description, nodes=max(1, held))
    return description.way_out_bytes_per_s(node)


def _entries(level: int, part: Part, group: Group, fabric: Fabric) -> float:
    """How often a ring enters a domain: once, unless ranks are not numbered rack by rack."""
    if level == 0 or fabric.rank_order is RankOrder.SORTED:
        return 1.0
    nodes = group.nodes
    inside = max(1.0, nodes * part.ranks / group.ranks)
    if inside >= nodes:
        return 1.0
    if fabric.rank_order is RankOrder.ALTERNATING:
        return max(1.0, min(inside, nodes - inside))
    return random_ring_entries(inside, nodes)


def random_ring_entries(inside: float, nodes: int) -> float:
    """Expected times that a ring in random order enters a rack with so many of its k nodes."""
    if nodes <= 1:
        return 1.0
    return max(1.0, inside * (nodes - inside) / (nodes - 1))


def _exchange_rate(
    group: Group, fabric: Fabric, node: NodeLinks, shares: tuple[float, ...]
) -> float:
    """Bus rate of an all-to-all: each rank sends (n - 1)/n of S, most of it to other domains."""
    ranks = group.ranks
    rate = node.inside.pairwise_bytes_per_s or node.inside.ring_bytes_per_s
    for level in range(fabric.nvlink_tier, group.tier):
        share = shares[level] if level < len(shares) else 1.0
        for part in group.parts_by_level[level]:
            per_rank = _way_out(level, part, fabric, node) * share / part.job_ranks
            if level > 0:
                # Only what stays inside the domain is spared its uplinks.
                per_rank *= (ranks - 1) / max(1, ranks - part.ranks)
            rate = min(rate, fabric.network.efficiency * per_rank)
    return rate
