"""Which nodes have failed so often that they are left alone for a while.

One failure is a job's own. Two of different jobs on one node within a while are the node's; so are
two of one job where the cluster is to blame. Errors of programs count only across jobs, or one bad
job that is started again would shut node after node.
"""

from collections import defaultdict
from dataclasses import dataclass

from scheduler.domain.failures import BLAME, Blame
from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.job import Outcome

SUSPECT_NODE = "SuspectNode"
GPU_UNHEALTHY = "GpuUnhealthy"

NEVER_THE_NODES = frozenset({Outcome.IMAGE_PULL_FAILED, Outcome.LAUNCH_FAILED, Outcome.NODE_LOST})
"""Of an image, of a command; of a node that is not ready anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspicionRules:
    """When a node is suspect, and for how long."""

    failures_min: int = 2
    window_s: float = 3600.0
    excluded_s: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The first worker of a gang that ended badly by itself."""

    node: NodeName
    job: JobId
    outcome: Outcome
    at_s: float

    @property
    def is_the_clusters(self) -> bool:
        """Whether no program is to blame."""
        return BLAME[self.outcome] is Blame.CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """Why a node is suspect."""

    reason: str
    is_for_programs: bool
    """It would not be, but for failures that may be the programs' own."""


class Suspicions:
    """Failures by node; not safe against threads."""

    def __init__(self, rules: SuspicionRules) -> None:
        self._rules = rules
        self._failures: defaultdict[NodeName, list[Failure]] = defaultdict(list)

    def note(self, failure: Failure) -> Suspicion | None:
        """One more failure; why its node is suspect now, if it is."""
        if failure.outcome in NEVER_THE_NODES or not _is_failure(failure.outcome):
            return None
        since = failure.at_s - self._rules.window_s
        recent = [each for each in self._failures[failure.node] if each.at_s > since]
        recent.append(failure)
        self._failures[failure.node] = recent
        of_cluster = sum(each.is_the_clusters for each in recent)
        jobs = {each.job for each in recent}
        if max(len(jobs), of_cluster) < self._rules.failures_min:
            return None
        del self._failures[failure.node]
        is_gpu = failure.outcome is Outcome.GPU_UNHEALTHY
        return Suspicion(
            reason=GPU_UNHEALTHY if is_gpu else SUSPECT_NODE,
            is_for_programs=of_cluster < self._rules.failures_min,
        )


def _is_failure(outcome: Outcome) -> bool:
    return BLAME[outcome] in (Blame.USER, Blame.CLUSTER)
