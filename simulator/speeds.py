"""How fast gangs go. The network model is one answer; without it every gang goes at full speed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from scheduler.domain.copying import quickly_made
from scheduler.domain.placement import Placement
from scheduler.domain.reservation import AttemptKey
from simulator.world import SimulatedJob


@quickly_made
@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a gang goes and how much of its time is exposed communication."""

    progress: float
    """Work done per time: step time at its closest tier on an idle network / step time now."""
    exposed: float
    """Share of its time in which it only waits for communication: (t_iter - t_compute) / t_iter."""
    step_s: float = 0.0
    """t_iter; 0 where no network model says how long a step takes."""


FULL_SPEED = Speed(1.0, 0.0)


@quickly_made
@dataclass(frozen=True, slots=True)
class Change:
    """A gang that goes at another speed from now on."""

    attempt: AttemptKey
    speed: Speed


class Speeds(Protocol):
    """Tells the speed of each running gang, and which others change when one starts or ends."""

    def begin(
        self, attempt: AttemptKey, job: SimulatedJob, placement: Placement
    ) -> Iterable[Change]:
        """A gang begins to run: its own speed, and those it changes."""
        ...

    def end(self, attempt: AttemptKey) -> Iterable[Change]:
        """A gang that began runs no more: the speeds that change by it."""
        ...


class FullSpeed:
    """No network: distance and neighbours cost nothing."""

    def begin(
        self, attempt: AttemptKey, job: SimulatedJob, placement: Placement
    ) -> Iterable[Change]:
        """See Speeds."""
        return (Change(attempt, FULL_SPEED),)

    def end(self, attempt: AttemptKey) -> Iterable[Change]:
        """See Speeds."""
        return ()
