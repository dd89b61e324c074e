"""What a job puts on the uplink of each rack, per step and direction, by pattern of exchange."""

from math import floor


def sorted_ring_bytes(size: float, *, ranks: int) -> float:
    """Ranks numbered rack by rack: as much as one node's egress, however many nodes are in it."""
    return 2 * (ranks - 1) / ranks * size


def alternating_ring_bytes(size: float, *, ranks: int, nodes_in_rack: int) -> float:
    """The worst order: every node's way out leads out of the rack."""
    return nodes_in_rack * sorted_ring_bytes(size, ranks=ranks)


def random_ring_bytes(size: float, *, ranks: int, nodes: int, nodes_in_rack: int) -> float:
    """Random order of k nodes, m of them in the rack: m (k - m) / (k - 1) crossings."""
    if nodes <= 1:
        return 0.0
    crossings = nodes_in_rack * (nodes - nodes_in_rack) / (nodes - 1)
    return crossings * sorted_ring_bytes(size, ranks=ranks)


def layered_bytes(size: float, *, racks: int) -> float:
    """Reduce inside the rack first."""
    return 2 * (racks - 1) / racks * size


def tree_bytes(size: float, *, child_racks: int, has_parent: bool) -> float:
    """A rack-aware tree: S up to the parent's rack, and S down to each child's; out of the rack.

    An inner rack of a binary tree of racks sends up to 2S down and S up: 2S at most one way, since
    its own way up runs while the ways down of the half before do.
    """
    return max(size * (1 if has_parent else 0), size * child_racks)


def all_to_all_bytes(size: float, *, ranks: int, ranks_in_rack: int) -> float:
    """Each rank sends 1/n of its buffer to every rank; what leaves the rack is the rest's part."""
    return ranks_in_rack * size * (ranks - ranks_in_rack) / ranks


def parameter_server_bytes(
    size: float, *, workers_in_rack: int, servers_outside: int, servers: int
) -> float:
    """Gradients pushed to servers in other racks; as much comes back."""
    return workers_in_rack * size * servers_outside / servers


def pipeline_bytes(activation: float, *, micro_batches: int, crossings: int) -> float:
    """Activations of every micro-batch over each boundary between stages that leaves the rack."""
    return activation * micro_batches * crossings


def rings_without_loss(nodes_in_rack: int, oversubscription: float) -> int:
    """Rack-aware rings that may cross a rack's uplinks at once and not feel them: N_r / o."""
    return floor(nodes_in_rack / oversubscription)
