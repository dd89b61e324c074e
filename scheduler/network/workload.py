"""What a job does in one step, in numbers: from its file, its model's profile, and priors."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from scheduler.domain.communication import (
    Axis,
    Collective,
    CommunicationProfile,
    Compression,
    ModelProfile,
    ParallelAxes,
    Precision,
    Strategy,
    Traffic,
)
from scheduler.network.priors import Prior, prior_for
from scheduler.network.profiles import find_model, model_compute_s

DEFAULT_BLOCKS = 32
"""Wrapped blocks of a sharded model whose layers are not known."""

FORWARD_SHARE = 1 / 3
"""Forward's share of forward + backward, without a profile: backward costs twice as much."""


class Source(StrEnum):
    """Where a job's numbers come from, least certain last."""

    MEASURED = "measured"
    DECLARED = "declared"
    PROFILE = "profile"
    PRIOR = "prior"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One step of one rank."""

    source: Source
    strategy: Strategy
    gradient_bytes: float
    """Per data-parallel replica, before compression."""
    compute_s: float
    """Forward, backward and optimizer of one rank, alone."""
    overlap: float | None = None
    """Share of backward behind which communication hides; None: as the fabric has it."""
    accumulation_steps: int = 1
    parallel: ParallelAxes = field(default_factory=ParallelAxes)
    traffic: tuple[Traffic, ...] = ()
    servers: int = 0
    staleness: int = 0
    local_steps: int = 1
    degree: int = 2
    compression: Compression | None = None
    encrypted_factor: float = 1.0
    blocks: int = DEFAULT_BLOCKS

    @property
    def backward_s(self) -> float:
        """Backward part of the step."""
        return self.compute_s * (1 - FORWARD_SHARE)

    @property
    def model_ranks(self) -> int:
        """Ranks one replica is cut over, so that each holds a part of the gradients."""
        return self.parallel.tensor * self.parallel.pipeline


def resolve(
    profile: CommunicationProfile | None,
    *,
    ranks: int,
    gpu_model: str,
    models: Mapping[str, ModelProfile],
    step: int = 0,
) -> Workload:
    """The workload of a job at a step; what the file leaves out comes from model, then prior."""
    declared = profile or CommunicationProfile()
    if declared.parallel.product > ranks:
        # A gang too small for one replica can not be cut like that.
        declared = replace(declared, parallel=ParallelAxes())
    model = declared.own_model
    if model is None and declared.model:
        model = find_model(declared.model, models)
    prior = prior_for(ranks, gpu_model)
    gradient_bytes, compute_s, source = _sizes(declared, model, prior, gpu_model)
    strategy = declared.strategy or (model.strategy if model else Strategy.DDP)
    local_steps = declared.local_steps
    for phase in declared.phases:
        if step < phase.until_step:
            gradient_bytes = _or(phase.gradient_bytes, gradient_bytes)
            compute_s = _or(phase.compute_s, compute_s)
            local_steps = phase.local_steps or local_steps
            break
    compression = declared.compression
    if compression is not None and step < compression.from_step:
        compression = None
    overlap = declared.overlap
    if overlap is None and model is not None:
        overlap = model.overlap
    workload = Workload(
        source=source,
        strategy=strategy,
        gradient_bytes=gradient_bytes,
        compute_s=compute_s,
        overlap=overlap,
        accumulation_steps=declared.accumulation_steps,
        parallel=declared.parallel,
        traffic=declared.traffic,
        servers=declared.servers,
        staleness=declared.staleness,
        local_steps=local_steps,
        degree=declared.degree,
        compression=compression,
        encrypted_factor=declared.encrypted_factor,
        blocks=(model.layers if model else 0) or DEFAULT_BLOCKS,
    )
    return replace(workload, traffic=_traffic(workload, declared, model))


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _sizes(
    declared: CommunicationProfile, model: ModelProfile | None, prior: Prior, gpu_model: str
) -> tuple[float, float, Source]:
    """Gradient bytes, compute seconds, and how sure we are of the less certain of the two."""
    sources = []
    if declared.gradient_bytes is not None:
        gradient_bytes: float = declared.gradient_bytes
        sources.append(Source.DECLARED)
    elif model is not None:
        precision = declared.precision or model.precision
        gradient_bytes = model.parameters * precision.wire_bytes
        sources.append(Source.PROFILE)
    else:
        gradient_bytes = prior.gradient_bytes
        sources.append(Source.PRIOR)
    compute_s, compute_source = _compute(declared, model, prior, gpu_model)
    sources.append(compute_source)
    return gradient_bytes, compute_s, max(sources, key=list(Source).index)


def _compute(
    declared: CommunicationProfile, model: ModelProfile | None, prior: Prior, gpu_model: str
) -> tuple[float, Source]:
    if declared.compute_s is not None:
        return declared.compute_s, Source.DECLARED
    timed = None
    if model is not None:
        timed = model_compute_s(
            model,
            gpu_model=gpu_model,
            batch=declared.batch_per_gpu,
            precision=declared.precision,
        )
    if timed is None:
        return prior.compute_s, Source.PRIOR
    # A model's time is that of one GPU doing all of a micro-step.
    axes = declared.parallel
    parts = axes.tensor * axes.pipeline * axes.context * axes.sequence
    return timed * declared.accumulation_steps / parts, Source.PROFILE


def _traffic(
    workload: Workload, declared: CommunicationProfile, model: ModelProfile | None
) -> tuple[Traffic, ...]:
    """The declared traffic, and what the model's shape says of the axes it leaves out."""
    named = {entry.axis for entry in declared.traffic}
    derived = [
        entry for entry in derived_traffic(workload, declared, model) if entry.axis not in named
    ]
    return (*declared.traffic, *derived)


def derived_traffic(
    workload: Workload, declared: CommunicationProfile, model: ModelProfile | None
) -> list[Traffic]:
    """Traffic of the model-parallel axes of a transformer."""
    axes = workload.parallel
    layers, hidden, tokens = _transformer(workload, declared, model)
    layers_here = max(1, layers // axes.pipeline)
    passes = declared.accumulation_steps
    # Activations of one micro-batch between two layers, on one rank of the other axes.
    activations = tokens * hidden * 2 // (axes.context * axes.sequence)
    # Inside attention a tensor rank holds its heads only.
    heads = activations // axes.tensor
    found = []
    if axes.tensor > 1:
        # Two all-reduces forward and two backward per layer.
        found.append(
            _entry(Axis.TENSOR, Collective.ALL_REDUCE, activations, 4 * layers_here * passes)
        )
    if axes.sequence > 1:
        # q, k, v and output, forward and backward (Ulysses).
        found.append(_entry(Axis.SEQUENCE, Collective.ALL_TO_ALL, heads, 8 * layers_here * passes))
    if axes.context > 1:
        # Keys and values go round the ring forward, and twice backward; attention hides them.
        keys = 2 * heads * axes.context
        found.append(
            replace(
                _entry(Axis.CONTEXT, Collective.ALL_GATHER, keys, 3 * layers_here * passes),
                is_blocking=False,
            )
        )
    if axes.expert > 1:
        # Dispatch and combine, forward and backward.
        chosen = max(1, model.experts_per_token if model else 1)
        found.append(
            _entry(
                Axis.EXPERT, Collective.ALL_TO_ALL, activations * chosen, 4 * layers_here * passes
            )
        )
    if axes.pipeline > 1:
        found.append(
            _entry(Axis.PIPELINE, Collective.SEND_RECEIVE, activations // axes.tensor, 2 * passes)
        )
    return found


def _entry(axis: Axis, collective: Collective, size: int, messages: int) -> Traffic:
    return Traffic(
        axis=axis, collective=collective, bytes_per_step=size * messages, messages_per_step=messages
    )


def _transformer(
    workload: Workload, declared: CommunicationProfile, model: ModelProfile | None
) -> tuple[int, int, int]:
    """Layers, hidden size and tokens of a micro-batch, guessed from the size where not known."""
    batch = declared.batch_per_gpu or 1
    if model is not None and model.hidden and model.layers:
        return model.layers, model.hidden, batch * max(1, model.sequence_tokens)
    precision = declared.precision or Precision.BF16
    parameters = workload.gradient_bytes / precision.wire_bytes
    # GPT-3's shapes: 12 layers x hidden^2 parameters with about 128 hidden per layer.
    hidden = max(128, round((parameters * 128 / 12) ** (1 / 3)))
    return max(1, hidden // 128), hidden, batch * 2048
