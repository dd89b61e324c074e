"""Known models, their compute times, and how a job file, a model and priors make a workload."""

from dataclasses import replace

import pytest

from scheduler.domain.communication import (
    Axis,
    Collective,
    CommunicationPhase,
    CommunicationProfile,
    Compression,
    ComputeTiming,
    Family,
    ModelProfile,
    ParallelAxes,
    Precision,
    Strategy,
    Traffic,
)
from scheduler.domain.ids import GpuModel
from scheduler.network.model_timing import GPU_SPEED, gpu_family, timed
from scheduler.network.priors import prior_for, prior_of_family
from scheduler.network.profiles import (
    BUILT_IN,
    find_model,
    model_compute_s,
    with_own,
)
from scheduler.network.workload import Source, Workload, resolve

MODEL = ModelProfile(
    name="toy",
    family=Family.LANGUAGE,
    parameters=1_000_000_000,
    source="made up",
    precision=Precision.BF16,
    layers=10,
    hidden=1024,
    sequence_tokens=2048,
    timings=(
        *timed("A100", Precision.BF16, {8: 1.0, 16: 1.8}),
        *timed("A100", Precision.FP32, {8: 3.0}),
    ),
)
MODELS = {"toy": MODEL}


def a_workload_of(profile: CommunicationProfile | None = None, **fields: int) -> Workload:
    numbers = {"ranks": 8, "step": 0} | fields
    return resolve(profile, gpu_model="A100-80GB", models=MODELS, **numbers)


def test_the_table_holds_thirty_models_with_their_sources() -> None:
    assert len(BUILT_IN) >= 30
    for name, model in BUILT_IN.items():
        assert name == model.name == name.lower()
        assert model.source, name
        assert model.timings, name
        assert model.gradient_bytes == model.parameters * model.precision.wire_bytes
        assert all(timing.gpu_model in GPU_SPEED for timing in model.timings), name


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_more_samples_never_take_less_time(name: str) -> None:
    model = BUILT_IN[name]
    for gpu in {timing.gpu_model for timing in model.timings}:
        steps = [
            model_compute_s(model, gpu_model=gpu, batch=batch, precision=None)
            for batch in (1, 2, 4, 8, 16, 64, 256, 1024)
        ]
        assert all(step is not None and step > 0 for step in steps)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("NVIDIA-A100-SXM4-80GB", "A100"),
        ("H100-80GB", "H100"),
        ("Tesla-T4", "T4"),
        ("NVIDIA-GeForce-RTX-2080-Ti", "RTX2080Ti"),
        ("RTX 2080Ti", "RTX2080Ti"),
        ("GB200", "GB200"),
        ("TITAN RTX", "TITANRTX"),
        ("h100_80gb", "H100"),
        ("MI300X", "MI300X"),
        ("", ""),
    ],
)
def test_gpu_names_are_reduced_to_their_family(text: str, family: str) -> None:
    assert gpu_family(text) == family


@pytest.mark.parametrize("name", ["resnet50", "ResNet-50", "RESNET_50"])
def test_a_model_is_found_by_any_spelling(name: str) -> None:
    found = find_model(name, BUILT_IN)
    assert found is not None
    assert found.name == "resnet50"


def test_a_name_that_is_nearly_right_is_not_taken_for_a_model() -> None:
    assert find_model("bert-larg", BUILT_IN) is None


def test_an_own_model_hides_a_built_in_one() -> None:
    own = replace(BUILT_IN["resnet50"], parameters=7, is_built_in=False)
    merged = with_own([own, MODEL])
    assert merged["resnet50"].parameters == 7
    assert merged["toy"] is MODEL
    assert list(merged) == sorted(merged)


@pytest.mark.parametrize(
    ("batch", "precision", "seconds"),
    [
        pytest.param(8, Precision.BF16, 1.0, id="as timed"),
        pytest.param(12, Precision.BF16, 1.4, id="on the line between two"),
        pytest.param(32, Precision.BF16, 3.4, id="beyond the last, along the line"),
        pytest.param(4, Precision.BF16, 0.6, id="below the first, along the line"),
        pytest.param(1, Precision.BF16, 0.3, id="far below"),
        pytest.param(8, Precision.FP16, 1.0, id="the closest precision"),
        pytest.param(8, Precision.TF32, 3.0, id="the closest wide precision"),
        pytest.param(16, Precision.FP32, 3.0 * (0.1 + 0.9 * 2), id="one batch timed: a fixed part"),
        pytest.param(8, None, 1.0, id="no precision: the one timed most"),
    ],
)
def test_compute_time_by_batch_and_precision(
    batch: int, precision: Precision | None, seconds: float
) -> None:
    found = model_compute_s(MODEL, gpu_model="A100-40GB", batch=batch, precision=precision)
    assert found == pytest.approx(seconds)


def test_compute_time_on_another_gpu_goes_by_its_speed() -> None:
    found = model_compute_s(MODEL, gpu_model="H100", batch=8, precision=Precision.BF16)
    ratio = GPU_SPEED[GpuModel("A100")] / GPU_SPEED[GpuModel("H100")]
    assert found == pytest.approx(1.0 * ratio)


def test_without_timings_there_is_no_compute_time() -> None:
    bare = replace(MODEL, timings=())
    assert model_compute_s(bare, gpu_model="A100", batch=8, precision=None) is None


def test_other_sequence_lengths_are_used_only_for_want_of_the_models_own() -> None:
    long = ComputeTiming(
        gpu_model=GpuModel("A100"),
        batch_per_gpu=8,
        step_s=9.0,
        precision=Precision.BF16,
        sequence_tokens=8192,
    )
    both = replace(MODEL, timings=(*MODEL.timings, long))
    only = replace(MODEL, timings=(long,))
    for model, seconds in ((both, 1.0), (only, 9.0)):
        found = model_compute_s(model, gpu_model="A100", batch=8, precision=Precision.BF16)
        assert found == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("profile", "source", "gradient_bytes", "compute_s"),
    [
        pytest.param(
            CommunicationProfile(gradient_bytes=5, compute_s=0.5),
            Source.DECLARED,
            5,
            0.5,
            id="declared",
        ),
        pytest.param(
            CommunicationProfile(model="toy", batch_per_gpu=8, precision=Precision.BF16),
            Source.PROFILE,
            2e9,
            1.0,
            id="from the model",
        ),
        pytest.param(
            CommunicationProfile(model="toy", batch_per_gpu=8, precision=Precision.FP32),
            Source.PROFILE,
            4e9,
            3.0,
            id="precision counts for bytes and compute",
        ),
        pytest.param(
            CommunicationProfile(model="toy", batch_per_gpu=8, compute_s=0.25),
            Source.PROFILE,
            2e9,
            0.25,
            id="a declared number wins, the source is the weaker of the two",
        ),
        pytest.param(
            CommunicationProfile(gradient_bytes=5),
            Source.PRIOR,
            5,
            prior_for(8, "A100").compute_s,
            id="half declared",
        ),
        pytest.param(
            None,
            Source.PRIOR,
            prior_for(8, "A100").gradient_bytes,
            prior_for(8, "A100").compute_s,
            id="nothing said",
        ),
    ],
)
def test_numbers_come_from_the_file_then_the_model_then_a_prior(
    profile: CommunicationProfile | None, source: Source, gradient_bytes: float, compute_s: float
) -> None:
    workload = a_workload_of(profile)
    assert workload.source is source
    assert workload.gradient_bytes == pytest.approx(gradient_bytes)
    assert workload.compute_s == pytest.approx(compute_s)


def test_accumulation_repeats_a_models_step_and_axes_divide_it() -> None:
    profile = CommunicationProfile(
        model="toy",
        batch_per_gpu=8,
        accumulation_steps=4,
        parallel=ParallelAxes(tensor=2, pipeline=2),
    )
    assert a_workload_of(profile).compute_s == pytest.approx(1.0 * 4 / 4)


def test_a_phase_holds_until_its_step() -> None:
    profile = CommunicationProfile(
        gradient_bytes=100,
        compute_s=1.0,
        phases=(
            CommunicationPhase(until_step=10, gradient_bytes=7),
            CommunicationPhase(until_step=20, compute_s=9.0, local_steps=5),
        ),
    )
    assert a_workload_of(profile, step=0).gradient_bytes == 7
    assert a_workload_of(profile, step=9).compute_s == 1.0
    assert a_workload_of(profile, step=10).gradient_bytes == 100
    assert a_workload_of(profile, step=10).compute_s == 9.0
    assert a_workload_of(profile, step=19).local_steps == 5
    assert a_workload_of(profile, step=20).compute_s == 1.0


def test_compression_starts_after_its_warm_up() -> None:
    profile = CommunicationProfile(compression=Compression(ratio=0.1, from_step=100))
    assert a_workload_of(profile, step=99).compression is None
    assert a_workload_of(profile, step=100).compression is not None


@pytest.mark.parametrize(
    ("axes", "axis", "collective", "size"),
    [
        # 8 samples x 2048 tokens x 1024 wide x 2 bytes = 32 MiB of activations.
        pytest.param(
            ParallelAxes(tensor=8),
            Axis.TENSOR,
            Collective.ALL_REDUCE,
            4 * 10 * (32 << 20),
            id="tensor: four all-reduces a layer",
        ),
        pytest.param(
            ParallelAxes(sequence=4),
            Axis.SEQUENCE,
            Collective.ALL_TO_ALL,
            8 * 10 * (32 << 20) // 4,
            id="sequence: eight all-to-alls of a quarter",
        ),
        pytest.param(
            ParallelAxes(expert=8),
            Axis.EXPERT,
            Collective.ALL_TO_ALL,
            4 * 10 * (32 << 20),
            id="experts: dispatch and combine, both ways",
        ),
        pytest.param(
            ParallelAxes(pipeline=2),
            Axis.PIPELINE,
            Collective.SEND_RECEIVE,
            2 * (32 << 20),
            id="pipeline: an activation forward and its gradient back",
        ),
        pytest.param(
            ParallelAxes(context=2),
            Axis.CONTEXT,
            Collective.ALL_GATHER,
            3 * 10 * 2 * (32 << 20),
            id="context: keys and values three times round",
        ),
    ],
)
def test_the_traffic_of_an_axis_follows_from_the_models_shape(
    axes: ParallelAxes, axis: Axis, collective: Collective, size: int
) -> None:
    profile = CommunicationProfile(model="toy", batch_per_gpu=8, parallel=axes)
    (entry,) = a_workload_of(profile).traffic
    assert (entry.axis, entry.collective, entry.bytes_per_step) == (axis, collective, size)


@pytest.mark.parametrize("axis", [Axis.SEQUENCE, Axis.CONTEXT])
def test_inside_attention_a_tensor_rank_sends_its_heads_only(axis: Axis) -> None:
    def sent(tensor: int) -> int:
        axes = (
            ParallelAxes(tensor=tensor, sequence=2)
            if axis is Axis.SEQUENCE
            else ParallelAxes(tensor=tensor, context=2)
        )
        profile = CommunicationProfile(model="toy", batch_per_gpu=8, parallel=axes)
        traffic = a_workload_of(profile).traffic
        return next(entry.bytes_per_step for entry in traffic if entry.axis is axis)

    assert sent(tensor=4) == sent(tensor=1) // 4


def test_declared_traffic_replaces_what_would_be_derived() -> None:
    declared = Traffic(axis=Axis.TENSOR, collective=Collective.ALL_GATHER, bytes_per_step=5)
    profile = CommunicationProfile(
        model="toy", parallel=ParallelAxes(tensor=8), traffic=(declared,)
    )
    assert a_workload_of(profile).traffic == (declared,)


def test_the_models_strategy_holds_unless_the_file_names_one() -> None:
    models = {"toy": replace(MODEL, strategy=Strategy.FSDP, overlap=0.1)}
    profile = CommunicationProfile(model="toy")
    found = resolve(profile, ranks=8, gpu_model="A100", models=models)
    assert (found.strategy, found.overlap, found.blocks) == (Strategy.FSDP, 0.1, 10)
    own = replace(profile, strategy=Strategy.DDP, overlap=0.9)
    found = resolve(own, ranks=8, gpu_model="A100", models=models)
    assert (found.strategy, found.overlap) == (Strategy.DDP, 0.9)


def test_larger_gangs_have_larger_priors() -> None:
    sizes = [prior_for(ranks, "V100").gradient_bytes for ranks in (1, 8, 64)]
    assert sizes == sorted(set(sizes))
    assert prior_for(8, "H100").compute_s < prior_for(8, "V100").compute_s


@pytest.mark.parametrize("family", list(Family))
def test_every_family_has_a_prior(family: Family) -> None:
    assert prior_of_family(family, "V100").gradient_bytes > 0
