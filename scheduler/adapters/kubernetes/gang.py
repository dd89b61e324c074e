"""One gang on Kubernetes: what is wanted of it, what is known of it, and so what to do next.

Nothing here talks to the API server: requests and pods change the state, `next_action` reads it.
A pod is made at most once by one adapter; what it was last seen to do is kept when it is gone.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.adapters.kubernetes.objects import Uid
from scheduler.adapters.kubernetes.pods import PodFacts, Problem, never_ran, report_of_gone
from scheduler.domain.ids import Epoch, NodeName, Rank
from scheduler.domain.instants import Instant
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import GangOrder, WorkerReport, WorkerState

NO_NODE = NodeName("")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAnchor:
    """What owns a gang, as it was found on the cluster."""

    uid: Uid
    namespace: str
    order: GangOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeAnchor:
    """Make what owns the rest, and the Service."""

    order: GangOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class MakePods:
    """Make pods, gated."""

    order: GangOrder
    ranks: tuple[Rank, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGates:
    """Let pods run."""

    pods: tuple[PodFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePods:
    """Delete pods, with a grace until an instant."""

    pods: tuple[PodFacts, ...]
    kill_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """Find out by which order it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disown:
    """Let it run on as nobody's."""

    pods: tuple[PodFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo:
    """Remove what is left of a gang that is over."""


Action = MakeAnchor | MakePods | OpenGates | RemovePods | LookUp | Disown | LetGo


@dataclass(slots=True, eq=False)
class KubernetesGang:
    """State of one gang; hold `lock` to touch it."""

    attempt: AttemptKey
    workers: int
    namespace: str
    lock: threading.RLock = field(default_factory=threading.RLock)
    order: GangOrder | None = None
    anchor: Uid | None = None
    is_new: bool = True
    """Whether it was looked up that the attempt is not one that was forgotten."""
    term: Epoch | None = None
    """Leadership term of the last request."""
    is_make_wanted: bool = False
    is_release_wanted: bool = False
    is_forget_wanted: bool = False
    is_disown_wanted: bool = False
    is_order_wanted: bool = False
    """Somebody asks by which order it was made."""
    kill_at: Instant | None = None
    """Set once it is to stop."""
    pods: dict[Rank, PodFacts] = field(default_factory=dict)
    made: set[Rank] = field(default_factory=set)
    """Ranks that have or had a pod."""
    last: dict[Rank, WorkerReport] = field(default_factory=dict)
    """The first last words of workers: they hold for ever."""
    doomed: dict[Rank, Problem] = field(default_factory=dict)
    """Workers whose pods are removed because they can not run."""
    asked_to_end: dict[Uid, Instant] = field(default_factory=dict)
    """By when a pod was last told to be gone."""
    is_released: bool = False
    """Whether a gate of it was ever opened."""

    # What is wanted

    def want_made(self, order: GangOrder) -> None:
        """Have it made."""
        self.order = self.order or order
        self.is_make_wanted = True

    def want_stopped(self, kill_at: Instant) -> None:
        """Have it end; the earliest instant holds."""
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)

    # What is known

    def note_pod(self, facts: PodFacts) -> None:
        """A pod is there."""
        self.made.add(facts.rank)
        self.pods[facts.rank] = facts
        self.workers = max(self.workers, facts.workers)
        self.is_released = self.is_released or not facts.is_gated
        if facts.is_over:
            self.last.setdefault(facts.rank, facts.report)

    def note_gone(self, facts: PodFacts) -> None:
        """A pod is not there any more."""
        known = self.pods.get(facts.rank)
        if known is None or known.uid != facts.uid:
            return
        del self.pods[facts.rank]
        self.asked_to_end.pop(facts.uid, None)
        problem = self.doomed.get(facts.rank)
        report = report_of_gone(facts, was_asked_to_stop=self.kill_at is not None)
        if problem is not None and report.state is not WorkerState.ENDED:
            report = refused(report, problem.outcome, problem.message)
        self.last.setdefault(facts.rank, report)

    def refuse(self, rank: Rank, node: NodeName, outcome: Outcome, message: str) -> None:
        """A pod can not be made."""
        base = WorkerReport(attempt=self.attempt, rank=rank, node=node, state=WorkerState.REFUSED)
        self.last.setdefault(rank, refused(base, outcome, message))

    def reports(self) -> tuple[WorkerReport | None, ...]:
        """What is told of the workers, by rank; None for those that are not made."""
        return tuple(self._report(Rank(rank)) for rank in range(self.workers))

    def is_down(self) -> bool:
        """Whether nothing of it lives or may come to live."""
        return all(report is not None and is_last(report) for report in self.reports())

    def _is_over(self) -> bool:
        """Whether nothing of it lives, and nothing more is made. A server that came after the end
        may never have seen a worker whose pod was gone by then."""
        return self.is_down() or not (self.live_pods() or self.is_in_making())

    def is_well(self) -> bool:
        """Whether no worker has ended otherwise than it should."""
        return all(report.outcome is Outcome.COMPLETED for report in self.last.values())

    def is_in_making(self) -> bool:
        """Whether workers of it are still to be made."""
        is_whole = len(self.made | self.last.keys()) >= self.workers
        return self.is_make_wanted and self.kill_at is None and not is_whole

    def live_pods(self) -> list[PodFacts]:
        """Pods whose workers have not ended, by rank."""
        return [facts for _, facts in sorted(self.pods.items()) if not facts.is_over]

    def _report(self, rank: Rank) -> WorkerReport | None:
        if rank in self.last:
            return self.last[rank]
        if rank in self.pods:
            return self.pods[rank].report
        if self.kill_at is None:
            return None
        base = WorkerReport(
            attempt=self.attempt, rank=rank, node=self._node(rank), state=WorkerState.MADE
        )
        return never_ran(base)

    def _node(self, rank: Rank) -> NodeName:
        return NO_NODE if self.order is None else self.order.reservations[rank].node

    # What to do

    def next_action(self, is_lasting: Callable[[PodFacts], bool], now: Instant) -> Action | None:
        """The next step towards what is wanted; None when there is nothing to do."""
        if self.is_disown_wanted:
            return Disown(pods=tuple(facts for _, facts in sorted(self.pods.items())))
        if self.is_order_wanted and self.order is None:
            return LookUp()
        if self.kill_at is not None:
            pods = tuple(facts for facts in self.live_pods() if self._must_ask(facts, self.kill_at))
            if pods:
                return RemovePods(pods=pods, kill_at=self.kill_at)
        if self.is_forget_wanted and self._is_over():
            return LetGo()
        if self.kill_at is not None:
            return None
        return self._doom(is_lasting, now) or self._make() or self._release()

    def _must_ask(self, facts: PodFacts, kill_at: Instant) -> bool:
        asked = self.asked_to_end.get(facts.uid)
        return asked is None or kill_at < asked

    def _doom(self, is_lasting: Callable[[PodFacts], bool], now: Instant) -> RemovePods | None:
        for facts in self.live_pods():
            if facts.problem is not None and is_lasting(facts):
                self.doomed.setdefault(facts.rank, facts.problem)
        pods = tuple(
            facts
            for facts in self.live_pods()
            if facts.rank in self.doomed and facts.uid not in self.asked_to_end
        )
        return RemovePods(pods=pods, kill_at=now) if pods else None

    def _make(self) -> MakeAnchor | MakePods | None:
        if not self.is_make_wanted or self.order is None:
            return None
        ranks = (held.rank for held in self.order.reservations)
        missing = tuple(r for r in ranks if r not in self.made and r not in self.last)
        if not missing:
            return None
        if self.anchor is None:
            return MakeAnchor(order=self.order)
        return MakePods(order=self.order, ranks=missing)

    def _release(self) -> OpenGates | None:
        """All or none: before the first gate opens every worker is there and well."""
        if not self.is_release_wanted or len(self.made) < self.workers:
            return None
        lost = (WorkerState.GONE, WorkerState.REFUSED)
        if self.doomed or any(report.state in lost for report in self.last.values()):
            return None
        if self.last and not self.is_released:
            return None
        gated = tuple(facts for facts in self.live_pods() if facts.is_gated)
        return OpenGates(pods=gated) if gated else None


def refused(report: WorkerReport, outcome: Outcome, message: str) -> WorkerReport:
    """The report of a worker that could not be made, or could not be let run."""
    return WorkerReport(
        attempt=report.attempt,
        rank=report.rank,
        node=report.node,
        state=WorkerState.REFUSED,
        outcome=outcome,
        message=message,
        epoch=report.epoch,
    )


def is_last(report: WorkerReport) -> bool:
    """Whether nothing follows this report."""
    return report.state in (WorkerState.ENDED, WorkerState.GONE, WorkerState.REFUSED)
