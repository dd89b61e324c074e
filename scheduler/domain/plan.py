"""Plan: what to start, what to stop, and why the rest waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.job import StopCause
from scheduler.domain.patience import WaitEpisode
from scheduler.domain.placement import Blocked, Placement
from scheduler.domain.waits import WaitObservation


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start the next attempt of a pending job here."""

    job_id: JobId
    revision: int
    """Revision of the job in the snapshot; the claim fails if it has changed."""
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop a running gang for another's sake or its own."""

    job_id: JobId
    revision: int
    cause: StopCause
    beneficiary: JobId | None = None
    """The job it is stopped for; the plan promises it a placement. Itself where it moves."""
    price: Duration = Duration(0)
    """Run time it loses by it, as far as that was weighed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A pending job (or one that the plan moves) starts here once the gangs that the plan stops
    have left.

    Stops and promises of a plan are written together or not at all. From then on nobody else gets
    these GPUs, as long as the job waits and their nodes are there.
    """

    job_id: JobId
    revision: int
    placement: Placement


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A pending job's wait from now on: timers frozen, or its clock started or stopped."""

    job_id: JobId
    revision: int
    episode: WaitEpisode


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """A promise is void, since a node of it takes no workers: what it kept is anybody's."""

    job_id: JobId
    revision: int


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer to one Snapshot. Every pending job is in exactly one of `start` and `blocked`."""

    made_on: Sequence
    start: tuple[Start, ...] = ()
    stop: tuple[Stop, ...] = ()
    promise: tuple[Promise, ...] = ()
    """To jobs that are also in `blocked`: they wait for what is promised."""
    waits: tuple[Wait, ...] = ()
    """Of jobs that are also in `blocked`."""
    observations: tuple[WaitObservation, ...] = ()
    """What the waits of jobs that start teach the tuner."""
    withdraw: tuple[Withdrawal, ...] = ()
    """From jobs that neither start nor are promised another place. Written before all else: what
    starts may stand where they were to stand."""
    blocked: Mapping[JobId, Blocked] = field(default_factory=dict)
    """In the policy's order."""
    next_wakeup: Instant | None = None
    """When this answer may change although nothing else happens."""
