"""Jobs and attempts: what a user submits, each start of it, and the two tables of their lives.

Pending ──▶ Starting ──▶ Running ──▶ Succeeded | Failed | Cancelled
 │  ▲  ▲        │           │
 │  │  ├────────┴───────────┤         back to Pending: preempted or restarted
 ▼  │  │                    ▼
Held   └──────────────── Stopping ──▶ Succeeded | Failed | Cancelled

A gang whose workers have all ended by themselves leaves Starting or Running without Stopping.
A job that waits (Pending, Held) is cancelled at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.domain.communication import Axis, CommunicationProfile
from scheduler.domain.copying import copier_of, quickly_made
from scheduler.domain.errors import InvalidTransitionError
from scheduler.domain.ids import (
    AttemptNumber,
    Epoch,
    GpuModel,
    JobId,
    JobName,
    LevelName,
    PoolName,
    ProjectName,
    QueueName,
    Rank,
    RoleName,
)
from scheduler.domain.instants import Duration, Instant, seconds
from scheduler.domain.patience import NO_EVICTIONS, Evictions, WaitEpisode
from scheduler.domain.placement import Placement
from scheduler.domain.resources import NOTHING, Resources
from scheduler.domain.storage import SecretUse, Volume


class JobPhase(StrEnum):
    """Where a job is."""

    PENDING = "Pending"
    HELD = "Held"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether a job in this phase never changes again."""
        return not NEXT_JOB_PHASES[self]


NEXT_JOB_PHASES: Mapping[JobPhase, frozenset[JobPhase]] = {
    JobPhase.PENDING: frozenset(
        {JobPhase.HELD, JobPhase.STARTING, JobPhase.CANCELLED, JobPhase.FAILED}
    ),
    JobPhase.HELD: frozenset({JobPhase.PENDING, JobPhase.CANCELLED}),
    JobPhase.STARTING: frozenset(
        {JobPhase.RUNNING, JobPhase.STOPPING, JobPhase.PENDING}
        | {JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED}
    ),
    JobPhase.RUNNING: frozenset(
        {JobPhase.STOPPING, JobPhase.PENDING}
        | {JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED}
    ),
    JobPhase.STOPPING: frozenset(
        {JobPhase.PENDING, JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED}
    ),
    JobPhase.SUCCEEDED: frozenset(),
    JobPhase.FAILED: frozenset(),
    JobPhase.CANCELLED: frozenset(),
}


class AttemptPhase(StrEnum):
    """Where one attempt is."""

    RESERVED = "Reserved"
    """Placement chosen and capacity booked; nothing made yet."""
    PREPARING = "Preparing"
    """The cluster was asked to make the workers, which may not run yet."""
    PREPARED = "Prepared"
    """Every worker exists and waits at the barrier."""
    RELEASED = "Released"
    """The workers may run."""
    RUNNING = "Running"
    """Every worker runs."""
    STOPPING = "Stopping"
    ENDED = "Ended"


NEXT_ATTEMPT_PHASES: Mapping[AttemptPhase, frozenset[AttemptPhase]] = {
    AttemptPhase.RESERVED: frozenset(
        {AttemptPhase.PREPARING, AttemptPhase.STOPPING, AttemptPhase.ENDED}
    ),
    AttemptPhase.PREPARING: frozenset(
        {AttemptPhase.PREPARED, AttemptPhase.STOPPING, AttemptPhase.ENDED}
    ),
    AttemptPhase.PREPARED: frozenset(
        {AttemptPhase.RELEASED, AttemptPhase.STOPPING, AttemptPhase.ENDED}
    ),
    AttemptPhase.RELEASED: frozenset(
        {AttemptPhase.RUNNING, AttemptPhase.STOPPING, AttemptPhase.ENDED}
    ),
    AttemptPhase.RUNNING: frozenset({AttemptPhase.STOPPING, AttemptPhase.ENDED}),
    AttemptPhase.STOPPING: frozenset({AttemptPhase.ENDED}),
    AttemptPhase.ENDED: frozenset(),
}


class Outcome(StrEnum):
    """How an attempt ended: a closed list; the reason of a terminal job is one of these."""

    COMPLETED = "Completed"
    USER_ERROR = "UserError"
    KILLED = "Killed"
    """A worker was ended by a signal that we did not send."""
    OUT_OF_MEMORY = "OutOfMemory"
    START_TIMEOUT = "StartTimeout"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    HUNG = "Hung"
    CANCELLED_BY_USER = "CancelledByUser"
    PREEMPTED = "Preempted"
    UPGRADED = "Upgraded"
    DRAINED = "Drained"
    """An admin, or a taint of the cluster's, wanted a node empty."""
    NODE_LOST = "NodeLost"
    GPU_UNHEALTHY = "GpuUnhealthy"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    ADMISSION_REJECTED = "AdmissionRejected"
    LAUNCH_FAILED = "LaunchFailed"
    """The executor could not start a worker (no such command, no such folder, ...)."""
    WORKER_LOST = "WorkerLost"
    """A worker vanished without a report."""
    SYSTEM_ERROR = "SystemError"


class StopCause(StrEnum):
    """Why a gang is being stopped."""

    CANCEL = "Cancel"
    PREEMPT = "Preempt"
    UPGRADE = "Upgrade"
    WORKER_ENDED = "WorkerEnded"
    """One worker failed (or the success policy is met), so the others end too."""
    START_TIMEOUT = "StartTimeout"
    DEADLINE = "Deadline"
    HANG = "Hang"
    DRAIN = "Drain"
    NODE_LOST = "NodeLost"


class Launcher(StrEnum):
    """Which framework's variables the workers get besides our own; never changes the command."""

    PLAIN = "plain"
    TORCHRUN = "torchrun"
    MPI = "mpi"
    TF = "tf"
    JAX = "jax"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Equal workers of a gang."""

    name: RoleName
    workers: int
    gpus_per_worker: int
    command: tuple[str, ...]
    resources: Resources = NOTHING
    """Per worker, besides GPUs; the memory includes `shared_memory_bytes`."""
    shared_memory_bytes: int = 0
    """Size of /dev/shm in pods; 0 for the default."""
    env: Mapping[str, str] = field(default_factory=dict)
    pool: PoolName | None = None
    spread_by: LevelName | None = None
    spread_workers_max: int = 0
    """At most so many workers of this role in one domain of `spread_by`; 0 for no limit."""

    def __post_init__(self) -> None:
        assert self.workers >= 1, self.name
        assert self.gpus_per_worker >= 0, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Groups of so many consecutive workers that must share one topology domain."""

    workers: int
    within: LevelName


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisWithin:
    """The ranks that differ along this parallel axis (and those inside it) share one domain."""

    axis: Axis
    within: LevelName


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """The user's caps on placement; normally empty: the policy decides."""

    required: LevelName | None = None
    """The whole gang must lie in one domain of this level or a closer one."""
    preferred: LevelName | None = None
    """Where waiting starts."""
    slices: tuple[Slice, ...] = ()
    """Nested groups, widest first, closest last."""
    axes: tuple[AxisWithin, ...] = ()
    """The same said by parallel axes, whose sizes the communication section declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRequest:
    """Where and how often the job saves progress, and what stopping it costs."""

    path: str = ""
    every: Duration | None = None
    grace: Duration = seconds(120)
    """Time between SIGTERM and SIGKILL when the gang is stopped."""
    restart_cost: Duration | None = None
    warning: Duration = seconds(0)
    is_declared: bool = False
    """Whether the file has a checkpoint section at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRule:
    """What to do when a worker exits with one of these codes; the first matching rule wins."""

    exit_codes: tuple[int, ...]
    action: str
    """`Fail` or `Restart`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePolicy:
    """How often and after what a gang is started again."""

    restarts_max: int = 0
    """Restarts after failures of the user's program; infrastructure restarts count apart."""
    rules: tuple[FailureRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a user asks for: the content of a job file after defaults."""

    queue: QueueName
    roles: tuple[Role, ...]
    image: str = ""
    volumes: tuple[Volume, ...] = ()
    secrets: tuple[SecretUse, ...] = ()
    pod_profile: str = ""
    """Name of an admin's settings of pods; empty for the default of pool or project."""
    working_dir: str = ""
    launcher: Launcher = Launcher.PLAIN
    priority: str = "normal"
    """Name of a priority class."""
    is_preemptible: bool = False
    gpu_models: tuple[GpuModel, ...] = ()
    """Acceptable models; empty for any. Never mixed inside a gang unless `mixes_gpu_models`."""
    mixes_gpu_models: bool = False
    pool: PoolName | None = None
    topology: TopologyRequest = TopologyRequest()
    communication: CommunicationProfile | None = None
    iterations: int | None = None
    run_time_max: Duration | None = None
    checkpoint: CheckpointRequest = CheckpointRequest()
    hang_timeout: Duration | None = None
    failure_policy: FailurePolicy = FailurePolicy()
    success_policy: str = "all"
    """`all`, `rank0` or `role:NAME`."""
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.roles

    @property
    def workers(self) -> int:
        """Workers of the whole gang."""
        if len(self.roles) == 1:
            return self.roles[0].workers
        return sum(role.workers for role in self.roles)

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        if len(self.roles) == 1:
            return self.roles[0].workers * self.roles[0].gpus_per_worker
        return sum(role.workers * role.gpus_per_worker for role in self.roles)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A submitted job as the store keeps it."""

    id: JobId
    project: ProjectName
    name: JobName
    spec: JobSpec
    priority: int
    """Value of its priority class at submission; larger goes first."""
    submitted_at: Instant
    submitted_by: str = ""
    phase: JobPhase = JobPhase.PENDING
    phase_since: Instant
    reason: str = ""
    """CamelCase code beside the phase: an Outcome once terminal, a StopCause while Stopping."""
    message: str = ""
    """One sentence for people, by explain.py, or the last error text of the outside system."""
    not_before: Instant | None = None
    """Back-off: not considered before this instant."""
    stop_requested: StopCause | None = None
    """Set by the API (Cancel) or the leader; the loop carries it out."""
    stop_now: bool = False
    """Skip the grace: the user asked for `--now`."""
    attempts: int = 0
    """Attempts made so far; the latest has number `attempts - 1`."""
    restarts_user: int = 0
    """Restarts after failures of the user's program; bounded by the failure policy."""
    restarts_infra: int = 0
    """Restarts after failures of the cluster since the last healthy run; bounded by a knob."""
    failures_in_row: int = 0
    """Failures of any kind since the last healthy run; the back-off doubles with each."""
    ran_for: Duration = seconds(0)
    """How long its ended attempts ran, all together."""
    promised: Placement | None = None
    """Where it starts next: GPUs that gangs were stopped for its sake to leave. While it waits,
    nobody else gets them."""
    former: Placement | None = None
    """Where it ran when a node was lost under it: the next attempt keeps what is left of that."""
    waiting: WaitEpisode | None = None
    """Its present wait, or the last one while it runs; None: no offer was declined."""
    evictions: Evictions = NO_EVICTIONS
    first_started_at: Instant | None = None
    last_placed_at: Instant | None = None
    """When its latest attempt got its GPUs."""
    start_number: int = 0
    """Of its latest start among those of all live jobs: larger is later, also within a plan."""
    ended_at: Instant | None = None
    revision: int = 0
    """Counts the writes to this job; a writer names the revision it has read."""

    def moved_to(
        self, phase: JobPhase, *, at: Instant, reason: str = "", message: str = ""
    ) -> "Job":
        """This job in another phase.

        Raises InvalidTransitionError if the table has no such arrow.
        """
        if phase not in NEXT_JOB_PHASES[self.phase]:
            raise InvalidTransitionError(self.id, self.phase, phase)
        return _moved_job(
            self,
            phase=phase,
            phase_since=at,
            reason=reason,
            message=message,
            ended_at=None if NEXT_JOB_PHASES[phase] else at,
        )


_moved_job = copier_of(Job, "phase", "phase_since", "reason", "message", "ended_at")


def submission_order(job: Job) -> tuple[int, Instant, JobId]:
    """Sort key of jobs that wait: larger priority first, then earlier submission, then id."""
    return (-job.priority, job.submitted_at, job.id)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnd:
    """The first terminal report of one worker; later ones do not change it."""

    rank: Rank
    exit_code: int | None
    """Exit code, 128+n after signal n; None when it is not known."""
    outcome: Outcome
    message: str = ""
    ended_at: Instant


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a job."""

    job_id: JobId
    number: AttemptNumber
    phase: AttemptPhase = AttemptPhase.RESERVED
    phase_since: Instant
    epoch: Epoch
    """Leadership term that made it."""
    placement: Placement
    created_at: Instant
    running_since: Instant | None = None
    stop_cause: StopCause | None = None
    kill_at: Instant | None = None
    """When the grace ends and the workers are killed."""
    outcome: Outcome | None = None
    """The verdict: set as soon as it is known (often while Stopping), final once Ended."""
    message: str = ""
    worker_ends: tuple[WorkerEnd, ...] = ()
    ended_at: Instant | None = None

    def moved_to(self, phase: AttemptPhase, *, at: Instant) -> "Attempt":
        """This attempt in another phase.

        Raises InvalidTransitionError if the table has no such arrow.
        """
        if phase not in NEXT_ATTEMPT_PHASES[self.phase]:
            raise InvalidTransitionError(self.job_id, self.phase, phase)
        return _moved_attempt(
            self,
            phase=phase,
            phase_since=at,
            ended_at=at if phase is AttemptPhase.ENDED else None,
        )


_moved_attempt = copier_of(Attempt, "phase", "phase_since", "ended_at")
