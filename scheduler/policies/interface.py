"""What a policy answers. It looks at one snapshot, decides nothing alone and holds no state.

The engine asks in this order, once a cycle:
    key(job)            in which order jobs are considered
    accept(job, offer)  take this placement, or wait (declining never holds up the others)
    patience            timers and clocks of jobs that decline offers, if any do
    elders              jobs that have waited too long go first, and may keep a domain free
    moves               gangs that are stopped, or moved, so that one runs closer together
    blocks_later(job)   whether a job that stays behind holds up those after it
    ranks               how running gangs stand among the jobs that wait, if they may be stopped;
                        and how long that holds, for it is not asked again before
    next_decision_at()  when its answers may change though nothing else happens
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.domain.instants import Duration, Instant
from scheduler.domain.job import Job
from scheduler.domain.patience import WaitEpisode
from scheduler.domain.placement import Blocked, Placement
from scheduler.domain.snapshot import Neighbour, RunningGang, Snapshot
from scheduler.domain.waits import WaitObservation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offer:
    """A placement that is free now: the closest level that holds the gang.

    It equals only itself: what was worked out for it is found by it.
    """

    placement: Placement
    beside: Callable[[], tuple[Neighbour, ...]] = tuple
    """Gangs that share a way out of a node or a wider domain with it; to be asked when the offer is
    first looked at, and only if that matters."""


Key = tuple[float | int | str, ...]
"""Sorts pending jobs; smaller goes first, and no two jobs have equal ones: it ends in the id."""


class Orders(Protocol):
    """The part of a policy that sorts pending jobs."""

    @property
    def order_version(self) -> Hashable:
        """Keys made under equal versions go together, even if made for other snapshots."""
        ...

    def key(self, job: Job) -> Key:
        """Place of a pending job; it holds as long as the job and the version do."""
        ...


class Ranks(Protocol):
    """The part of a policy that ranks running gangs with the jobs that wait."""

    def rank(self, gang: RunningGang) -> Key:
        """Place of a gang that holds GPUs, among the keys of pending jobs."""
        ...

    def may_stop(self, gang: RunningGang) -> bool:
        """Whether it may be stopped now for a job that ranks before it, unless it `ends_soon`."""
        ...

    @property
    def rank_version(self) -> object:
        """Answers given under equal versions go together, even if given for other snapshots."""
        ...

    def holds_until(self, gang: RunningGang) -> Instant | None:
        """Both answers hold before this instant if the gang runs on, and so does `changes_at`.

        None: as long as the version and all that is known of the gang are the same.
        """
        ...

    def changes_at(self, gang: RunningGang) -> Instant | None:
        """When by running on it gives reason to decide anew, if anybody waits; None: never."""
        ...

    def tells_length(self, gang: RunningGang) -> bool:
        """Whether it is known at all how long it runs; that holds as long as the version does."""
        ...

    def ends_soon(self, gang: RunningGang) -> bool:
        """Whether it is better left to its end. Reports of progress may change that: it is asked
        in each decision, of gangs that tell their length."""
        ...


class Patience(Protocol):
    """The part of a policy that keeps the clocks of jobs that decline offers."""

    def episode(self, job: Job) -> WaitEpisode:
        """The job's wait with its timers frozen: as it is, or as it begins now."""
        ...

    def runs(self, job: Job, *, is_declined: bool, leaves_idle: bool) -> bool:
        """Whether the clock of a waiting job runs until the next cycle.

        `leaves_idle`: GPUs that the job could have used stay idle after this one.
        """
        ...

    def expires_at(self, job: Job, offer: Offer) -> Instant | None:
        """When the job would take this offer if its clock ran from now on; None: never."""
        ...

    def lessons(self, job: Job, offer: Offer) -> tuple[WaitObservation, ...]:
        """What the job's wait teaches if it takes this offer now."""
        ...


class Elders(Protocol):
    """The part of a policy that looks after jobs that have never started and wait too long."""

    @property
    def hold_share_max(self) -> float:
        """Share of the GPUs that held domains may have together (one job may always hold)."""
        ...

    def goes_first_at(self, job: Job) -> Instant | None:
        """From when on it goes before all others of whatever priority; None: never."""
        ...

    def may_hold(self, job: Job) -> bool:
        """Whether it may keep a domain free for itself by now."""
        ...

    def lasts(self, job: Job) -> Duration:
        """How long a waiting job is expected to run."""
        ...

    def lasts_still(self, gang: RunningGang) -> Duration:
        """How long a gang is expected to run on."""
        ...


class Moves(Protocol):
    """The part of a policy that stops running gangs so that one of them runs closer together."""

    def stake(self, job: Job) -> Duration:
        """Run time a waiting job saves by a placement it accepts now; 0: nobody is stopped for
        it."""
        ...

    def victims(self, job: Job) -> Sequence[RunningGang]:
        """Gangs that may be stopped for it now, the one to go first last."""
        ...

    def is_worth(self, job: Job, victims: Sequence[RunningGang]) -> bool:
        """Whether what the job saves is worth what these lose."""
        ...

    def price(self, gang: RunningGang) -> Duration:
        """Run time the gang loses by being stopped now."""
        ...

    def slow_gangs(self) -> Sequence[RunningGang]:
        """Gangs that lie where they would gain anything by lying closer, whether they may move now
        or not: as long as the same gangs lie where they do, these are the same."""
        ...

    def upgradable(self) -> Sequence[RunningGang]:
        """Gangs that would gain by closer GPUs, the one that would gain most first."""
        ...

    def next_move_at(self) -> Instant | None:
        """When by running on one of the slow gangs comes to be one that may move; None: never."""
        ...

    def is_upgrade(self, gang: RunningGang, placement: Placement) -> bool:
        """Whether going there is worth a restart to a running gang."""
        ...


class Policy(Orders, Protocol):
    """A policy that looks at one snapshot."""

    def accept(self, job: Job, offer: Offer) -> Blocked | None:
        """None to take the offer; else why the job had better wait."""
        ...

    @property
    def patience(self) -> "Patience | None":
        """Clocks of jobs that decline; None: nobody declines."""
        ...

    @property
    def elders(self) -> "Elders | None":
        """Who looks after jobs that wait too long; None: the order is all there is."""
        ...

    @property
    def moves(self) -> "Moves | None":
        """Who is stopped so that a gang runs closer together; None: nobody."""
        ...

    def blocks_later(self, job: Job) -> bool:
        """Whether nothing of its queue may start past this job while it waits for GPUs."""
        ...

    @property
    def ranks(self) -> "Ranks | None":
        """How running gangs stand among the jobs that wait; None: they are kept."""
        ...

    def next_decision_at(self) -> Instant | None:
        """When the answers may change though nothing else happens, ranks of gangs apart."""
        ...


PolicyMaker = Callable[[Snapshot], Policy]
"""A policy's class: makes it look at a snapshot."""
