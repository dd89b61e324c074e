"""Snapshot: one immutable view of everything a decision may look at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.domain.codec import LEFT_OUT
from scheduler.domain.copying import quickly_made
from scheduler.domain.history import NOTHING_PAST, PastJobs
from scheduler.domain.ids import GpuModel, JobId, QueueName, Sequence
from scheduler.domain.instants import Duration, Instant, elapsed
from scheduler.domain.job import Attempt, AttemptPhase, Job
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.ladder import Ladder
from scheduler.domain.links import FabricPlan
from scheduler.domain.placement import Placement
from scheduler.domain.queue import Queue
from scheduler.domain.reservation import Reservation
from scheduler.domain.topology import Level, Node, TopologyTree
from scheduler.domain.waits import WaitObservation

NOTHING_NAMED = FabricPlan()
"""The links that are usual for the GPU models."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGang:
    """A job that holds GPUs, with the attempt that holds them."""

    job: Job
    attempt: Attempt
    reservations: tuple[Reservation, ...]
    """What it still holds, in rank order: ranks that have ended hold nothing any more."""

    @property
    def is_stopping(self) -> bool:
        """Whether its workers have been told to end, and may still live."""
        return self.attempt.phase is AttemptPhase.STOPPING

    def run_time(self, now: Instant) -> Duration:
        """How long its job has run in all its attempts."""
        since = self.attempt.running_since
        running = Duration(0) if since is None else elapsed(since, now)
        return Duration(self.job.ran_for + running)


class Lengths(Protocol):
    """How long jobs have still to run, for policies that are told so."""

    def remaining(self, job_id: JobId) -> Duration | None:
        """Run time left at the job's closest level, as of the snapshot; None if not known."""
        ...


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the step reports of a job say, over all its attempts."""

    steps: int
    """Steps that were kept."""
    step_s: float
    """Mean measured step time of the present (or last) attempt."""
    compute_s: float
    """Time of those steps without exposed communication, on the GPUs they ran on."""
    best_s: float
    """Time those steps would have taken at the job's best tier."""
    run_s: float
    """Time they took: run time without start, restore and lost work."""


class Measurements(Protocol):
    """What running jobs report of themselves; never what their files declare."""

    def of(self, job_id: JobId) -> Measured | None:
        """None if the job has reported no step."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A gang that runs, or is about to, on links that another one would use as well."""

    job: Job
    placement: Placement
    ran_for: Duration
    """In all its attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStep:
    """Step times of a gang without a newcomer on its links and with him."""

    before_s: float
    after_s: float

    @property
    def longer_s(self) -> float:
        """What the newcomer adds to a step."""
        return max(0.0, self.after_s - self.before_s)


class StepTimes(Protocol):
    """What distance costs jobs on one cluster, for one generation of its nodes."""

    def ladder(self, job: Job) -> Ladder:
        """The tiers the job can run at, its best one first."""
        ...

    def best_tier(self, job: Job) -> int:
        """The closest level that could hold the gang by capacity, whatever its preference."""
        ...

    def step_s(self, job: Job, placement: Placement) -> float:
        """Step time at one placement, with all links for itself."""
        ...

    def shared_steps(
        self, job: Job, placement: Placement, beside: tuple[Neighbour, ...]
    ) -> tuple[SharedStep, ...]:
        """Step times as the job comes to run there beside these: its own (alone and beside them),
        then theirs (without it and with it) in their order."""
        ...

    def prior_ladder(self, job: Job) -> Ladder:
        """The ladder of a job of that size of which nothing is known; whatever it declares."""
        ...

    def prior_share(self, job: Job) -> float:
        """Share of computation in a step at the best tier of a job of that size of which nothing
        is known; whatever it declares."""
        ...

    def gpu_model_of(self, placement: Placement) -> GpuModel:
        """The model of its GPUs."""
        ...


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What `decide` sees. Order of the tuples carries no meaning."""

    version: Sequence
    now: Instant
    levels: tuple[Level, ...]
    """Configured levels above `node`, closest first."""
    nodes: tuple[Node, ...]
    pending: tuple[Job, ...]
    holding: tuple[RunningGang, ...]
    """Gangs whose reservations are not freed yet: starting, running and stopping ones."""
    held_besides: tuple[Reservation, ...] = ()
    """By jobs that can not be read: nothing is known of them but that this is not free."""
    queues: Mapping[QueueName, Queue] = field(default_factory=dict)
    knobs: PolicyKnobs = PolicyKnobs()
    tree: TopologyTree | None = field(default=None, metadata=LEFT_OUT)
    """The tree of `levels` and `nodes`, if it is at hand: it is built once per node generation."""
    lengths: Lengths | None = field(default=None, metadata=LEFT_OUT)
    """None where nobody is told how long jobs run."""
    measured: Measurements | None = field(default=None, metadata=LEFT_OUT)
    """None where no job reports its steps."""
    steps_done: Mapping[JobId, int] = field(default_factory=dict)
    """Steps that live jobs have reported, where nobody can be asked for `measured`."""
    step_times: StepTimes | None = field(default=None, metadata=LEFT_OUT)
    """What distance costs jobs on this cluster, if it is at hand."""
    links: FabricPlan = NOTHING_NAMED
    """What the configuration says of them, where `step_times` is not at hand."""
    past_waits: tuple[WaitObservation, ...] = ()
    """The newest of each demand bucket and level."""
    past_jobs: PastJobs = NOTHING_PAST
    spread: tuple[RunningGang, ...] | None = field(default=None, compare=False, metadata=LEFT_OUT)
    """Those of `holding` that lie on several nodes, if they are at hand."""

    @property
    def on_several_nodes(self) -> tuple[RunningGang, ...]:
        """Gangs that hold GPUs and lie on several nodes."""
        if self.spread is not None:
            return self.spread
        return tuple(gang for gang in self.holding if gang.attempt.placement.tier)

    def knobs_of(self, queue: QueueName) -> PolicyKnobs:
        """The knobs that hold in a queue. To be worked out once a cycle and queue."""
        found = self.queues.get(queue)
        return self.knobs if found is None else found.knobs.over(self.knobs)
