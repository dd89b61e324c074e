"""Measured step times of models at placements: rows, their compute times, and what is left out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.network_table import Cells, UnusableRowError, Unused, read_csv, sorted_out
from scheduler.domain.communication import Precision
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

_PRECISIONS = {
    **{precision.value: precision for precision in Precision},
    "amp": Precision.FP16,
    "amp_bf16": Precision.BF16,
}
"""What the sources call number formats."""

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
        return f"{self.source.split('/')[0]} {self.gpu}".strip()


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
        self.unused: list[Unused] = []
        """Single GPUs' rows that say something that can not be."""
        for file in files:
            _, unused = sorted_out(read_csv(file, COLUMNS), _system_of, self._take)
            self.unused += unused

    def _take(self, raw: Cells) -> None:
        model, source = base_name(raw["model"]), source_of(raw["source"])
        parameters = raw.positive("param_count")
        if parameters is not None:
            self._parameters.setdefault((model, source), parameters)
            self._parameters.setdefault((model, ""), parameters)
        if raw["gpus"] != "1":
            return
        batch = raw.positive("local_batch")
        step_s = raw.positive("micro_step_time_s")
        whole_s = raw.positive("iter_time_s")
        if step_s is None and whole_s is not None:
            step_s = whole_s / (raw.count("accum_steps") or 1)
        if step_s is None or batch is None:
            return
        by_batch = self._times.setdefault(_key_of(raw), {})
        by_batch.setdefault(batch, []).append(step_s)

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
            built_in,
            gpu_model=key.gpu,
            batch=max(1, round(batch)),
            precision=_PRECISIONS.get(key.precision.lower()),
        )


def _key_of(raw: Cells) -> TimesKey:
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


COLUMNS = ("model", "gpu", "gpus", "nodes", "local_batch", "iter_time_s")
"""What nothing can stand in for."""


def step_rows(path: Path, times: ComputeTimes) -> tuple[list[StepRow], list[Unused]]:
    """Rows over several GPUs whose model has a compute time; the rest with the reason."""
    return sorted_out(read_csv(path, COLUMNS), _system_of, lambda raw: _step_row(raw, times))


def _system_of(raw: Cells) -> str:
    source = source_of(raw["source"])
    return f"{raw['model']} on {raw['gpu']}" + (f" ({source})" if source else "")


def _step_row(raw: Cells, times: ComputeTimes) -> StepRow | None:
    step_s = raw.positive("iter_time_s")
    if step_s is None or raw.count("gpus") in (None, 1):
        return None
    key = _key_of(raw)
    batch = raw.positive("local_batch")
    parameters = times.parameters(raw["model"], source_of(raw["source"]))
    micro_s = None if batch is None else times.compute_s(key, batch)
    if batch is None or parameters is None or micro_s is None:
        raise UnusableRowError(
            "no profile: parameters or a single GPU's step at that batch are missing"
        )
    _check_hardware(raw, key)
    steps = raw.count("accum_steps") or 1
    width = 2 if raw["precision"] in HALF_PRECISIONS else 4
    return StepRow(
        model=key.model,
        gpu=gpu_family(raw["gpu"]),
        network=raw["network"],
        inside=raw["intra_link"],
        ranks_by_node=_ranks(raw),
        batch=batch,
        gradient_bytes=parameters * width,
        compute_s=micro_s * steps,
        accumulation_steps=steps,
        step_s=step_s,
        source=source_of(raw["source"]),
    )


def _check_hardware(raw: Cells, key: TimesKey) -> None:
    if "not in repo" in (raw["gpu"], raw["network"]):
        raise UnusableRowError("hardware not stated")
    if (raw.count("nodes") or 1) > 1 and "not stated" in raw["network"]:
        raise UnusableRowError("network not stated")
    if key.source.startswith("siasosp23") and key.gpu == "V100":
        raise UnusableRowError("hosts mixed up in the source (suspect)")


def _ranks(raw: Cells) -> tuple[int, ...]:
    gpus, nodes = raw.count("gpus"), raw.count("nodes")
    named = re.search(r"placement (\d{1,6}(?:\+\d{1,6})*)", raw["notes"])
    ranks = placement(named.group(1)) if named else ()
    if not ranks and gpus and nodes and gpus % nodes == 0:
        ranks = (gpus // nodes,) * nodes
    if not ranks or not all(ranks):
        raise UnusableRowError("GPUs of each node are not stated")
    return ranks


def placement(text: str) -> tuple[int, ...]:
    """GPUs per node of a placement written as `2+2`."""
    return tuple(sorted((int(part) for part in text.split("+")), reverse=True))
