"""What is known of a model independent of any cluster: its size and how long one GPU computes."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.domain.communication import Precision, Strategy
from scheduler.domain.ids import GpuModel


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
