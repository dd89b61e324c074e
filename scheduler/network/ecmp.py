"""Flows hashed over parallel uplinks (ECMP): some share a link while others stay empty."""

from functools import lru_cache
from math import comb


@lru_cache(maxsize=1024)
def fullest_link_distribution(flows: int, links: int) -> tuple[float, ...]:
    """P(the fullest of `links` equal links carries exactly m of `flows` flows), m = 0 ... flows."""
    at_most = [_chance_none_above(flows, links, most) for most in range(flows + 1)]
    return tuple(at_most[most] - (at_most[most - 1] if most else 0.0) for most in range(flows + 1))


@lru_cache(maxsize=1024)
def fullest_link_over_draws(flows: int, links: int, draws: int) -> tuple[float, ...]:
    """The same for the fullest link of several independent sets (directions, racks)."""
    total = 0.0
    before = 0.0
    chances = []
    for chance in fullest_link_distribution(flows, links):
        total += chance
        at_most = min(1.0, total) ** draws
        chances.append(at_most - before)
        before = at_most
    return tuple(chances)


def hashed_seconds_per_byte(
    *, flows: int, links: int, draws: int, flow_bytes_per_s: float, link_bytes_per_s: float
) -> float:
    """Expected seconds per byte of the slowest flow: flows of one ring wait for each other."""
    return sum(
        chance * max(1 / flow_bytes_per_s, most / link_bytes_per_s)
        for most, chance in enumerate(fullest_link_over_draws(flows, links, draws))
    )


def _chance_none_above(flows: int, links: int, most: int) -> float:
    """P(no link carries more than `most`), flow by flow over the links in turn."""
    # ways[f]: chance-weighted ways to put f flows on the links seen so far, none above `most`.
    ways = [1.0] + [0.0] * flows
    for seen in range(links):
        chance = 1.0 / (links - seen)
        ways = [
            sum(
                ways[placed - here] * _binomial(flows - placed + here, here, chance)
                for here in range(min(most, placed) + 1)
            )
            for placed in range(flows + 1)
        ]
    return ways[flows]


def _binomial(trials: int, hits: int, chance: float) -> float:
    return comb(trials, hits) * chance**hits * (1.0 - chance) ** (trials - hits)
