"""`tiresias` and `tiresias-gittins`, after J. Gu et al., NSDI 2019: two-dimensional LAS in queues.

Jobs stand in queues by the GPU time they have had, those of the first queue first; in a queue
running gangs before waiting ones, then submission. A job that has waited `promote_after` times as
long as it has run comes back into the first queue, and stays there until it has used up that
queue's GPU time once more. Only models most of which lie in one tensor (`skew_min`) hold out for
their best tier; the others run anywhere.
"""

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
from scheduler.policies.reranked import Reranked, next_instant, runs_on
from scheduler.policies.sensitive_order import GRAIN, SensitiveOrder

Place = tuple[float | int, ...]


class TwoDimensional(Reranked):
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
        counted = Duration(0) if promoted else job.ran_for
        place = self._place_in_queue(job, counted)
        return (-job.priority, _queue(job, counted), WAITING, *place, job.submitted_at, job.id)

    def rank(self, gang: RunningGang) -> Key:
        """See Ranks."""
        job = gang.job
        queue = _queue(job, self._counted(gang))
        return (-job.priority, queue, RUNNING, job.submitted_at, job.id)

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

    def holds_until(self, gang: RunningGang) -> Instant | None:
        """See Ranks: as long as it stays in its queue."""
        return self.changes_at(gang) if runs_on(gang, self._now) else next_instant(self.snapshot)

    def changes_at(self, gang: RunningGang) -> Instant | None:
        """See Ranks: when it leaves its queue."""
        gpus = gang.job.spec.gpus
        left = TIRESIAS_CLASSES.leaves_in(gpus * self._counted(gang), gpus=gpus)
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

    def _place_in_queue(self, job: Job, ran_for: Duration) -> Place:
        """Where a job that waits stands in its queue, before its submission counts."""
        return ()

    def _learned(self) -> Hashable:
        """Places go together while this is the same."""
        return None


class Tiresias(TwoDimensional):
    """`tiresias`: nothing is known of how long jobs run."""


class TiresiasGittins(TwoDimensional):
    """`tiresias-gittins`: in a queue those that wait go by a distribution learned from ended jobs.

    Of gangs that run the queue alone counts: the index falls from class to class of service, and
    by it gangs that were promoted together would stop each other after seconds.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(replace(snapshot, knobs=replace(snapshot.knobs, order=JobOrder.GITTINS)))
        self._order = SensitiveOrder(self.snapshot)

    def _place_in_queue(self, job: Job, ran_for: Duration) -> Place:
        return self._order.standing(job, ran_for)

    def _learned(self) -> Hashable:
        return self._order.version


def _queue(job: Job, ran_for: Duration) -> int:
    """The queue of a job that counts as having run for so long."""
    return TIRESIAS_CLASSES.class_of(job.spec.gpus * ran_for)
