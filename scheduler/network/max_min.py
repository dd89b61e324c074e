"""Always-on sharing of links, max-min fair, for jobs whose rates on all their links are coupled.

A ring runs at one rate, that of its slowest edge; what it leaves free elsewhere goes to others. The
upper bound of `sharing`: right only for jobs that communicate all the time.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

J = TypeVar("J", bound=Hashable)
"""What names a job."""

L = TypeVar("L", bound=Hashable)
"""What names a link."""


def coupled_rates(
    weights: Mapping[J, Mapping[L, float]],
    capacities: Mapping[L, float],
    *,
    wanted: Mapping[J, float],
) -> dict[J, float]:
    """Rate of every job by progressive filling.

    A job at rate r puts r x weight on each of its links and wants no more than `wanted`. All rates
    rise together; the jobs on the first full link are frozen; the others rise on.
    """
    rates: dict[J, float] = {}
    left = {link: capacities[link] for used in weights.values() for link in used}
    rising = dict(weights)
    while rising:
        demand: dict[L, float] = {}
        for used in rising.values():
            for link, weight in used.items():
                demand[link] = demand.get(link, 0.0) + weight
        level = min((left[link] / total for link, total in demand.items() if total), default=None)
        least = min(wanted[job] for job in rising)
        level = least if level is None else max(0.0, min(level, least))
        full = {
            link
            for link, total in demand.items()
            if total and left[link] <= level * total * (1 + 1e-12)
        }
        frozen = [
            job
            for job, used in rising.items()
            if wanted[job] <= level or any(link in full and used[link] for link in used)
        ]
        for job in frozen:
            rates[job] = level
            for link, weight in rising.pop(job).items():
                left[link] = max(0.0, left[link] - level * weight)
    return rates


@dataclass(slots=True)
class AlwaysOnLinks(Generic[J, L]):
    """Jobs on shared links, each with its coupled max-min rate; updated where something changed."""

    capacities: Mapping[L, float]
    _weights: dict[J, Mapping[L, float]] = field(default_factory=dict)
    _wanted: dict[J, float] = field(default_factory=dict)
    _rates: dict[J, float] = field(default_factory=dict)
    _on_link: dict[L, dict[J, None]] = field(default_factory=dict)

    def start(self, key: J, weights: Mapping[L, float], *, wanted: float) -> tuple[J, ...]:
        """A job begins; returns the jobs whose rate was computed anew."""
        assert key not in self._weights
        self._weights[key] = weights
        self._wanted[key] = wanted
        for link in weights:
            self._on_link.setdefault(link, {})[key] = None
        return self._refill(self._reach({key: None}))

    def end(self, key: J) -> tuple[J, ...]:
        """A job is gone; returns the jobs whose rate was computed anew."""
        reach = self._reach({key: None})
        for link in self._weights.pop(key):
            del self._on_link[link][key]
        del self._wanted[key], self._rates[key], reach[key]
        return self._refill(reach)

    def rate(self, key: J) -> float:
        """The job's rate now."""
        return self._rates[key]

    def _reach(self, found: dict[J, None]) -> dict[J, None]:
        """The jobs that hang together with some by shared links, directly or through others."""
        waiting = list(found)
        while waiting:
            for link in self._weights[waiting.pop()]:
                for job in self._on_link[link]:
                    if job not in found:
                        found[job] = None
                        waiting.append(job)
        return found

    def _refill(self, jobs: Mapping[J, None]) -> tuple[J, ...]:
        weights = {job: self._weights[job] for job in jobs}
        self._rates.update(coupled_rates(weights, self.capacities, wanted=self._wanted))
        return tuple(jobs)
