"""Profiles of users' own: from measured runs, and where a job's numbers come from with them."""

from dataclasses import replace

import pytest

from scheduler.domain.communication import (
    CommunicationProfile,
    Family,
    ModelProfile,
    ParallelAxes,
    Precision,
    Strategy,
)
from scheduler.domain.ids import GpuModel
from scheduler.network.iteration import iteration_time
from scheduler.network.own_profiles import (
    MeasuredRun,
    measured_compute_s,
    profile_of_runs,
    timing_of,
)
from scheduler.network.presets import PRESETS
from scheduler.network.profiles import BUILT_IN
from scheduler.network.shape import shape_of_counts
from scheduler.network.workload import Source, resolve

FABRIC = PRESETS["h100-ndr"]
H100 = GpuModel("NVIDIA-H100-80GB-HBM3")
SHAPE = shape_of_counts([8, 8])
DECLARED = CommunicationProfile(
    gradient_bytes=2 * 10**9, compute_s=0.2, batch_per_gpu=4, precision=Precision.BF16
)


def a_run(declared: CommunicationProfile, *, step_s: float) -> MeasuredRun:
    workload = resolve(declared, ranks=16, gpu_model=H100, models=BUILT_IN)
    return MeasuredRun(gpu_model=H100, workload=workload, shape=SHAPE, step_s=step_s)


def predicted_s(declared: CommunicationProfile) -> float:
    return iteration_time(declared, SHAPE, FABRIC, gpu_model=H100).total_s


@pytest.mark.parametrize("compute_s", [0.05, 0.4, 3.0])
def test_computation_is_found_from_the_measured_step(compute_s: float) -> None:
    step_s = predicted_s(replace(DECLARED, compute_s=compute_s))
    assert measured_compute_s(a_run(DECLARED, step_s=step_s), FABRIC) == pytest.approx(compute_s)


def test_a_step_shorter_than_its_communication_scales_what_was_known() -> None:
    hurried = predicted_s(replace(DECLARED, compute_s=0.0)) / 2
    found = measured_compute_s(a_run(DECLARED, step_s=hurried), FABRIC)
    assert found == pytest.approx(0.2 * hurried / predicted_s(DECLARED))


def test_a_job_with_the_profile_of_a_run_is_predicted_as_the_run_was_measured() -> None:
    step_s = predicted_s(replace(DECLARED, compute_s=0.7))
    profile = profile_of_runs("ours", DECLARED, None, [a_run(DECLARED, step_s=step_s)], FABRIC)
    assert (profile.parameters, profile.precision) == (10**9, Precision.BF16)
    (timing,) = profile.timings
    assert (timing.gpu_model, timing.batch_per_gpu) == ("H100", 4)
    named = CommunicationProfile(model="ours", own_model=profile, batch_per_gpu=4)
    assert predicted_s(named) == pytest.approx(step_s)


def test_splitting_and_accumulating_are_taken_out_of_a_timing() -> None:
    declared = replace(DECLARED, accumulation_steps=3, parallel=ParallelAxes(tensor=2))
    run = a_run(declared, step_s=1.5)
    profile = profile_of_runs("ours", declared, None, [run], FABRIC)
    again = resolve(
        replace(declared, compute_s=None, own_model=profile),
        ranks=16,
        gpu_model=H100,
        models=BUILT_IN,
    )
    assert again.compute_s == pytest.approx(measured_compute_s(run, FABRIC))
    assert again.source is Source.PROFILE


def test_what_the_jobs_own_model_says_is_kept() -> None:
    declared = CommunicationProfile(model="bert-large", strategy=Strategy.ZERO1, overlap=0.25)
    run = a_run(declared, step_s=1.0)
    profile = profile_of_runs("ours", declared, BUILT_IN["bert-large"], [run], FABRIC)
    assert profile.parameters == BUILT_IN["bert-large"].parameters
    assert profile.layers == BUILT_IN["bert-large"].layers
    assert (profile.strategy, profile.overlap) == (Strategy.ZERO1, 0.25)
    assert (profile.name, profile.is_built_in) == ("ours", False)


def test_an_own_model_hides_the_built_in_one_of_its_name() -> None:
    own = ModelProfile(
        name="bert-large",
        family=Family.LANGUAGE,
        parameters=1000,
        source="ours",
        timings=(timing_of(H100, batch_per_gpu=1, step_s=0.5, precision=Precision.FP32),),
    )
    declared = CommunicationProfile(model="bert-large", own_model=own)
    found = resolve(declared, ranks=16, gpu_model=H100, models=BUILT_IN)
    assert (found.gradient_bytes, found.compute_s) == (4000, 0.5)
