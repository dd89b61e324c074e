"""Communication section <-> CommunicationProfile."""

from api.job_files.communication import (
    Communication,
    CompressionRequest,
    Parallel,
    PhaseRequest,
    TrafficRequest,
)
from scheduler.domain import communication as domain
from scheduler.domain.quantities import parse_bytes, render_bytes

UNBOUNDED = "unbounded"


def to_profile(wire: Communication | None) -> domain.CommunicationProfile | None:
    """The profile a checked section declares."""
    if wire is None:
        return None
    return domain.CommunicationProfile(
        model=wire.model,
        strategy=domain.Strategy(wire.strategy) if wire.strategy else None,
        gradient_bytes=_bytes(wire.gradient_bytes),
        compute_s=_seconds(wire.compute_seconds),
        batch_per_gpu=wire.batch_per_gpu,
        precision=domain.Precision(wire.precision) if wire.precision else None,
        accumulation_steps=wire.accumulation_steps,
        overlap=_seconds(wire.overlap),
        parallel=_axes(wire.parallel),
        traffic=tuple(_traffic(traffic) for traffic in wire.traffic),
        servers=wire.servers,
        staleness=_staleness(wire.staleness),
        local_steps=wire.local_steps,
        degree=wire.degree,
        compression=_compression(wire.compression),
        encrypted_factor=float(wire.encrypted_factor),
        phases=tuple(_phase(phase) for phase in wire.phases),
        step_pattern=wire.step_pattern,
    )


def to_communication(profile: domain.CommunicationProfile | None) -> Communication | None:
    """The section that declares `profile`."""
    if profile is None:
        return None
    return Communication(
        model=profile.model,
        strategy=profile.strategy.value if profile.strategy else None,
        gradient_bytes=_to_bytes(profile.gradient_bytes),
        compute_seconds=profile.compute_s,
        batch_per_gpu=profile.batch_per_gpu,
        precision=profile.precision.value if profile.precision else None,
        accumulation_steps=profile.accumulation_steps,
        overlap=profile.overlap,
        parallel=_to_parallel(profile.parallel),
        traffic=tuple(_to_traffic(traffic) for traffic in profile.traffic),
        servers=profile.servers,
        staleness=_to_staleness(profile.staleness),
        local_steps=profile.local_steps,
        degree=profile.degree,
        compression=_to_compression(profile.compression),
        encrypted_factor=profile.encrypted_factor,
        phases=tuple(_to_phase(phase) for phase in profile.phases),
        step_pattern=profile.step_pattern,
    )


def _axes(wire: Parallel | None) -> domain.ParallelAxes:
    if wire is None:
        return domain.ParallelAxes()
    return domain.ParallelAxes(
        tensor=wire.tensor,
        sequence=wire.sequence,
        context=wire.context,
        expert=wire.expert,
        shard=wire.shard,
        pipeline=wire.pipeline,
        order=tuple(domain.Axis(axis) for axis in wire.order),
    )


def _to_parallel(axes: domain.ParallelAxes) -> Parallel | None:
    if axes == domain.ParallelAxes():
        return None
    return Parallel(
        tensor=axes.tensor,
        sequence=axes.sequence,
        context=axes.context,
        expert=axes.expert,
        shard=axes.shard,
        pipeline=axes.pipeline,
        order=tuple(axis.value for axis in axes.order),
    )


def _traffic(wire: TrafficRequest) -> domain.Traffic:
    return domain.Traffic(
        axis=domain.Axis(wire.axis),
        collective=domain.Collective(wire.collective),
        bytes_per_step=parse_bytes(wire.bytes_per_step),
        is_blocking=wire.blocking,
        messages_per_step=wire.messages_per_step,
    )


def _to_traffic(traffic: domain.Traffic) -> TrafficRequest:
    return TrafficRequest(
        axis=traffic.axis.value,
        collective=traffic.collective.value,
        bytes_per_step=render_bytes(traffic.bytes_per_step),
        blocking=traffic.is_blocking,
        messages_per_step=traffic.messages_per_step,
    )


def _compression(wire: CompressionRequest | None) -> domain.Compression | None:
    if wire is None:
        return None
    return domain.Compression(
        ratio=float(wire.ratio),
        codec_s=float(wire.codec_seconds),
        from_step=wire.from_step,
        is_sparse=wire.sparse,
    )


def _to_compression(compression: domain.Compression | None) -> CompressionRequest | None:
    if compression is None:
        return None
    return CompressionRequest(
        ratio=compression.ratio,
        codec_seconds=compression.codec_s,
        from_step=compression.from_step,
        sparse=compression.is_sparse,
    )


def _phase(wire: PhaseRequest) -> domain.CommunicationPhase:
    return domain.CommunicationPhase(
        until_step=wire.until_step,
        gradient_bytes=_bytes(wire.gradient_bytes),
        compute_s=_seconds(wire.compute_seconds),
        local_steps=wire.local_steps,
    )


def _to_phase(phase: domain.CommunicationPhase) -> PhaseRequest:
    return PhaseRequest(
        until_step=phase.until_step,
        gradient_bytes=_to_bytes(phase.gradient_bytes),
        compute_seconds=phase.compute_s,
        local_steps=phase.local_steps,
    )


def _staleness(value: int | str) -> int:
    return value if isinstance(value, int) else domain.STALENESS_UNBOUNDED


def _to_staleness(value: int) -> int | str:
    return UNBOUNDED if value == domain.STALENESS_UNBOUNDED else value


def _bytes(value: int | str | None) -> int | None:
    return None if value is None else parse_bytes(value)


def _to_bytes(amount: int | None) -> int | str | None:
    return None if amount is None else render_bytes(amount)


def _seconds(value: float | None) -> float | None:
    return None if value is None else float(value)
