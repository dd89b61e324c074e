"""Where a gang goes, and the typed reasons why it goes nowhere yet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import LevelName, NodeName, PoolName, RoleName
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.timers import TimerReason


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Workers of one role on one node."""

    role: RoleName
    node: NodeName
    workers: int

    def __post_init__(self) -> None:
        assert self.workers >= 1


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Workers per (role, node) for one whole gang, in rank order: by role, then by topology."""

    assignments: tuple[Assignment, ...]
    tier: int
    """Index of the closest level that holds the whole gang; 0 is `node`, 1 the first configured."""
    tier_name: LevelName

    def node_of_ranks(self) -> Iterator[tuple[RoleName, NodeName]]:
        """Role and node of rank 0, 1, 2, ..."""
        for assignment in self.assignments:
            for _ in range(assignment.workers):
                yield assignment.role, assignment.node


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class TooFewGpus:
    """No topology domain holds the gang right now; it may later."""

    level: LevelName
    """Level at which the gang was looked for (its widest acceptable one)."""
    role: RoleName = RoleName("")
    """The role that finds the least room; the counts are of its workers."""
    workers_wanted: int
    workers_fit_max: int
    """Most workers that fit in one domain of that level now."""
    workers_fit_by_level: Mapping[LevelName, int] = field(default_factory=dict)
    nodes: int
    """Nodes looked at; the counts below add up to it."""
    nodes_by_reason: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverFits:
    """The empty cluster could not hold the gang: waiting can not help."""

    level: LevelName
    role: RoleName = RoleName("")
    workers_wanted: int
    workers_fit_max: int
    nodes: int
    nodes_by_reason: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackingOff:
    """The job failed and waits before its next attempt."""

    until: Instant
    restarts: int
    said: str = ""
    """How its last attempt ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindHead:
    """A strict policy starts nothing past a job ahead that waits for GPUs."""

    jobs_ahead: int


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForCloserTier:
    """An offer was declined: the job waits for a closer tier until its timer expires."""

    level: LevelName
    """The level it waits for."""
    until: Instant | None
    """None: for ever."""
    timer: Duration | None
    timer_samples: int
    """Past waits the timer was learned from; 0: from none."""
    offered_level: LevelName
    gpus_free_at_offer: int
    domains_at_offer: int
    step_slowdown: float
    """Predicted step time of the offer divided by that at the level it waits for."""
    saves: Duration = Duration(0)
    """Run time that the closer level is predicted to save over the offer."""
    timer_reason: TimerReason = TimerReason.WORTH
    gangs_beside: int = 0
    """Gangs on the links of the offer that it would lose by, or they by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldForLargeGang:
    """The domain that would fit is kept free for a large gang that has waited long."""

    level: LevelName
    domain: str
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedGpus:
    """Gangs are being stopped for it: it starts as soon as they have left."""

    level: LevelName
    """Level that holds all the nodes promised to it."""
    nodes: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMissing:
    """No node belongs to the pool the job names."""

    pool: PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMissing:
    """The cluster has no level of the name that the job uses."""

    level: LevelName
    levels: tuple[LevelName, ...]
    """Levels there are, closest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUnreachable:
    """The cluster does not answer: nothing is started until it does, and nothing is stopped."""

    since: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOutdated:
    """Gangs run that the store does not know: it was restored from a backup. Nothing is started or
    stopped until an admin has said what is to become of them."""

    since: Instant
    gangs: int
    """Of how many gangs that is to be said."""


Blocked = (
    TooFewGpus
    | NeverFits
    | BackingOff
    | BehindHead
    | WaitingForCloserTier
    | HeldForLargeGang
    | PromisedGpus
    | PoolMissing
    | LevelMissing
    | ClusterUnreachable
    | StoreOutdated
)
