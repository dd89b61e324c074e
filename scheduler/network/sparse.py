"""Top-k compression: what it must leave out before it gains anything."""


def gathered_bytes(entries: float, *, ranks: int, value_bytes: int, index_bytes: int) -> float:
    """Bytes each rank receives when all ranks' kept entries go to everybody."""
    return (ranks - 1) * entries * (value_bytes + index_bytes)


def density_without_gain(*, ranks: int, value_bytes: int, index_bytes: int) -> float:
    """Kept share of entries at which the all-gather moves as much as the plain all-reduce."""
    return 2 * value_bytes / (ranks * (value_bytes + index_bytes))
