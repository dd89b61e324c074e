"""What a run leaves behind: one outcome per job, and steps of what the cluster held over time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import JobId, LevelName
from scheduler.domain.instants import Duration, Instant


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """One job from submission to its end. All lengths of time are wall time, not GPU time."""

    id: JobId
    name: str
    gpus: int
    arrival: Instant
    first_start: Instant
    """When its GPUs were given to it first."""
    end: Instant
    ideal: Duration
    """The time it would take alone at its closest tier, without start-up."""
    held: Duration
    """Sum of the times it held its GPUs: start-up, restore and lost work included."""
    kept: Duration
    """The part of `held` in which progress was made that was not lost afterwards."""
    lost: Duration
    """The part of `held` whose progress was lost because a run ended after its last checkpoint."""
    exposed: Duration
    """Communication nothing hid: sum over segments of iterations x (t_iter - t_compute)."""
    held_by_tier: Mapping[LevelName, Duration] = field(default_factory=dict)
    """`held`, by the level that held the whole gang."""
    preemptions: int = 0
    """Evictions for another job's sake."""
    upgrades: int = 0
    """Moves to a closer tier."""
    failures: int = 0
    """Runs ended by a lost node."""
    recorded_as: str = ""
    """Its name in the trace."""
    model: str = ""
    """Network profile drawn for it; empty with the network model off."""

    def __post_init__(self) -> None:
        assert self.arrival <= self.first_start <= self.end, self.id
        assert self.kept + self.lost <= self.held, self.id

    @property
    def jct(self) -> Duration:
        """Job completion time: end - submission."""
        return Duration(self.end - self.arrival)

    @property
    def wait(self) -> Duration:
        """First start - submission."""
        return Duration(self.first_start - self.arrival)

    @property
    def queueing(self) -> Duration:
        """All the time it was there and held no GPUs."""
        return Duration(self.jct - self.held)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The cluster from one instant until the next step."""

    at: Instant
    gpus_held: int
    gpus_available: int
    """GPUs of the nodes that work."""
    gpus_asked: int
    """By all jobs that have arrived and not ended, whether they run or wait."""
    jobs_waiting: int
    smallest_waiting: int
    """GPUs of the smallest job that waits; 0 if none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenTimer:
    """How long one job was to hold out for one level, as fixed when it first declined an offer."""

    at: Instant
    job: JobId
    gpus: int
    level: LevelName
    timer: Duration | None
    """None: for ever."""
    samples: int
    """Past waits it was learned from; 0: it is the value of waiting, or fixed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """Everything the metrics are computed from."""

    jobs: tuple[JobOutcome, ...]
    """By arrival."""
    steps: tuple[Step, ...]
    """By time; from the first arrival to the last end, one for each change."""
    timers: tuple[FrozenTimer, ...] = ()
    """Of a policy that lets jobs hold out for closer GPUs, by time."""
