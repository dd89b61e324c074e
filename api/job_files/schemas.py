"""The job file on the wire: every field a user may write, with its meaning and its default."""

from typing import Annotated, Literal

from pydantic import Field

from api.job_files.communication import AxisName, Communication
from api.job_files.scalars import (
    AbsolutePath,
    Bytes,
    Command,
    Count,
    Cpus,
    LabelKey,
    LabelValue,
    Name,
    Positive,
    Reference,
    SuccessRule,
    Text,
    Time,
)
from api.job_files.storage import SecretRequest, VolumeRequest
from api.job_files.upcoming import Array, Dependency, Elastic
from api.wire import API_VERSION, Wire

WORKERS_MAX = 65_536
GPUS_PER_WORKER_MAX = 1024

Environment = dict[str, Text]
Workers = Annotated[int, Field(ge=1, le=WORKERS_MAX)]
GpusPerWorker = Annotated[int, Field(ge=0, le=GPUS_PER_WORKER_MAX)]


class ResourceRequest(Wire):
    """What one worker asks for besides GPUs."""

    cpus: Cpus | None = None
    """Cores; default: no request."""
    memory: Bytes | None = None
    """Default: no request."""
    shared_memory: Bytes | None = None
    """Size of /dev/shm in pods, on top of the memory; default: half the memory, at most 64Gi."""


class SliceRequest(Wire):
    """Groups of consecutive workers that must share one topology domain."""

    workers: Workers
    within: Reference
    """Level whose domain each group shares, e.g. `rack`."""


class AxisRequest(Wire):
    """Keeps each group of one parallel axis (and of the axes inside it) in one domain."""

    axis: AxisName
    within: Reference
    """Level whose domain each group shares, e.g. `rack`."""


class SpreadRequest(Wire):
    """Keeps workers of one role apart."""

    by: Reference
    """Level whose domains are counted, e.g. `rack`."""
    workers_max: Workers
    """At most so many workers in one domain."""


class Topology(Wire):
    """The user's caps on placement; normally left out, since the policy decides."""

    required: Reference | None = None
    """The whole gang must lie in one domain of this level or a closer one."""
    preferred: Reference | None = None
    """Level at which waiting starts."""
    slices: Annotated[tuple[SliceRequest, ...], Field(strict=False, max_length=16)] = ()
    """Nested groups, widest first; each divides the one around it, the first a role's workers."""
    axes: Annotated[tuple[AxisRequest, ...], Field(strict=False, max_length=7)] = ()
    """Instead of slices: parallel axes by level; sizes are those of communication.parallel."""
    spread: SpreadRequest | None = None
    """For the workers without GPUs of a job with roles; for all of a job without."""


class RoleRequest(Wire):
    """Equal members of a gang whose members differ."""

    name: Name
    workers: Workers
    gpus_per_worker: GpusPerWorker
    command: Command | None = None
    """Default: the job's."""
    resources: ResourceRequest | None = None
    """Default: the job's."""
    env: Environment = Field(default_factory=dict)
    """Added to the job's; wins over it."""
    pool: Reference | None = None
    """Default: the job's."""
    preemptible: Literal[False] | None = None
    """`false` says that the gang may not be stopped for others; a gang is stopped as a whole."""
    spread: SpreadRequest | None = None


class Duration(Wire):
    """How long the job takes; known length helps and is not needed."""

    iterations: Positive | None = None
    """Training steps in all."""
    max_runtime: Time | None = None
    """An attempt that runs longer is stopped; the job ends as Failed with DeadlineExceeded."""


class Checkpoint(Wire):
    """Where and how often the job saves its progress, and what stopping it costs."""

    path: AbsolutePath | None = None
    """Folder of the checkpoints; workers see it as DALLY_CHECKPOINT_DIR."""
    every: Time | None = None
    """Time between two checkpoints."""
    grace: Time | None = None
    """Time between SIGTERM and SIGKILL when the gang is stopped; default 120s, at most 1h."""
    restart_cost: Time | None = None
    """Time from start to the first new step."""
    warning: Time | None = None
    """Notice before SIGTERM; default 0s, and more is not supported yet."""


class FailureRule(Wire):
    """What to do when a worker exits with one of these codes; the first matching rule wins."""

    on_exit_codes: Annotated[
        tuple[Annotated[int, Field(ge=1, le=255)], ...],
        Field(strict=False, min_length=1, max_length=255),
    ]
    action: Literal["Fail", "Restart"]


class FailurePolicy(Wire):
    """How often, and after what, the gang is started again."""

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = 0
    """Restarts after failures of the program; failures of the cluster count apart."""
    rules: Annotated[tuple[FailureRule, ...], Field(strict=False, max_length=32)] = ()


class JobRequest(Wire):
    """What the user asks for."""

    queue: Reference | None = None
    """Default: the project's first queue."""
    workers: Workers | None = None
    """Size of the gang; default 1. A worker is one pod, or one local process tree."""
    gpus_per_worker: GpusPerWorker | None = None
    """Required unless `roles` are given; 0 for CPU only."""
    image: Annotated[str, Field(max_length=512)] = ""
    """Container image; required on Kubernetes, ignored by the local executor."""
    command: Command | None = None
    """Program and arguments, run without a shell. Required: here or in each role."""
    launcher: Literal["plain", "torchrun", "mpi", "tf", "jax"] = "plain"
    """Which framework's variables the workers get. With `mpi` rank 0 alone runs the command."""
    env: Environment = Field(default_factory=dict)
    """Variables of the workers; names that the service sets are refused."""
    secrets: Annotated[tuple[SecretRequest, ...], Field(strict=False, max_length=64)] = ()
    """Variables and files from secrets that the project may use; Kubernetes only."""
    resources: ResourceRequest | None = None
    """Per worker, besides GPUs."""
    volumes: Annotated[tuple[VolumeRequest, ...], Field(strict=False, max_length=64)] = ()
    """Storage that the workers see; Kubernetes only."""
    pod_profile: Reference | None = None
    """Admin-made settings of pods: devices, capabilities, mounts; Kubernetes only."""
    working_dir: AbsolutePath | None = None
    """Default: a folder of the attempt's own."""
    gpu_models: Annotated[tuple[Reference, ...], Field(strict=False, max_length=16)] = ()
    """Acceptable GPU models, e.g. `H100-80GB`; default: any."""
    mix_gpu_models: bool = False
    """Whether one gang may hold several of them."""
    pool: Reference | None = None
    """Nodes to use where more than one pool fits."""
    priority: Reference = "normal"
    """Name of a priority class."""
    preemptible: bool = False
    """May be stopped for others even without a declared checkpoint."""
    topology: Topology | None = None
    roles: Annotated[tuple[RoleRequest, ...], Field(strict=False, max_length=16)] = ()
    """Instead of `workers` and `gpusPerWorker`, when the members differ."""
    communication: Communication | None = None
    """What the job computes and sends in a step; all of it can be left out."""
    duration: Duration | None = None
    checkpoint: Checkpoint | None = None
    hang_timeout: Time | None = None
    """No reported step for that long ends the attempt as Hung; default: never."""
    failure_policy: FailurePolicy | None = None
    success_policy: SuccessRule = "all"
    """When the job has succeeded: `all` workers ended well, `rank0` did, or `{role: NAME}` did."""
    elastic: Elastic | None = None
    """Not supported yet."""
    spares: Count | None = None
    """Nodes kept for replacement. Not supported yet."""
    depends_on: Annotated[tuple[Dependency, ...], Field(strict=False, max_length=64)] = ()
    """Not supported yet."""
    array: Array | None = None
    """Not supported yet."""


class JobFileMetadata(Wire):
    """Name and labels; what the server fills in is accepted and ignored."""

    name: Name
    """Unique in the project among jobs that are not deleted."""
    project: Reference | None = None
    """Default: the project of the request; another one is refused."""
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=64)] = Field(
        default_factory=dict
    )
    uid: Text | None = None
    """Set by the server; ignored in a file."""
    resource_version: Text | None = None
    """Set by the server; ignored in a file."""
    create_time: Text | None = None
    """Set by the server; ignored in a file."""
    created_by: Text | None = None
    """Set by the server; ignored in a file."""


class JobFile(Wire):
    """One job as a user writes it."""

    api_version: Literal["dally/v1"] = API_VERSION
    kind: Literal["Job"] = "Job"
    metadata: JobFileMetadata
    spec: JobRequest
    status: dict[str, object] | None = None
    """Set by the server; ignored in a file, so that what `get` prints can be applied again."""
