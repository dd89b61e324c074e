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
    share_max: float = 0.1
    """At most this share of the nodes (and always one) is left alone for errors of programs."""


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


class Suspicions:
    """Failures by node; not safe against threads."""

    def __init__(self, rules: SuspicionRules) -> None:
        self._rules = rules
        self._failures: defaultdict[NodeName, list[Failure]] = defaultdict(list)
        self._excluded: dict[NodeName, float] = {}
        """Until when a node is left alone."""

    def note(self, failure: Failure, *, nodes: int) -> str:
        """One more failure, in a cluster of so many nodes; the reason to leave the node alone, or
        empty."""
        if failure.outcome in NEVER_THE_NODES or not _is_failure(failure.outcome):
            return ""
        since = failure.at_s - self._rules.window_s
        recent = [each for each in self._failures[failure.node] if each.at_s > since]
        recent.append(failure)
        self._failures[failure.node] = recent
        if not self._is_suspect(recent) or not self._may_exclude(recent, failure.at_s, nodes):
            return ""
        del self._failures[failure.node]
        self._excluded[failure.node] = failure.at_s + self._rules.excluded_s
        return GPU_UNHEALTHY if failure.outcome is Outcome.GPU_UNHEALTHY else SUSPECT_NODE

    def forget(self, node: NodeName) -> None:
        """Somebody has said that it is well."""
        self._failures.pop(node, None)
        self._excluded.pop(node, None)

    def _is_suspect(self, recent: list[Failure]) -> bool:
        jobs = {each.job for each in recent}
        of_cluster = sum(each.is_the_clusters for each in recent)
        return max(len(jobs), of_cluster) >= self._rules.failures_min

    def _may_exclude(self, recent: list[Failure], now_s: float, nodes: int) -> bool:
        if all(each.is_the_clusters for each in recent):
            return True
        excluded = sum(until > now_s for until in self._excluded.values())
        return excluded < max(1, int(nodes * self._rules.share_max))


def _is_failure(outcome: Outcome) -> bool:
    return BLAME[outcome] in (Blame.USER, Blame.CLUSTER)
