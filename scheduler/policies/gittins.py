"""`gittins-nowait`: the Gittins index learned from ended jobs ranks running and waiting jobs alike.

The first offer is taken. Until enough jobs have ended it is `las`; in a class running gangs stand
before those that wait. `las-nowait-upgrade` is `las` whose gangs move when closer GPUs are free.
"""

from collections.abc import Hashable
from dataclasses import replace

from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.knobs import JobOrder
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.policies.interface import Key, Ranks
from scheduler.policies.las import RUNNING, WAITING, ByService
from scheduler.policies.moves import Moves
from scheduler.policies.reranked import Reranked, next_instant, runs_on
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

    @property
    def rank_version(self) -> object:
        """See Ranks: with what is known of past jobs."""
        return (super().rank_version, self._order.version)

    def holds_until(self, gang: RunningGang) -> Instant | None:
        """See Ranks: as long as the gang stays in its class."""
        if not runs_on(gang, self.snapshot.now):
            return next_instant(self.snapshot)
        return self._order.leaves_class_at(gang)

    def changes_at(self, gang: RunningGang) -> Instant | None:
        """See Ranks: when it leaves its class."""
        return self._order.leaves_class_at(gang)


class LasUpgrade(ByService):
    """`las-nowait-upgrade`."""

    @property
    def moves(self) -> Moves:
        """Gangs move when closer GPUs are free."""
        return Moves(self.snapshot, SensitiveOrder(self.snapshot))
