"""What the server says about the future of a job."""

from pydantic import JsonValue

from api.wire import API_VERSION, Reply


class PlannedNode(Reply):
    """A node of the job's place, with its workers there."""

    name: str
    workers: int


class Assumed(Reply):
    """What the plan was worked out from; it is as good as this."""

    at: str
    """When the cluster stood so."""
    policy: str
    knobs: dict[str, JsonValue]
    """Knobs of the cluster that are other than they hold, as the question says."""
    more_nodes: int
    """Nodes more than there are, each like the last one and in order."""
    jobs_running: int
    """Other jobs that hold GPUs."""
    jobs_waiting: int
    """Other jobs that wait for some."""
    run_seconds: float
    """What the job was taken to need at its closest level, alone."""
    run_seconds_from: str
    """iterations: as it declares; past-jobs: as jobs of its queue and size took; default: too few
    of them have ended; max-runtime: it is stopped then."""
    notes: list[str]
    """What no plan knows."""


class JobPlan(Reply):
    """What would become of a job."""

    api_version: str = API_VERSION
    kind: str = "JobPlan"
    project: str
    name: str
    queue: str
    is_submitted: bool
    """False for a job file that is not stored."""
    is_running: bool
    """Whether it holds GPUs now."""
    starts_at: str | None = None
    """When it gets GPUs; absent if nothing will start it."""
    ends_at: str | None = None
    """Absent if it does not start or never ends."""
    wait_seconds: float | None = None
    """From the moment the cluster stood so until it starts."""
    slowdown: float | None = None
    """Time from start to end over what it needs at its closest level, alone."""
    level: str | None = None
    """The closest level of the topology that holds its place."""
    nodes: list[PlannedNode]
    assumed: Assumed
