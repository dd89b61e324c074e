"""Orders by attained service: classes, the Gittins index of each, and when a job changes class.

Service is GPU time: GPUs x run time. Both orders put jobs into classes, so that a job's place
changes only when it crosses a bound, and a running job is not stopped for a hair's breadth:

    LAS       0 .. 3600 .. 4 x 3600 .. 16 x 3600 .. GPU-seconds; less service first
    Gittins   0 .. 64 .. 128 .. 256 .. GPU-seconds; larger index first, learned from past jobs

The Gittins index of a class k is the best ratio, over all horizons m > k, of the chance that a job
which has come to class k ends before class m to the service it is expected to take until then:

    index(k) = max over m of (1 - S(m) / S(k)) / sum for j in k..m-1 of S'(j) / S(k) x width(j)

S(k) is the Kaplan-Meier estimate of reaching class k, from the service of jobs that have ended
(observed) and of live ones (censored: they will need more than they have had); S'(j) is the mean of
S(j) and S(j + 1). Nothing here knows how long a job will run.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from scheduler.domain.instants import SECOND, Duration

ServiceTime = int
"""GPU-microseconds: GPUs x run time."""


@dataclass(frozen=True, slots=True)
class ServiceClasses:
    """Classes of service: class k ends at bound k; after the last bound named, each next one lies
    `factor` times further (0: there is none, and one last class takes the rest)."""

    bounds: tuple[ServiceTime, ...]
    factor: int = 0

    def class_of(self, service: ServiceTime) -> int:
        """The class a job with that service is in."""
        return bisect_right(_bounds_up_to(self, max(self.bounds[-1], service)), service)

    def upper_bound(self, number: int) -> ServiceTime | None:
        """The service at which a job leaves class `number`; None if it never does."""
        beyond = number - len(self.bounds) + 1
        if beyond <= 0:
            return self.bounds[number]
        return self.bounds[-1] * int(self.factor**beyond) if self.factor else None

    def leaves_in(self, service: ServiceTime, *, gpus: int) -> Duration | None:
        """How long a job with that service on `gpus` GPUs runs until it is in another class."""
        bound = self.upper_bound(self.class_of(service))
        if bound is None or gpus == 0:
            return None
        return Duration(-(-(bound - service) // gpus))


@lru_cache(maxsize=256)
def _bounds(classes: ServiceClasses, count: int) -> tuple[ServiceTime, ...]:
    bounds = (classes.upper_bound(number) for number in range(count))
    return tuple(bound for bound in bounds if bound is not None)


def _bounds_up_to(classes: ServiceClasses, service: ServiceTime) -> tuple[ServiceTime, ...]:
    """Upper bounds of classes, at least all of those up to `service`."""
    beyond = (service // classes.bounds[-1]).bit_length() if classes.factor > 1 else 0
    return _bounds(classes, len(classes.bounds) + beyond)


LAS_CLASSES = ServiceClasses((3_600 * SECOND,), factor=4)
GITTINS_CLASSES = ServiceClasses((64 * SECOND,), factor=2)

ENDS_LEAST = 50
"""Jobs that must have ended before a Gittins index is trusted."""


@dataclass(frozen=True, slots=True)
class GittinsTable:
    """The index of each class; made by `learned`."""

    indices: tuple[float, ...]
    """By class; beyond the last each has half of that of the class before: what little is known
    of so long jobs says nothing, and with heavy tails ends grow rarer as 1 / service."""
    ends: int
    """Jobs it was learned from."""

    def index_of(self, service: ServiceTime) -> float:
        """The index of the class of a job with that service; larger goes first."""
        number = GITTINS_CLASSES.class_of(service)
        beyond = number - len(self.indices) + 1
        return self.indices[number] if beyond <= 0 else self.indices[-1] / 2**beyond


def learned(
    ended: Iterable[ServiceTime], live: Iterable[ServiceTime], *, ends_min: int = ENDS_LEAST
) -> GittinsTable | None:
    """The table of past jobs, by their service in all; None if too few have ended."""
    ends, censored = _counts(ended), _counts(live)
    count = sum(ends)
    if count < max(1, ends_min):
        return None
    survivals = _survivals(ends, censored)
    indices = tuple(_index(number, survivals) for number in range(len(survivals) - 1))
    return GittinsTable(indices, count)


def _counts(services: Iterable[ServiceTime]) -> list[int]:
    every = list(services)
    if not every:
        return []
    # As `class_of` does, with bounds that are looked up once: there are thousands of services.
    bounds = _bounds_up_to(GITTINS_CLASSES, max(GITTINS_CLASSES.bounds[-1], *every))
    found = Counter([bisect_right(bounds, service) for service in every])
    return [found[number] for number in range(max(found) + 1)]


def _survivals(ends: Sequence[int], censored: Sequence[int]) -> list[float]:
    """S(0), S(1), ... up to the bound of the last class in which a job has ended.

    Jobs whose service is known only to lie in or above a class count as half at risk in it.
    """
    at_risk = float(sum(ends) + sum(censored))
    survivals = [1.0]
    for number, ended in enumerate(ends):
        lost = censored[number] if number < len(censored) else 0
        exposed = at_risk - lost / 2
        survivals.append(survivals[-1] * (1 - ended / exposed) if exposed else survivals[-1])
        at_risk -= ended + lost
    return survivals


def _index(number: int, survivals: Sequence[float]) -> float:
    """The Gittins index of class `number`, in ends per GPU-second."""
    reached = survivals[number]
    if reached == 0:
        return 0.0
    best, service = 0.0, 0.0
    for each in range(number, len(survivals) - 1):
        service += (survivals[each] + survivals[each + 1]) / 2 / reached * _width_s(each)
        best = max(best, (1 - survivals[each + 1] / reached) / service)
    return best


def _width_s(number: int) -> float:
    bound = GITTINS_CLASSES.upper_bound(number)
    assert bound is not None
    below = GITTINS_CLASSES.upper_bound(number - 1) if number else 0
    assert below is not None
    return (bound - below) / SECOND
