"""Measured step times of models at placements: rows, their compute times, and what is left out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.network_rows import Unused, read_csv
from scheduler.domain.ids import GpuModel
from scheduler.network.model_timing import gpu_family
from scheduler.network.models_large import LARGE_MODELS
from scheduler.network.profiles import BUILT_IN, find_model, model_compute_s

HALF_PRECISIONS = frozenset({"amp", "amp_bf16", "bf16", "fp16"})

_ALIASES = {
    "lm": "lstm-lm",
    "lstmlm": "lstm-lm",
    "transformer": "transformer-multi30k",
    "transformerd512x6": "transformer-multi30k",
    "resnet18": "resnet18-cifar",
    "gpt2": "gpt2-small",
}
"""What the sources call some of the built-in models."""

_TIMED_IN_GANGS = frozenset(model.name for model in LARGE_MODELS)
"""Built-in models that were only timed on many GPUs: they can not test a step of many GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One model trained at one placement, and how long a step took."""

    model: str
    gpu: GpuModel
    network: str
    inside: str
    ranks_by_node: tuple[int, ...]
    batch: float
    gradient_bytes: float
    compute_s: float
    """Step of one GPU alone at the same batch."""
    accumulation_steps: int
    step_s: float
    source: str
    has_own_time: bool = True
    """False where the compute time is a prior, because nothing is known of the model."""

    @property
    def cluster(self) -> str:
        """For people: which machines."""
        return f"{self.source.split('/')[0]} {self.gpu}"


def base_name(model: str) -> str:
    """A model's name without what stands in brackets, case and separators."""
    return re.sub(r"[^a-z0-9.]", "", re.sub(r"\(.*?\)", "", model).lower())


def source_of(text: str) -> str:
    """The repository a row comes from."""
    return re.sub(r"^github ", "", text).split(" ")[0].removeprefix("github.com/")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesKey:
    """Which single-GPU times belong together."""

    model: str
    gpu: GpuModel
    source: str
    precision: str = ""
    tokens: str = ""


class ComputeTimes:
    """Steps of one GPU, measured, from one or more profile files; else the built-in table."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._times: dict[TimesKey, dict[float, list[float]]] = {}
        self._parameters: dict[tuple[str, str], float] = {}
        for file in files:
            for raw in read_csv(file):
                self._take(raw)

    def _take(self, raw: Mapping[str, str]) -> None:
        model, source = base_name(raw["model"]), source_of(raw["source"])
        if raw["param_count"]:
            self._parameters.setdefault((model, source), float(raw["param_count"]))
            self._parameters.setdefault((model, ""), float(raw["param_count"]))
        step_s = raw["micro_step_time_s"] or raw["iter_time_s"]
        if raw["gpus"] != "1" or not raw["local_batch"] or not step_s:
            return
        if not raw["micro_step_time_s"]:
            step_s = str(float(step_s) / float(raw["accum_steps"] or 1))
        key = _key_of(raw)
        by_batch = self._times.setdefault(key, {})
        by_batch.setdefault(float(raw["local_batch"]), []).append(float(step_s))

    def parameters(self, model: str, source: str) -> float | None:
        """Parameters of a model as a file or the built-in table has them."""
        name = base_name(model)
        known = self._parameters.get((name, source)) or self._parameters.get((name, ""))
        if known is None:
            built_in = find_model(_ALIASES.get(name, name), BUILT_IN)
            known = float(built_in.parameters) if built_in else None
        return known

    def measured_s(self, key: TimesKey, batch: float) -> float | None:
        """A micro-step at that batch, read off the line between measured ones; None outside."""
        by_batch = self._times.get(key)
        if by_batch is None:
            return None
        if batch in by_batch:
            return median(by_batch[batch])
        below = max((size for size in by_batch if size < batch), default=None)
        above = min((size for size in by_batch if size > batch), default=None)
        if below is None or above is None:
            return None
        low, high = median(by_batch[below]), median(by_batch[above])
        return low + (high - low) * (batch - below) / (above - below)

    def compute_s(self, key: TimesKey, batch: float) -> float | None:
        """The same, from the built-in table where no file says."""
        measured = self.measured_s(key, batch)
        if measured is not None or key in self._times:
            return measured
        built_in = find_model(_ALIASES.get(key.model, key.model), BUILT_IN)
        if built_in is None or built_in.name in _TIMED_IN_GANGS:
            return None
        if not any(t.gpu_model == gpu_family(key.gpu) for t in built_in.timings):
            return None
        return model_compute_s(
            built_in, gpu_model=key.gpu, batch=max(1, round(batch)), precision=None
        )


def _key_of(raw: Mapping[str, str]) -> TimesKey:
    # Files of one repository are told apart by framework: TensorFlow and PyTorch differ.
    source = source_of(raw["source"])
    framework = re.search(r"(PyTorch|TensorFlow2|TensorFlow|PaddlePaddle|MxNet)/", raw["source"])
    return TimesKey(
        model=base_name(raw["model"]),
        gpu=gpu_key(raw["gpu"]),
        source=source + (f" {framework.group(1)}" if framework else ""),
        precision=raw["precision"],
        tokens=raw["seq_len"],
    )


def gpu_key(gpu: str) -> GpuModel:
    """Family and memory size: clocks and hosts differ by size in the sources."""
    memory = re.search(r"\d+\s?GB", gpu)
    return GpuModel(gpu_family(gpu) + (f"-{memory.group(0)}" if memory else ""))


def step_rows(path: Path, times: ComputeTimes) -> tuple[list[StepRow], list[Unused]]:
    """Rows over several GPUs whose model has a compute time; the rest with the reason."""
    used: list[StepRow] = []
    unused: list[Unused] = []
    for raw in read_csv(path):
        if raw["gpus"] in ("", "1") or not raw["iter_time_s"]:
            continue
        row = _step_row(raw, times)
        if isinstance(row, Unused):
            unused.append(row)
        else:
            used.append(row)
    return used, unused


def _step_row(raw: Mapping[str, str], times: ComputeTimes) -> StepRow | Unused:
    key = _key_of(raw)
    source = source_of(raw["source"])
    parameters = times.parameters(raw["model"], source)
    micro_s = times.compute_s(key, float(raw["local_batch"])) if raw["local_batch"] else None
    reason = _unusable(raw, key, has_profile=parameters is not None and micro_s is not None)
    if reason or parameters is None or micro_s is None:
        return Unused(system=f"{raw['model']} on {raw['gpu']} ({source})", reason=reason)
    steps = int(float(raw["accum_steps"] or 1))
    width = 2 if raw["precision"] in HALF_PRECISIONS else 4
    return StepRow(
        model=key.model,
        gpu=gpu_family(raw["gpu"]),
        network=raw["network"],
        inside=raw["intra_link"],
        ranks_by_node=_ranks(raw),
        batch=float(raw["local_batch"]),
        gradient_bytes=parameters * width,
        compute_s=micro_s * steps,
        accumulation_steps=steps,
        step_s=float(raw["iter_time_s"]),
        source=source,
    )


def _unusable(raw: Mapping[str, str], key: TimesKey, *, has_profile: bool) -> str:
    if not has_profile:
        return "no profile: parameters or a single GPU's step at that batch are missing"
    if "not in repo" in (raw["gpu"], raw["network"]):
        return "hardware not stated"
    if int(raw["nodes"]) > 1 and "not stated" in raw["network"]:
        return "network not stated"
    if key.source.startswith("siasosp23") and key.gpu == "V100":
        return "hosts mixed up in the source (suspect)"
    return ""


def _ranks(raw: Mapping[str, str]) -> tuple[int, ...]:
    named = re.search(r"placement ([\d+]+)", raw["notes"])
    if named:
        return placement(named.group(1))
    nodes = int(raw["nodes"])
    return (int(raw["gpus"]) // nodes,) * nodes


def placement(text: str) -> tuple[int, ...]:
    """GPUs per node of a placement written as `2+2`."""
    return tuple(sorted((int(part) for part in text.split("+")), reverse=True))


def names_of(unused: Iterable[Unused]) -> list[tuple[str, str, int]]:
    """Unused systems by name, with reason and number of rows."""
    counts: dict[tuple[str, str], int] = {}
    for row in unused:
        counts[row.system, row.reason] = counts.get((row.system, row.reason), 0) + 1
    return [(system, reason, count) for (system, reason), count in sorted(counts.items())]
