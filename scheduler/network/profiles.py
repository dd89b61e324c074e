"""The known models: the built-in table, a user's own on top of it, and their compute times."""

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from scheduler.domain.communication import ComputeTiming, ModelProfile, Precision
from scheduler.domain.ids import GpuModel
from scheduler.network.model_timing import GPU_SPEED, gpu_family
from scheduler.network.models_language import LANGUAGE_MODELS
from scheduler.network.models_large import LARGE_MODELS
from scheduler.network.models_vision import VISION_AND_OTHER_MODELS

BUILT_IN: Mapping[str, ModelProfile] = {
    model.name: model
    for model in sorted(
        (*VISION_AND_OTHER_MODELS, *LANGUAGE_MODELS, *LARGE_MODELS), key=lambda model: model.name
    )
}

FIXED_SHARE = 0.1
"""Share of a step that does not shrink with the batch, where only one batch size was timed."""

_CLOSEST_PRECISIONS: Mapping[Precision, tuple[Precision, ...]] = {
    Precision.FP32: (Precision.FP32, Precision.TF32),
    Precision.TF32: (Precision.TF32, Precision.FP32),
    Precision.FP16: (Precision.FP16, Precision.BF16),
    Precision.BF16: (Precision.BF16, Precision.FP16),
    Precision.FP8: (Precision.FP8, Precision.BF16, Precision.FP16),
}


def with_own(own: Iterable[ModelProfile]) -> Mapping[str, ModelProfile]:
    """The built-in table and the users' own models; an own one hides a built-in one of its name."""
    merged = {**BUILT_IN, **{model.name: model for model in own}}
    return dict(sorted(merged.items()))


def find_model(name: str, models: Mapping[str, ModelProfile]) -> ModelProfile | None:
    """The model of that name, whatever its case and separators: `ResNet-50` is `resnet50`."""
    if name in models:
        return models[name]
    wanted = _plain(name)
    return next((model for key, model in models.items() if _plain(key) == wanted), None)


def model_compute_s(
    model: ModelProfile, *, gpu_model: str, batch: int | None, precision: Precision | None
) -> float | None:
    """Step of one GPU alone at that batch; None if the model was never timed.

    Between timed batches it is read off the line; another GPU's time is scaled by GPU speed.
    """
    gpu = gpu_family(gpu_model)
    timings = [t for t in model.timings if not t.sequence_tokens]
    timings = timings or list(model.timings)
    if not timings:
        return None
    own = [t for t in timings if t.gpu_model == gpu]
    if own:
        return _at_batch(_of_precision(own, precision), batch)
    others = sorted({t.gpu_model for t in timings})
    return median(
        _at_batch(_of_precision([t for t in timings if t.gpu_model == other], precision), batch)
        * _speed(other)
        / _speed(gpu)
        for other in others
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _speed(gpu: GpuModel) -> float:
    return GPU_SPEED.get(gpu, 1.0)


def _of_precision(
    timings: Sequence[ComputeTiming], precision: Precision | None
) -> Sequence[ComputeTiming]:
    """The timings of one precision, the closest one to what is asked that was timed."""
    present = {t.precision for t in timings}
    wanted = _CLOSEST_PRECISIONS[precision] if precision else ()
    chosen = next((p for p in wanted if p in present), None)
    if chosen is None:
        # The one timed at most batch sizes says most; the name breaks ties.
        chosen = max(sorted(present), key=lambda p: sum(t.precision is p for t in timings))
    return [t for t in timings if t.precision is chosen]


def _at_batch(timings: Sequence[ComputeTiming], batch: int | None) -> float:
    by_batch: dict[int, list[float]] = {}
    for timing in timings:
        by_batch.setdefault(timing.batch_per_gpu, []).append(timing.step_s)
    points = sorted((size, median(times)) for size, times in by_batch.items())
    if batch is None:
        return points[len(points) // 2][1]
    if len(points) == 1:
        size, step_s = points[0]
        return step_s * (FIXED_SHARE + (1 - FIXED_SHARE) * batch / size)
    return _on_line(points, batch)


def _on_line(points: Sequence[tuple[int, float]], batch: int) -> float:
    """Piecewise linear; beyond the ends along the last piece, within what proportion allows."""
    index = 1
    while index < len(points) - 1 and batch > points[index][0]:
        index += 1
    (low, low_s), (high, high_s) = points[index - 1], points[index]
    value = low_s + (high_s - low_s) * (batch - low) / (high - low)
    if batch < low:
        return min(low_s, max(value, low_s * batch / low))
    if batch > high:
        return max(value, high_s)
    return value
