"""Model profiles: wire <-> domain."""

from dataclasses import replace

from api.profiles.files import ProfileRequest, ProfileTiming
from api.profiles.schemas import ProfileView, TimingView
from scheduler.control.profiling import timing_of
from scheduler.domain.communication import (
    ComputeTiming,
    Family,
    ModelProfile,
    Precision,
    Strategy,
)

UNSAID = "given by a user"


def to_model(name: str, said: ProfileRequest, base: ModelProfile | None) -> ModelProfile:
    """The profile that a checked file describes, on what a job's run has told."""
    if base is None:
        assert said.parameters is not None, "checked"
        base = ModelProfile(
            name=name, family=Family.LANGUAGE, parameters=said.parameters, source=UNSAID
        )
    return replace(
        base,
        name=name,
        family=Family(said.family) if said.family else base.family,
        parameters=said.parameters or base.parameters,
        source=said.source or base.source,
        strategy=Strategy(said.strategy) if said.strategy else base.strategy,
        precision=Precision(said.precision) if said.precision else base.precision,
        timings=tuple(_timing(timing) for timing in said.timings) or base.timings,
        layers=_or(said.layers, base.layers),
        hidden=_or(said.hidden, base.hidden),
        sequence_tokens=_or(said.sequence_tokens, base.sequence_tokens),
        experts_per_token=_or(said.experts_per_token, base.experts_per_token),
        overlap=base.overlap if said.overlap is None else float(said.overlap),
        is_built_in=False,
    )


def _or(said: int | None, otherwise: int) -> int:
    return otherwise if said is None else said


def _timing(said: ProfileTiming) -> ComputeTiming:
    return timing_of(
        said.gpu_model,
        batch_per_gpu=said.batch_per_gpu,
        step_s=float(said.step_seconds),
        precision=Precision(said.precision),
        sequence_tokens=said.sequence_tokens,
    )


def to_profile(model: ModelProfile) -> ProfileView:
    """A known model."""
    return ProfileView(
        name=model.name,
        family=model.family,
        parameters=model.parameters,
        gradient_bytes=model.gradient_bytes,
        precision=model.precision,
        strategy=model.strategy,
        layers=model.layers,
        hidden=model.hidden,
        sequence_tokens=model.sequence_tokens,
        timings=[
            TimingView(
                gpu_model=timing.gpu_model,
                precision=timing.precision,
                batch_per_gpu=timing.batch_per_gpu,
                step_seconds=timing.step_s,
                sequence_tokens=timing.sequence_tokens,
            )
            for timing in model.timings
        ],
        source=model.source,
        is_built_in=model.is_built_in,
    )
