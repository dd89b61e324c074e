"""What the server says about jobs, and the bodies of the verbs on them."""

from typing import Annotated, Literal

from pydantic import Field

from api.job_files.schemas import JobRequest
from api.lists import ListMetadata, ObjectMetadata
from api.problems import Problem
from api.wire import API_VERSION, Reply, Wire

PhaseName = Literal[
    "Pending", "Held", "Starting", "Running", "Stopping", "Succeeded", "Failed", "Cancelled"
]
TERMINAL_PHASES = ("Succeeded", "Failed", "Cancelled")


class JobStatus(Reply):
    """Where a job is."""

    phase: PhaseName
    phase_since: str
    reason: str = ""
    """CamelCase code beside the phase: how the job ended, or why it is being stopped."""
    message: str = ""
    """One sentence for people."""
    priority: int
    """Value of the priority class when the job was submitted."""
    workers: int
    gpus: int
    attempts: int = 0
    """Attempts made so far; the latest has number `attempts - 1`. Those that were preempted, moved
    or drained are among them and count as neither of the restarts below."""
    restarts_after_failure: int = 0
    """Counted against failurePolicy.maxRestarts."""
    restarts_after_loss: int = 0
    """After failures of the cluster; counted apart."""
    stop_requested: str | None = None
    """`Cancel` from the moment a cancel is accepted."""
    not_before: str | None = None
    """Back-off: not considered before this time."""
    start_time: str | None = None
    """When the first attempt ran."""
    end_time: str | None = None


class JobObject(Reply):
    """One job."""

    api_version: str = API_VERSION
    kind: str = "Job"
    metadata: ObjectMetadata
    spec: JobRequest
    status: JobStatus


class JobList(Reply):
    """One page of jobs, by submission."""

    api_version: str = API_VERSION
    kind: str = "JobList"
    metadata: ListMetadata
    items: list[JobObject]


class CancelRequest(Wire):
    """How to cancel."""

    now: bool = False
    """Skip the grace: kill at once."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Told in the job's event."""


class HoldRequest(Wire):
    """Why a job is held or released."""

    reason: Annotated[str, Field(max_length=1024)] = ""


class AssignmentView(Reply):
    """Workers of one role on one node."""

    role: str
    node: str
    workers: int


class WorkerView(Reply):
    """One worker of an attempt."""

    rank: int
    role: str
    node: str
    exit_code: int | None = None
    """Exit code, 128+n after signal n."""
    outcome: str | None = None
    message: str = ""
    end_time: str | None = None


class ProgressView(Reply):
    """What rank 0 said of itself last."""

    step: int
    steps_total: int | None = None
    step_seconds: float
    """Mean seconds per step since the report before."""
    loss: float | None = None
    accuracy: float | None = None
    report_time: str
    reports: int
    """Reports of this attempt so far."""


class AttemptView(Reply):
    """One start of a job."""

    number: int
    phase: str
    phase_since: str
    tier: str
    """Closest level that holds the whole gang."""
    placement: list[AssignmentView]
    workers: list[WorkerView]
    create_time: str
    running_since: str | None = None
    end_time: str | None = None
    stop_cause: str | None = None
    kill_time: str | None = None
    """When workers that still live are killed."""
    outcome: str | None = None
    message: str = ""
    progress: ProgressView | None = None


class AttemptList(Reply):
    """All attempts of a job, oldest first."""

    api_version: str = API_VERSION
    kind: str = "AttemptList"
    items: list[AttemptView]


class PlacementView(Reply):
    """Where the latest attempt of a job was placed."""

    api_version: str = API_VERSION
    kind: str = "Placement"
    job: str
    project: str
    attempt: int
    phase: str
    """Of the attempt: once it has ended, the job holds nothing there any more."""
    tier: str
    """Closest level that holds the whole gang."""
    placement: list[AssignmentView]
    drawing: str
    """The nodes by rack, for people: a line each, GPU by GPU."""


class RoundView(Reply):
    """The decision cycle an answer comes from."""

    id: int
    time: str
    age_seconds: float
    is_stale: bool
    """More than three rounds should have run since then."""


class PositionView(Reply):
    """Where the job stands in its queue."""

    in_queue: int
    of_queue: int


class WhyView(Reply):
    """Why a job is where it is."""

    api_version: str = API_VERSION
    kind: str = "Why"
    job: str
    project: str
    phase: PhaseName
    verdict: str
    """CamelCase, e.g. WaitingForCapacity, Backoff, NeverFits, Held, Running."""
    summary: str
    """One sentence with the numbers."""
    since: str | None = None
    """When this answer was first given."""
    round: RoundView | None = None
    position: PositionView | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    """Nodes by what keeps the gang off them; adds up to `nodes`."""
    fix: list[str] = Field(default_factory=list)
    """What would help, each one enough by itself."""


class ProgressReport(Wire):
    """One report of rank 0; sent with the token of its attempt."""

    step: Annotated[int, Field(ge=0, le=2**62)]
    step_seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
    """Mean seconds per step since the report before."""
    loss: Annotated[float, Field(allow_inf_nan=False)] | None = None
    accuracy: Annotated[float, Field(allow_inf_nan=False)] | None = None
    steps_total: Annotated[int, Field(ge=1, le=2**62)] | None = None


class WatchEvent(Reply):
    """One line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    resource_version: str
    """Watch again from here to miss nothing."""
    uid: str | None = None
    project: str | None = None
    name: str | None = None
    object: JobObject | None = None
    """The job as it is now; absent when it was deleted."""
    problem: Problem | None = None
    """With ERROR: why the watch ends."""
