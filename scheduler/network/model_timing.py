"""How the tables of built-in models write measured steps, and GPUs against each other."""

import re
from collections.abc import Mapping

from scheduler.domain.communication import ComputeTiming, Precision
from scheduler.domain.ids import GpuModel

GPU_SPEED: Mapping[GpuModel, float] = {
    GpuModel("K80"): 0.2,
    GpuModel("T4"): 0.31,
    GpuModel("RTX2080Ti"): 0.65,
    GpuModel("P100"): 0.65,
    GpuModel("TITANRTX"): 0.8,
    GpuModel("RTX3090"): 1.0,
    GpuModel("V100"): 1.0,
    GpuModel("A10"): 0.8,
    GpuModel("L4"): 0.6,
    GpuModel("L40S"): 1.8,
    GpuModel("A100"): 2.0,
    GpuModel("H100"): 4.6,
    GpuModel("H200"): 5.5,
    GpuModel("B200"): 9.8,
    GpuModel("GB200"): 10.0,
    GpuModel("GB300"): 12.0,
}
"""Training speed against a V100, for models that were not timed on a GPU.

K80 to A100: medians over the models timed on several of them in the measured points (Gavel, Sia,
NVIDIA's examples). H100: MPT 7B against A100-80GB. H200, B200, GB200, GB300: Llama 3.1 8B in FP8
against H100. TITAN RTX, RTX 3090, A10, L4, L40S: peak dense half-precision rates, rounded.
"""

_FAMILY = re.compile(
    r"(GB300|GB200|B200|H200|H100|L40S|L4|A100|A10|V100|P100|K80|T4|RTX\W*3090|RTX\W*2080\W*Ti"
    r"|TITAN\W*RTX)(?![0-9])",
    re.IGNORECASE,
)


def gpu_family(gpu_model: str) -> GpuModel:
    """The GPU without vendor, form factor and memory size: `NVIDIA-A100-SXM4-80GB` is `A100`."""
    found = _FAMILY.search(gpu_model)
    if found is None:
        return GpuModel(gpu_model)
    letters = re.sub(r"\W", "", found.group(1)).upper()
    return GpuModel(letters.removesuffix("TI") + "Ti" if letters.endswith("TI") else letters)


def timed(
    gpu_model: str, precision: Precision, step_s_by_batch: Mapping[int, float], *, tokens: int = 0
) -> tuple[ComputeTiming, ...]:
    """Timings of one GPU at several batch sizes."""
    return tuple(
        ComputeTiming(
            gpu_model=GpuModel(gpu_model),
            batch_per_gpu=batch,
            step_s=step_s,
            precision=precision,
            sequence_tokens=tokens,
        )
        for batch, step_s in sorted(step_s_by_batch.items())
    )
