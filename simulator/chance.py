"""Draws named by the run's one seed and what they are for: the same in any process and order."""

from hashlib import blake2b

BITS = 53


def uniform(seed: int, *names: str | int) -> float:
    """A number in (0, 1), of its own for every seed and name."""
    text = "/".join([str(seed), *map(str, names)])
    drawn = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - BITS)
    return (drawn + 0.5) / (1 << BITS)
