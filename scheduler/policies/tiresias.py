"""`tiresias` and `tiresias-gittins`, after J. Gu et al., NSDI 2019: two-dimensional LAS in queues.

Jobs stand in queues by the GPU time they have had, those of the first queue first; in a queue
running gangs before waiting ones, then submission. A job that has waited `promote_after` times as
long as it has run comes back into the first queue, and stays there until it has used up that
queue's GPU time once more. Only models most of which lie in one tensor (`skew_min`) hold out for
their best tier; the others run anywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import replace

from scheduler.domain.instants import Duration, Instant, after, elapsed
from scheduler.domain.job import Job
from scheduler.domain.knobs import JobOrder
from scheduler.domain.placement import Blocked
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.network.tensor_skew import tensor_skew
from scheduler.policies.consolidated import at_best_tier
from scheduler.policies.interface import Key, Offer, Ranks
from scheduler.policies.las import RUNNING, TIRESIAS_CLASSES, WAITING
from scheduler.policies.ordering import GITTINS_CLASSES, LAS_CLASSES, ServiceClasses
from scheduler.policies.reranked import Reranked, next_instant, runs_on
from scheduler.policies.sensitive_order import GRAIN, SensitiveOrder

Place = tuple[float | int, ...]


class TwoDimensional(Reranked, ABC):
    """What both have in common: promotion, and who is consolidated."""

    @property
    def order_version(self) -> Hashable:
        """Waiting jobs are promoted as time passes, seen every few minutes."""
        promotes = self.snapshot.knobs.promote_after > 0
        return (type(self).__name__, self._now // GRAIN if promotes else None, self._learned())

    @property
    def ranks(self) -> Ranks:
        """This policy."""
        return self

    def key(self, job: Job) -> Key:
        """See Orders."""
        promoted = self._is_promoted(job, Instant(self._now // GRAIN * GRAIN))
        place = self._place(job, Duration(0) if promoted else job.ran_for)
        return (-job.priority, *place, WAITING, job.submitted_at, job.id)

    def rank(self, gang: RunningGang) -> Key:
        """See Ranks."""
        job = gang.job
        place = self._place(job, self._counted(gang))
        return (-job.priority, *place, RUNNING, job.submitted_at, job.id)

    def accept(self, job: Job, offer: Offer) -> Blocked | None:
        """Models with a skew at their best tier, the others anywhere."""
        skew = tensor_skew(job.spec.communication)
        if skew is None or skew < self.snapshot.knobs.skew_min:
            return None
        return at_best_tier(job, offer, self.snapshot)

    def next_decision_at(self) -> Instant | None:
        """When jobs are looked at for promotion."""
        if self.snapshot.knobs.promote_after > 0 and any(j.ran_for for j in self.snapshot.pending):
            return Instant((self._now // GRAIN + 1) * GRAIN)
        return None

    @property
    def rank_version(self) -> object:
        """See Ranks: with what is known of past jobs."""
        return (super().rank_version, self._learned())

    def holds_until(self, gang: RunningGang) -> Instant | None:
        """See Ranks: as long as it stays in its queue."""
        return self.changes_at(gang) if runs_on(gang, self._now) else next_instant(self.snapshot)

    def changes_at(self, gang: RunningGang) -> Instant | None:
        """See Ranks: when it leaves its queue."""
        gpus = gang.job.spec.gpus
        left = self._queues().leaves_in(gpus * self._counted(gang), gpus=gpus)
        return None if left is None else after(self._now, left)

    @property
    def _now(self) -> Instant:
        return self.snapshot.now

    def _is_promoted(self, job: Job, at: Instant) -> bool:
        """Whether a job that waits at that instant has waited so much longer than it has run."""
        knob = self.snapshot.knobs.promote_after
        if knob <= 0 or not job.ran_for:
            return False
        return elapsed(job.submitted_at, at) - job.ran_for >= knob * job.ran_for

    def _counted(self, gang: RunningGang) -> Duration:
        """The run time a running gang is placed by: of this run alone if it was promoted to it."""
        total = gang.run_time(self._now)
        placed_at = Instant(gang.attempt.created_at // GRAIN * GRAIN)
        was_promoted = self._is_promoted(gang.job, placed_at)
        return Duration(total - gang.job.ran_for) if was_promoted else total

    @abstractmethod
    def _place(self, job: Job, ran_for: Duration) -> Place:
        """Where a job stands that has run for so long."""

    @abstractmethod
    def _queues(self) -> ServiceClasses:
        """Bounds at which a running gang changes its place."""

    def _learned(self) -> Hashable:
        """Places go together while this is the same."""
        return None


class Tiresias(TwoDimensional):
    """`tiresias`: nothing is known of how long jobs run."""

    def _place(self, job: Job, ran_for: Duration) -> Place:
        return (TIRESIAS_CLASSES.class_of(job.spec.gpus * ran_for),)

    def _queues(self) -> ServiceClasses:
        return TIRESIAS_CLASSES


class TiresiasGittins(TwoDimensional):
    """`tiresias-gittins`: the distribution of service is learned from ended jobs."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(replace(snapshot, knobs=replace(snapshot.knobs, order=JobOrder.GITTINS)))
        self._order = SensitiveOrder(self.snapshot)

    def _place(self, job: Job, ran_for: Duration) -> Place:
        return self._order.standing(job, ran_for)

    def _queues(self) -> ServiceClasses:
        return GITTINS_CLASSES if self._order.is_learned else LAS_CLASSES

    def _learned(self) -> Hashable:
        return self._order.version
