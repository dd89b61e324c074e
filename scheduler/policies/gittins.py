"""`gittins-nowait`: the Gittins index learned from ended jobs ranks running and waiting jobs alike.

The first offer is taken. Until enough jobs have ended it is `las`; in a class running gangs stand
before those that wait. `las-nowait-upgrade` is `las` whose gangs move when closer GPUs are free.
"""

from collections.abc import Hashable
from dataclasses import replace

from scheduler.domain.instants import Instant, after
from scheduler.domain.job import Job
from scheduler.domain.knobs import JobOrder
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.policies.interface import Key, Ranks
from scheduler.policies.las import RUNNING, WAITING, ByService
from scheduler.policies.moves import Moves
from scheduler.policies.ordering import GITTINS_CLASSES, LAS_CLASSES
from scheduler.policies.reranked import Reranked, service
from scheduler.policies.sensitive_order import SensitiveOrder


class ByGittins(Reranked):
    """`gittins-nowait`."""

    def __init__(self, snapshot: Snapshot) -> None:
        knobs = replace(snapshot.knobs, order=JobOrder.GITTINS)
        super().__init__(replace(snapshot, knobs=knobs))
        self._order = SensitiveOrder(self.snapshot)

    @property
    def order_version(self) -> Hashable:
        """See Orders."""
        return ("gittins-nowait", self._order.version)

    @property
    def ranks(self) -> Ranks:
        """This policy."""
        return self

    def key(self, job: Job) -> Key:
        """See Orders."""
        place = self._order.standing(job, job.ran_for)
        return (-job.priority, *place, WAITING, job.submitted_at, job.id)

    def rank(self, gang: RunningGang) -> Key:
        """See Ranks."""
        job = gang.job
        place = self._order.standing(job, gang.run_time(self.snapshot.now))
        return (-job.priority, *place, RUNNING, job.submitted_at, job.id)

    def next_decision_at(self) -> Instant | None:
        """When the first running gang leaves its class, if anybody waits."""
        if not self.snapshot.pending:
            return None
        instants = (self._leaves_class_at(gang) for gang in self.snapshot.holding)
        return min((at for at in instants if at is not None), default=None)

    def _leaves_class_at(self, gang: RunningGang) -> Instant | None:
        classes = GITTINS_CLASSES if self._order.is_learned else LAS_CLASSES
        now = self.snapshot.now
        left = classes.leaves_in(service(gang, now), gpus=gang.job.spec.gpus)
        return None if left is None else after(now, left)


class LasUpgrade(ByService):
    """`las-nowait-upgrade`."""

    @property
    def moves(self) -> Moves:
        """Gangs move when closer GPUs are free."""
        return Moves(self.snapshot, SensitiveOrder(self.snapshot))
