"""Wire types of the communication section: what a job computes and sends in one training step."""

from typing import Annotated, Literal

from pydantic import Field

from api.job_files.scalars import Bytes, Count, Positive, Seconds, Share, Staleness
from api.wire import Wire

AxisName = Literal["tensor", "sequence", "context", "expert", "shard", "pipeline", "data"]
PrecisionName = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]
StrategyName = Literal[
    "ddp",
    "zero1",
    "zero2",
    "zero3",
    "fsdp",
    "hsdp",
    "ps",
    "local-sgd",
    "pipe-sgd",
    "gossip",
    "none",
]


class Parallel(Wire):
    """Ranks per axis; the data axis takes what is left of the gang."""

    tensor: Positive = 1
    sequence: Positive = 1
    context: Positive = 1
    expert: Positive = 1
    shard: Positive = 1
    """Ranks over which a replica is sharded; 1 for the whole data axis."""
    pipeline: Positive = 1
    order: Annotated[tuple[AxisName, ...], Field(strict=False, max_length=7)] = ()
    """Axes innermost first; those not named follow in the order of this list."""


class TrafficRequest(Wire):
    """What goes over one axis in one step; replaces what the model's profile derives for it."""

    axis: AxisName
    collective: Literal[
        "allReduce", "allGather", "reduceScatter", "allToAll", "broadcast", "sendReceive"
    ]
    bytes_per_step: Bytes
    """The full buffer of one rank, summed over the step, before compression."""
    blocking: bool = True
    """Whether computation waits for it."""
    messages_per_step: Positive = 1
    """Collectives the bytes are split into; each pays its latency."""


class CompressionRequest(Wire):
    """Gradients made smaller before they are sent."""

    ratio: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Compressed bytes divided by plain bytes."""
    codec_seconds: Seconds = 0.0
    """Seconds per step spent encoding and decoding."""
    from_step: Count = 0
    """First step that compresses."""
    sparse: bool = False
    """Ranks send different indices (top-k), so an all-gather replaces the all-reduce."""


class PhaseRequest(Wire):
    """What differs until a step."""

    until_step: Positive
    """First step that is no longer in this phase."""
    gradient_bytes: Bytes | None = None
    compute_seconds: Seconds | None = None
    local_steps: Positive | None = None


class Communication(Wire):
    """What the network model needs. What is left out comes from the model's profile."""

    model: Annotated[str, Field(max_length=253)] = ""
    """A known profile by name; the numbers below win over it."""
    strategy: StrategyName | None = None
    """How the replicas are kept in step; default: the profile's, else ddp."""
    gradient_bytes: Bytes | None = None
    """Exchanged per step and data-parallel replica, before compression."""
    compute_seconds: Seconds | None = None
    """Forward, backward and optimizer of one step on one GPU of gpuModels[0], alone."""
    batch_per_gpu: Positive | None = None
    precision: PrecisionName | None = None
    accumulation_steps: Positive = 1
    """Micro-steps per exchange of gradients."""
    overlap: Share | None = None
    """Share of backward behind which communication can hide."""
    parallel: Parallel | None = None
    traffic: Annotated[tuple[TrafficRequest, ...], Field(strict=False, max_length=32)] = ()
    servers: Annotated[int, Field(ge=0, le=65_536)] = 0
    """Parameter servers; 0: as many as workers, beside them."""
    staleness: Staleness = 0
    """Steps a worker may run ahead of the slowest."""
    local_steps: Positive = 1
    """Steps between two averages of local SGD."""
    degree: Annotated[int, Field(ge=1, le=65_536)] = 2
    """Neighbours each rank exchanges with in one gossip step."""
    compression: CompressionRequest | None = None
    encrypted_factor: Annotated[float, Field(ge=1, le=1000)] = 1.0
    """By how much encryption multiplies the time of every transfer."""
    phases: Annotated[tuple[PhaseRequest, ...], Field(strict=False, max_length=64)] = ()
    """Earliest first."""
    step_pattern: Annotated[str, Field(max_length=512)] = ""
    """Regular expression (RE2) whose first group is a step time in seconds in a line of the log of
    rank 0; read while the job itself reports no steps."""
