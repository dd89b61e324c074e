"""How many GPUs are held, asked for and waited for, from one instant to the next."""

from scheduler.domain.copying import maker_of
from scheduler.domain.instants import Instant
from simulator.outcome import Step

_step = maker_of(Step)


class Crowd:
    """Counts; the driver and the cluster tell it what happens."""

    def __init__(self, *, gpus_available: int) -> None:
        self.gpus_available = gpus_available
        self.gpus_held = 0
        self._gpus_asked = 0
        self._waiting: dict[int, int] = {}
        """Jobs that wait, by GPUs."""
        self._jobs_waiting = 0
        self._steps: list[Step] = []

    def arrives(self, gpus: int) -> None:
        """A job is there and waits."""
        self._gpus_asked += gpus
        self._waits(gpus)

    def holds(self, gpus: int) -> None:
        """A job that waited holds its GPUs."""
        self.gpus_held += gpus
        self._jobs_waiting -= 1
        left = self._waiting[gpus] - 1
        if left:
            self._waiting[gpus] = left
        else:
            del self._waiting[gpus]

    def frees(self, gpus: int) -> None:
        """A job that held GPUs holds them no more, and waits unless it `leaves`."""
        self.gpus_held -= gpus
        self._waits(gpus)

    def leaves(self, gpus: int) -> None:
        """A job that waited (or has just freed its GPUs) has ended."""
        self._gpus_asked -= gpus
        self.holds(gpus)
        self.gpus_held -= gpus

    def step(self, now: Instant) -> None:
        """Remember how it stands from now on."""
        step = _step(
            at=now,
            gpus_held=self.gpus_held,
            gpus_available=self.gpus_available,
            gpus_asked=self._gpus_asked,
            jobs_waiting=self._jobs_waiting,
            smallest_waiting=min(self._waiting, default=0),
        )
        if self._steps and self._steps[-1].at == now:
            self._steps.pop()
        self._steps.append(step)

    def steps(self) -> tuple[Step, ...]:
        """All steps so far."""
        return tuple(self._steps)

    def _waits(self, gpus: int) -> None:
        self._waiting[gpus] = self._waiting.get(gpus, 0) + 1
        self._jobs_waiting += 1
