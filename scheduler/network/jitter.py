"""A barrier waits for the slowest of its members."""

from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()


@lru_cache(maxsize=4096)
def expected_largest(members: int) -> float:
    """Expected largest of so many standard normal draws (Blom's approximation); 0 for one."""
    if members <= 1:
        return 0.0
    return _NORMAL.inv_cdf((members - 0.375) / (members + 0.25))


def barrier_factor(members: int, variation: float) -> float:
    """Mean time until the last member arrives, divided by a member's mean compute time.

    `variation` is standard deviation / mean of the compute time; communication does not jitter.
    """
    return 1.0 + variation * expected_largest(members) if variation else 1.0
