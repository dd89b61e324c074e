"""All-reduce over nodes and racks: layer by layer, or one ring through all of them."""

from dataclasses import dataclass

from scheduler.network.collectives import Hop


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One rung of a hierarchical all-reduce: so many members, joined by such links."""

    members: int
    hop: Hop
    """Rate of one rank, whose shard shrinks from layer to layer."""


def layered_all_reduce_s(size: float, layers: tuple[Layer, ...]) -> float:
    """Reduce-scatter from the closest layer to the widest, then all-gather back, in sequence."""
    time_s = 0.0
    for layer in layers:
        members = layer.members
        time_s += 2 * (members - 1) * layer.hop.latency_s
        time_s += 2 * (members - 1) / members * size / layer.hop.bytes_per_s
        size /= members
    return time_s


def pipelined_layered_all_reduce_s(inner_s: float, outer_s: float, chunks: int) -> float:
    """Two layers whose chunks follow each other: the slower one shows, and one chunk of the other.

    `inner_s` and `outer_s` are what each layer would take for the whole buffer.
    """
    return max(inner_s, outer_s) + min(inner_s, outer_s) / chunks


def ring_bytes_out_of_node(size: float, ranks: int) -> float:
    """Bytes that leave each node in an all-reduce over one ring through all ranks."""
    return 2 * (ranks - 1) / ranks * size


def ring_bytes_out_of_rack(size: float, racks: int) -> float:
    """Bytes that leave each rack in a three-layer all-reduce."""
    return 2 * (racks - 1) / racks * size if racks > 1 else 0.0


def node_rate_two_nodes(*, inner: float, nics: float, efficiency: float) -> float:
    """Bus rate between two nodes: what the slower of NVLink and NICs carries."""
    return min(inner, efficiency * nics)


def tree_rate_two_nodes(*, ranks: int, nics: float) -> float:
    """Bus rate where a tree over two nodes beats the NICs (a flag of the fabric, not the rule)."""
    return 0.83 * 2 * (ranks - 1) / ranks * nics


def uneven_inter_node_s(size: float, rates: tuple[float, ...]) -> float:
    """Inter-node part over k nodes whose usable NIC rates differ: the weakest sets the pace."""
    nodes = len(rates)
    return 2 * (nodes - 1) / nodes * size / min(rates)
