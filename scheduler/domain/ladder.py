"""The ladder of a job: the tiers it can run at, fastest first, with its step time at each.

With several GPU models a rung is a tier on one of them:

    rung 0  node, H100     0.10 s       the best the cluster could ever offer
    rung 1  rack, H100     0.12 s       a timer says how long to hold out for each rung but the last
    rung 2  node, A100     0.21 s
    rung 3  cluster, H100  0.35 s
"""

from dataclasses import dataclass

from scheduler.domain.ids import GpuModel, LevelName


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One tier (on one GPU model), at its fewest, even nodes."""

    tier: int
    level: LevelName
    gpu_model: GpuModel = GpuModel("")
    step_s: float
    """Never less than that of the rung above: a wider tier is not taken for a faster one."""
    compute_s: float
    """The part of a step that is not exposed communication."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ladder:
    """All rungs of a job, fastest first; empty if nothing is known.

    Alike jobs share one, so that what was worked out for it is found by it (it equals only itself).
    """

    rungs: tuple[Rung, ...] = ()
    names_models: bool = False
    """Whether rungs differ by GPU model as well."""

    @property
    def best(self) -> Rung:
        """The fastest one."""
        return self.rungs[0]

    def gap(self, number: int) -> float:
        """Relative step time lost by going down one rung from this one."""
        return self.rungs[number + 1].step_s / self.rungs[number].step_s - 1.0

    def place_of(self, tier: int, gpu_model: GpuModel) -> int | None:
        """The number of that rung."""
        for number, rung in enumerate(self.rungs):
            if rung.tier == tier and (not self.names_models or rung.gpu_model == gpu_model):
                return number
        return None
