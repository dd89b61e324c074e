"""How long the keeper of gangs waits before it believes the worst."""

from dataclasses import dataclass

from scheduler.adapters.kubernetes.pods import Problem
from scheduler.domain.job import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperTimes:
    """How patient the keeper is."""

    unschedulable_s: float = 30.0
    """kube-scheduler may say Unschedulable for a moment, e.g. while another pod is leaving."""
    image_s: float = 90.0
    """Registries fail for a moment."""
    start_s: float = 30.0
    """Any other reason why a container is not made."""
    excluded_s: float = 300.0
    """How long a node that did not take a pod of ours is not used."""
    retry_s_min: float = 0.2
    retry_s_max: float = 30.0

    def patience_s(self, problem: Problem) -> float | None:
        """How long a problem may last; None for ever."""
        return {
            Outcome.ADMISSION_REJECTED: self.unschedulable_s,
            Outcome.IMAGE_PULL_FAILED: self.image_s,
            Outcome.LAUNCH_FAILED: self.start_s,
        }.get(problem.outcome)
