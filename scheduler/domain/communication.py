"""What a job computes and puts on the wire in one training step, as its file declares it.

Every field may be left out: then the named model's profile answers, else a prior of its size class.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.domain.ids import GpuModel

STALENESS_UNBOUNDED = -1
"""`staleness` of a parameter-server job whose workers never wait for each other."""


class Strategy(StrEnum):
    """How the replicas of a model are kept in step."""

    DDP = "ddp"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"
    FSDP = "fsdp"
    HSDP = "hsdp"
    PS = "ps"
    LOCAL_SGD = "local-sgd"
    PIPE_SGD = "pipe-sgd"
    GOSSIP = "gossip"
    NONE = "none"
    """Nothing is exchanged between the workers."""


class Precision(StrEnum):
    """Number format of the gradients on the wire."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def wire_bytes(self) -> int:
        """Bytes per parameter on the wire."""
        return _WIRE_BYTES[self]


_WIRE_BYTES = {
    Precision.FP32: 4,
    Precision.TF32: 4,
    Precision.FP16: 2,
    Precision.BF16: 2,
    Precision.FP8: 1,
}


class Family(StrEnum):
    """Kinds of models whose traffic is alike."""

    VISION = "vision"
    DETECTION = "detection"
    LANGUAGE = "language"
    SPEECH = "speech"
    RECOMMENDATION = "recommendation"
    GENERATIVE = "generative"
    REINFORCEMENT = "reinforcement"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTiming:
    """One measured step: forward, backward and optimizer on one GPU."""

    gpu_model: GpuModel
    """Family of the GPU, without memory size, e.g. `A100`."""
    batch_per_gpu: int
    step_s: float
    precision: Precision = Precision.FP32
    sequence_tokens: int = 0
    """Tokens per sample where that differs from the model's own; 0: as the model's."""

    def __post_init__(self) -> None:
        assert self.batch_per_gpu >= 1
        assert self.step_s > 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """A named model. Zero where something does not apply or is not known."""

    name: str
    family: Family
    parameters: int
    source: str
    """Where parameters and timings come from."""
    strategy: Strategy = Strategy.DDP
    precision: Precision = Precision.FP32
    """Format of gradients on the wire, unless the job says otherwise."""
    timings: tuple[ComputeTiming, ...] = ()
    layers: int = 0
    hidden: int = 0
    """Width of the residual stream of a transformer."""
    sequence_tokens: int = 0
    experts_per_token: int = 0
    """Experts each token is sent to (top-k); 0: not a mixture of experts."""
    overlap: float | None = None
    is_built_in: bool = False

    def __post_init__(self) -> None:
        assert self.name
        assert self.parameters >= 1

    @property
    def gradient_bytes(self) -> int:
        """Bytes of all gradients in the model's own precision."""
        return self.parameters * self.precision.wire_bytes


class Axis(StrEnum):
    """One way in which a model or its data are split over ranks."""

    TENSOR = "tensor"
    SEQUENCE = "sequence"
    CONTEXT = "context"
    EXPERT = "expert"
    SHARD = "shard"
    PIPELINE = "pipeline"
    DATA = "data"
    """What is left when the ranks are divided by all the other axes."""


AXES_INNERMOST_FIRST = (
    Axis.TENSOR,
    Axis.SEQUENCE,
    Axis.CONTEXT,
    Axis.EXPERT,
    Axis.SHARD,
    Axis.PIPELINE,
    Axis.DATA,
)


class Collective(StrEnum):
    """A pattern of exchange among the ranks of one axis."""

    ALL_REDUCE = "allReduce"
    ALL_GATHER = "allGather"
    REDUCE_SCATTER = "reduceScatter"
    ALL_TO_ALL = "allToAll"
    BROADCAST = "broadcast"
    SEND_RECEIVE = "sendReceive"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelAxes:
    """Ranks per axis; the data axis takes what is left of the gang."""

    tensor: int = 1
    sequence: int = 1
    context: int = 1
    expert: int = 1
    shard: int = 1
    """Ranks over which a replica is sharded (fsdp, hsdp, zero); 1 for the whole data axis."""
    pipeline: int = 1
    order: tuple[Axis, ...] = ()
    """Axes innermost first (consecutive ranks); axes not named follow in the default order."""

    def __post_init__(self) -> None:
        sizes = (self.tensor, self.sequence, self.context, self.expert, self.shard, self.pipeline)
        assert min(sizes) >= 1
        assert len(set(self.order)) == len(self.order)

    def size(self, axis: Axis) -> int:
        """Declared ranks along `axis`; 1 for the data axis, which is never declared."""
        return 1 if axis is Axis.DATA else int(getattr(self, axis.value))

    @property
    def product(self) -> int:
        """Ranks of one cell of the data axis."""
        return self.tensor * self.sequence * self.context * self.expert * self.shard * self.pipeline

    @property
    def ordered(self) -> tuple[Axis, ...]:
        """All axes, innermost first."""
        return self.order + tuple(a for a in AXES_INNERMOST_FIRST if a not in self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What goes over one axis in one step; replaces what the model's profile derives for it."""

    axis: Axis
    collective: Collective
    bytes_per_step: int
    """The full buffer of one rank, summed over the step, before compression."""
    is_blocking: bool = True
    """Whether computation waits for it; else it may hide behind backward like gradients."""
    messages_per_step: int = 1
    """Collectives the bytes are split into; each pays its latency."""

    def __post_init__(self) -> None:
        assert self.bytes_per_step >= 0
        assert self.messages_per_step >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """Gradients made smaller before they are sent."""

    ratio: float = 1.0
    """Compressed bytes divided by plain bytes."""
    codec_s: float = 0.0
    """Seconds per step spent encoding and decoding."""
    from_step: int = 0
    """First step that compresses; warm-up steps before it send plain gradients."""
    is_sparse: bool = False
    """Top-k style: ranks send different indices, so an all-gather replaces the all-reduce."""

    def __post_init__(self) -> None:
        assert 0.0 < self.ratio <= 1.0
        assert self.codec_s >= 0.0
        assert self.from_step >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationPhase:
    """What differs until a step; None where the profile's own value holds."""

    until_step: int
    """First step that is no longer in this phase."""
    gradient_bytes: int | None = None
    compute_s: float | None = None
    local_steps: int | None = None

    def __post_init__(self) -> None:
        assert self.until_step >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationProfile:
    """The communication section of a job. None or empty: not declared."""

    model: str = ""
    """Name of a known model profile; its numbers fill what is not declared here."""
    own_model: ModelProfile | None = None
    """That profile as it was at submission, where the project has one of its own by that name: a
    job is what was submitted, whatever becomes of the profile."""
    strategy: Strategy | None = None
    """Not declared: the model profile's, else ddp."""
    gradient_bytes: int | None = None
    """Exchanged per step and data-parallel replica, before compression."""
    compute_s: float | None = None
    """Forward, backward and optimizer of one step on one GPU of `gpuModels[0]`, alone."""
    batch_per_gpu: int | None = None
    precision: Precision | None = None
    accumulation_steps: int = 1
    """Micro-steps per exchange of gradients."""
    overlap: float | None = None
    """Share of backward behind which communication can hide (rho); 0 none, 1 all of it."""
    parallel: ParallelAxes = field(default_factory=ParallelAxes)
    traffic: tuple[Traffic, ...] = ()
    servers: int = 0
    """Parameter servers; 0: as many as workers, beside them."""
    staleness: int = 0
    """Steps a worker may run ahead of the slowest: 0 synchronous, STALENESS_UNBOUNDED for any."""
    local_steps: int = 1
    """Steps between two averages of local SGD."""
    degree: int = 2
    """Neighbours each rank exchanges with in one gossip step."""
    compression: Compression | None = None
    encrypted_factor: float = 1.0
    """By how much encryption multiplies the time of every transfer (confidential computing)."""
    phases: tuple[CommunicationPhase, ...] = ()
    """Earliest first."""
    step_pattern: str = ""
    """Regular expression (RE2) whose first group is a step time in seconds in a line of the log of
    rank 0; read while the job itself reports no steps."""

    def __post_init__(self) -> None:
        assert self.gradient_bytes is None or self.gradient_bytes >= 0
        assert self.compute_s is None or self.compute_s >= 0.0
        assert self.batch_per_gpu is None or self.batch_per_gpu >= 1
        assert self.accumulation_steps >= 1
        assert self.overlap is None or 0.0 <= self.overlap <= 1.0
        assert self.servers >= 0
        assert self.staleness >= STALENESS_UNBOUNDED
        assert self.local_steps >= 1
        assert self.degree >= 1
        assert self.encrypted_factor >= 1.0
        steps = [phase.until_step for phase in self.phases]
        assert steps == sorted(set(steps))
