"""Profile files: what users say of models of their own."""

from typing import Annotated, Literal

from pydantic import Field

from api.job_files.communication import PrecisionName, StrategyName
from api.job_files.scalars import Name, Positive, Reference, Share, Text
from api.wire import API_VERSION, Wire

FamilyName = Literal[
    "vision", "detection", "language", "speech", "recommendation", "generative", "reinforcement"
]
StepSeconds = Annotated[float, Field(strict=False, gt=0, le=1e6, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=0, le=10**9)]
TIMINGS_MAX = 256


class ProfileTiming(Wire):
    """One measured step of one GPU: forward, backward and optimizer, without communication."""

    gpu_model: Reference
    """Model of the GPU; its memory size does not matter."""
    batch_per_gpu: Positive
    step_seconds: StepSeconds
    precision: PrecisionName = "fp32"
    sequence_tokens: Size = 0
    """Tokens per sample; 0: the model's own."""


class ProfileRequest(Wire):
    """What is known of a model: by numbers, from a job that has ended, or both."""

    from_job: Name | None = None
    """A job of the project that has ended and whose steps were measured: sizes are what its file
    says, compute times follow from its steps. What is given here wins."""
    parameters: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """Required without `fromJob`."""
    family: FamilyName | None = None
    """Kind of model; default: that of the job, else language."""
    strategy: StrategyName | None = None
    """How replicas are kept in step; default: that of the job, else ddp."""
    precision: PrecisionName | None = None
    """Of the gradients on the wire; default: that of the job, else fp32."""
    timings: Annotated[tuple[ProfileTiming, ...], Field(strict=False, max_length=TIMINGS_MAX)] = ()
    """At least one without `fromJob`."""
    layers: Size | None = None
    hidden: Size | None = None
    """Width of the residual stream of a transformer."""
    sequence_tokens: Size | None = None
    """Tokens per sample."""
    experts_per_token: Size | None = None
    """Experts each token is sent to; 0: not a mixture of experts."""
    overlap: Share | None = None
    """Share of backward behind which communication can hide."""
    source: Text = ""
    """Where the numbers come from."""


class ProfileMetadata(Wire):
    """Whose profile it is."""

    name: Name
    """What job files name in `communication.model`; hides a built-in profile of that name."""
    project: Reference | None = None
    """Default: the project of the request; another one is refused."""


class ProfileFile(Wire):
    """One model profile as a user writes it."""

    api_version: Literal["dally/v1"] = API_VERSION
    kind: Literal["Profile"] = "Profile"
    metadata: ProfileMetadata
    spec: ProfileRequest
