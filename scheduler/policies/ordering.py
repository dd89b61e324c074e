"""Orders by attained service: classes, the Gittins index of each, and when a job changes class.

Service is GPU time: GPUs x run time. Both orders put jobs into classes, so that a job's place
changes only when it crosses a bound, and a running job is not stopped for a hair's breadth:

    LAS       0 .. 3600 .. 4 x 3600 .. 16 x 3600 .. GPU-seconds; less service first
    Gittins   0 .. 64 .. 128 .. 256 .. GPU-seconds; larger index first, learned from past jobs

The Gittins index of a class k is the best ratio, over all horizons m > k, of the chance that a job
which has come to class k ends before class m to the service it is expected to take until then:

    index(k) = max over m of (1 - S(m) / S(k)) / sum for j in k..m-1 of S'(j) / S(k) x width(j)

S(k) is the Kaplan-Meier estimate of reaching class k, from the service of jobs that have ended
(observed), of live ones (censored: they will need more than they have had), and of two supposed
jobs of a heavy tail, which speak where nothing else is known: of those that come far, half come
twice as far. S'(j) is the mean of S(j) and S(j + 1), taken in parts of the class. Nothing here
knows how long a job will run.

The index is that of J. C. Gittins (1979), the estimate that of E. L. Kaplan and P. Meier (1958), by
parts of classes as in a life table: who is lost in a part counts as half at risk in it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

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

SUPPOSED_JOBS = 2.0
"""Jobs of a heavy tail that count beside those that were seen."""

SUPPOSED_SCALE = 64 * SECOND
"""Their chance to need more than x is 1 / (1 + x / scale): a Lomax tail."""

PARTS = 8
"""In each class, for estimates: of jobs in one part nobody knows who came further."""


@dataclass(frozen=True, slots=True)
class GittinsTable:
    """The index of each class; made by `learned`."""

    indices: tuple[float, ...]
    """By class, up to the next one after the last in which a job has ended; beyond, each has half
    of that of the class before: of a heavy tail ends grow rarer as 1 / service."""
    ends: int
    """Jobs it was learned from."""

    def index_of(self, service: ServiceTime) -> float:
        """The index of the class of a job with that service; larger goes first."""
        number = GITTINS_CLASSES.class_of(service)
        beyond = number - len(self.indices) + 1
        return self.indices[number] if beyond <= 0 else self.indices[-1] / 2**beyond


def learned(
    ended: Iterable[ServiceTime], live: Iterable[ServiceTime], *, ends_min: int
) -> GittinsTable | None:
    """The table of past jobs, by their service in all; None if too few have ended."""
    ends, censored = list(ended), list(live)
    if len(ends) < max(1, ends_min):
        return None
    # Beyond the next one after the last in which a job has ended, live ones tell too little.
    classes = GITTINS_CLASSES.class_of(max(ends)) + 2
    survivals = _survivals(_counts(ends, classes), _counts(censored, classes))
    indices = tuple(_index(number, survivals) for number in range(classes))
    return GittinsTable(indices, len(ends))


@lru_cache(maxsize=8)
def _parts(classes: int) -> tuple[ServiceTime, ...]:
    """Upper bounds of the parts of that many classes."""
    bounds = (0, *_bounds(GITTINS_CLASSES, classes))
    return tuple(
        below + (above - below) * part // PARTS
        for below, above in pairwise(bounds)
        for part in range(1, PARTS + 1)
    )


def _counts(services: Iterable[ServiceTime], classes: int) -> list[int]:
    """How many of them lie in each part of the classes, and beyond the last."""
    parts = _parts(classes)
    found = Counter([bisect_right(parts, service) for service in services])
    return [found[number] for number in range(len(parts) + 1)]


def _survivals(ends: Sequence[int], censored: Sequence[int]) -> list[float]:
    """S at zero and at the upper bound of each part.

    Jobs whose service is known only to lie in or above a part count as half at risk in it.
    """
    at_risk = float(sum(ends) + sum(censored))
    supposed = SUPPOSED_JOBS
    survivals = [1.0]
    for number, bound in enumerate(_parts(len(ends) // PARTS)):
        ended, lost = ends[number], censored[number]
        reach = SUPPOSED_JOBS / (1 + bound / SUPPOSED_SCALE)
        exposed = at_risk - lost / 2 + supposed
        survivals.append(survivals[-1] * (1 - (ended + supposed - reach) / exposed))
        at_risk -= ended + lost
        supposed = reach
    return survivals


def _index(number: int, survivals: Sequence[float]) -> float:
    """The Gittins index of class `number`, in ends per GPU-second.

    Horizons are bounds of classes: among more of them, the best one would often be best by chance.
    """
    first = number * PARTS
    reached = survivals[first]
    if not reached:
        # Services so large that the supposed jobs are lost to rounding.
        return 0.0
    bounds = (0, *_parts(len(survivals) // PARTS))
    best, service = 0.0, 0.0
    for each in range(first, len(survivals) - 1):
        width_s = (bounds[each + 1] - bounds[each]) / SECOND
        service += (survivals[each] + survivals[each + 1]) / 2 / reached * width_s
        if (each + 1) % PARTS == 0:
            best = max(best, (1 - survivals[each + 1] / reached) / service)
    return best
