"""What a job is taken to be when it says nothing: numbers by family and gang size, marked so."""

from dataclasses import dataclass

from scheduler.domain.communication import Family
from scheduler.network.model_timing import GPU_SPEED, gpu_family


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """A typical job of its class."""

    family: Family
    gradient_bytes: float
    compute_s: float


_SIZE_CLASSES: tuple[tuple[int, Prior], ...] = (
    # Smallest gangs first: near ResNet-50 at batch 128, BERT-large in half precision, MPT 1b, all
    # on a V100.
    (4, Prior(family=Family.VISION, gradient_bytes=102e6, compute_s=0.31)),
    (32, Prior(family=Family.LANGUAGE, gradient_bytes=672e6, compute_s=0.60)),
    (1 << 30, Prior(family=Family.LANGUAGE, gradient_bytes=2.6e9, compute_s=3.0)),
)

_BY_FAMILY = {
    Family.VISION: Prior(family=Family.VISION, gradient_bytes=102e6, compute_s=0.31),
    Family.DETECTION: Prior(family=Family.DETECTION, gradient_bytes=178e6, compute_s=0.30),
    Family.LANGUAGE: Prior(family=Family.LANGUAGE, gradient_bytes=672e6, compute_s=0.60),
    Family.SPEECH: Prior(family=Family.SPEECH, gradient_bytes=152e6, compute_s=0.66),
    Family.RECOMMENDATION: Prior(family=Family.RECOMMENDATION, gradient_bytes=52e6, compute_s=0.12),
    Family.GENERATIVE: Prior(family=Family.GENERATIVE, gradient_bytes=113e6, compute_s=0.23),
    Family.REINFORCEMENT: Prior(family=Family.REINFORCEMENT, gradient_bytes=20e6, compute_s=0.14),
}


def prior_for(ranks: int, gpu_model: str) -> Prior:
    """The prior of a gang of that size."""
    prior = next(prior for ranks_max, prior in _SIZE_CLASSES if ranks <= ranks_max)
    return _on_gpu(prior, gpu_model)


def prior_of_family(family: Family, gpu_model: str) -> Prior:
    """The prior of a family of models."""
    return _on_gpu(_BY_FAMILY[family], gpu_model)


def _on_gpu(prior: Prior, gpu_model: str) -> Prior:
    speed = GPU_SPEED.get(gpu_family(gpu_model), 1.0)
    return Prior(
        family=prior.family,
        gradient_bytes=prior.gradient_bytes,
        compute_s=prior.compute_s / speed,
    )
