"""Step times as a test says: what each job loses per level, whatever the network model thinks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.domain.ids import GpuModel
from scheduler.domain.job import Job
from scheduler.domain.ladder import Ladder, Rung
from scheduler.domain.placement import Placement
from scheduler.domain.snapshot import Neighbour, SharedStep
from scheduler.domain.topology import CLUSTER_LEVEL, NODE_LEVEL
from tests.builders import LEVEL_NAMES

COMPUTE_S = 0.1


@dataclass
class SaidStepTimes:
    """Slow-downs by job name and tier (0 is `node`); a placement is as fast as its tier."""

    slowdowns: Mapping[str, Sequence[float]]
    best: int = 1
    """Index of the closest tier that holds the jobs by capacity."""
    levels: Sequence[str] = (NODE_LEVEL, LEVEL_NAMES[0], CLUSTER_LEVEL)
    placements: dict[Placement, float] = field(default_factory=dict)
    """Placements that are slower than their tier, by how much."""
    crowded: Mapping[str, float] = field(default_factory=dict)
    """By job name: how much longer its steps take on links that it shares."""
    usual: Sequence[float] = (1.0, 1.0, 1.0)
    """Slow-downs of jobs of which nothing is known."""
    _kept: dict[str, Ladder] = field(default_factory=dict)

    def ladder(self, job: Job) -> Ladder:
        """See StepTimes."""
        if job.name not in self._kept:
            self._kept[job.name] = self._made(self._slow(job))
        return self._kept[job.name]

    def best_tier(self, job: Job) -> int:
        """See StepTimes."""
        return self.best

    def step_s(self, job: Job, placement: Placement) -> float:
        """See StepTimes."""
        return COMPUTE_S * self._slow(job)[placement.tier] * self.placements.get(placement, 1.0)

    def shared_steps(
        self, job: Job, placement: Placement, beside: tuple[Neighbour, ...]
    ) -> tuple[SharedStep, ...]:
        """See StepTimes."""
        gangs = [(job, placement), *((each.job, each.placement) for each in beside)]
        alone = [(gang.name, self.step_s(gang, place)) for gang, place in gangs]
        return tuple(
            SharedStep(before_s=s, after_s=s * self.crowded.get(name, 1.0)) for name, s in alone
        )

    def prior_ladder(self, job: Job) -> Ladder:
        """See StepTimes."""
        if "" not in self._kept:
            self._kept[""] = self._made(self.usual)
        return self._kept[""]

    def prior_share(self, job: Job) -> float:
        """See StepTimes."""
        return 0.5

    def gpu_model_of(self, placement: Placement) -> GpuModel:
        """See StepTimes."""
        return GpuModel("")

    def _slow(self, job: Job) -> Sequence[float]:
        return self.slowdowns.get(job.name, (1.0,) * len(self.levels))

    def _made(self, slow: Sequence[float]) -> Ladder:
        return Ladder(
            rungs=tuple(
                Rung(
                    tier=tier,
                    level=self.levels[tier],  # type: ignore[arg-type]  # plain text
                    step_s=COMPUTE_S * slow[tier],
                    compute_s=COMPUTE_S,
                )
                for tier in range(self.best, len(slow))
            )
        )
