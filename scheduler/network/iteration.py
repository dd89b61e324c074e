"""`iteration_time`: one training step of a job at a placement. The module's front door."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.domain.communication import CommunicationProfile, ModelProfile
from scheduler.domain.ids import GpuModel
from scheduler.network.fabric import Fabric
from scheduler.network.profiles import BUILT_IN
from scheduler.network.shape import Shape
from scheduler.network.strategies import StepParts, step_parts
from scheduler.network.transfer import ALONE
from scheduler.network.workload import Workload, resolve

TIE_GAP = 0.05
"""Two predicted times closer than this are equal: the model can not tell them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationTime:
    """One training step."""

    total_s: float
    compute_s: float
    """Computation, pipeline bubbles and waiting for the slowest rank."""
    communication_s: float
    """All communication, hidden or not."""
    exposed_s: float
    """Communication that computation does not hide."""

    @property
    def exposed_share(self) -> float:
        """Share of the step in which nothing is computed for communication's sake."""
        return self.exposed_s / self.total_s if self.total_s else 0.0


def iteration_time(
    profile: CommunicationProfile | None,
    shape: Shape,
    fabric: Fabric,
    shares: tuple[float, ...] = ALONE,
    *,
    gpu_model: GpuModel = GpuModel(""),
    models: Mapping[str, ModelProfile] = BUILT_IN,
    step: int = 0,
) -> IterationTime:
    """The step time of a job with this profile at a placement of this shape.

    `shares[t]` is the part of the links out of each domain of level t that the job gets (as
    `sharing` finds it); with none it has them for itself.
    """
    workload = resolve(profile, ranks=shape.ranks, gpu_model=gpu_model, models=models, step=step)
    return workload_time(workload, shape, fabric, shares, gpu_model=gpu_model)


def workload_time(
    workload: Workload,
    shape: Shape,
    fabric: Fabric,
    shares: tuple[float, ...] = ALONE,
    *,
    gpu_model: GpuModel = GpuModel(""),
) -> IterationTime:
    """The same for a workload that is resolved already."""
    return as_time(step_parts(workload, shape, fabric, fabric.node(gpu_model), shares))


def as_time(parts: StepParts) -> IterationTime:
    """The sums of a step's parts."""
    total_s = parts.total_s
    return IterationTime(
        total_s=total_s,
        compute_s=parts.compute_s,
        communication_s=parts.blocking.total_s + parts.exchange.total_s,
        exposed_s=total_s - parts.compute_s,
    )


def is_tie(one_s: float, other_s: float) -> bool:
    """Whether two predicted times are too close to rank them."""
    return abs(one_s - other_s) <= TIE_GAP * min(one_s, other_s)
