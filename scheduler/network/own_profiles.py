"""Profiles of users' own models: from numbers they give, and from runs that were measured."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduler.domain.communication import (
    CommunicationProfile,
    ComputeTiming,
    ModelProfile,
    Precision,
)
from scheduler.domain.ids import GpuModel
from scheduler.network.fabric import Fabric
from scheduler.network.iteration import workload_time
from scheduler.network.model_timing import gpu_family
from scheduler.network.priors import prior_for
from scheduler.network.shape import Shape
from scheduler.network.workload import Workload

HALVINGS = 50
"""Of an interval no wider than the step, until what is left of it is far below any clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """The steps of a job on one GPU model, at the closest level they were measured at."""

    gpu_model: GpuModel
    workload: Workload
    """What was known of the job there."""
    shape: Shape
    step_s: float


def measured_compute_s(run: MeasuredRun, fabric: Fabric) -> float:
    """Computation of one step, so that step time predicted and measured agree.

    Communication is taken to be as predicted. Where that alone lasts longer than the measured step,
    computation is scaled as the step is.
    """

    def step_s(compute_s: float) -> float:
        workload = replace(run.workload, compute_s=compute_s)
        return workload_time(workload, run.shape, fabric, gpu_model=run.gpu_model).total_s

    low, high = 0.0, run.step_s
    if step_s(low) >= run.step_s:
        return run.workload.compute_s * run.step_s / step_s(run.workload.compute_s)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if step_s(middle) < run.step_s:
            low = middle
        else:
            high = middle
    return high


def profile_of_runs(
    name: str,
    declared: CommunicationProfile,
    model: ModelProfile | None,
    runs: Iterable[MeasuredRun],
    fabric: Fabric,
) -> ModelProfile:
    """The profile of a job from its measured runs, of which there is at least one.

    `model` is the profile that the job itself named.
    """
    measured = tuple(runs)
    first = measured[0]
    base = model or _sizes(name, declared, first)
    precision = declared.precision or base.precision
    axes = declared.parallel
    parts = axes.tensor * axes.pipeline * axes.context * axes.sequence
    timings = tuple(
        timing_of(
            run.gpu_model,
            batch_per_gpu=declared.batch_per_gpu or 1,
            # A timing is of one GPU that does all of a micro-step.
            step_s=measured_compute_s(run, fabric) * parts / declared.accumulation_steps,
            precision=precision,
        )
        for run in measured
    )
    return replace(
        base,
        name=name,
        strategy=declared.strategy or base.strategy,
        precision=precision,
        timings=timings,
        overlap=base.overlap if declared.overlap is None else declared.overlap,
        is_built_in=False,
    )


def timing_of(
    gpu_model: str,
    *,
    batch_per_gpu: int,
    step_s: float,
    precision: Precision,
    sequence_tokens: int = 0,
) -> ComputeTiming:
    """A measured step, under the family of its GPU model."""
    return ComputeTiming(
        gpu_model=gpu_family(gpu_model),
        batch_per_gpu=batch_per_gpu,
        step_s=step_s,
        precision=precision,
        sequence_tokens=sequence_tokens,
    )


def _sizes(name: str, declared: CommunicationProfile, run: MeasuredRun) -> ModelProfile:
    """What a job without a named model says of its size."""
    precision = declared.precision or Precision.FP32
    return ModelProfile(
        name=name,
        family=prior_for(run.shape.ranks, run.gpu_model).family,
        parameters=max(1, round(run.workload.gradient_bytes / precision.wire_bytes)),
        precision=precision,
        source=name,
    )
