"""`themis`, after K. Mahajan et al., NSDI 2020: finish-time fairness by leases.

rho of a job is the time from its submission to its expected end, by the time it would take on GPUs
of its own. GPUs whose lease is over, and free ones, are offered to the worst-off jobs first: to the
1 - f share of all live jobs with the largest rho (`fairness_filter` is f), the largest first; what
they leave goes to the others by submission. A gang keeps its GPUs for a lease (`lease`) at least.

Where the paper asks jobs for bids, remaining times are estimated here as for all policies, and a
gang that has what it asked for always bids the same.
"""

from collections.abc import Hashable, Iterator
from functools import cached_property
from math import ceil, floor

from scheduler.domain.instants import Duration, Instant, after, elapsed
from scheduler.domain.job import Job
from scheduler.domain.ladder import Ladder
from scheduler.domain.snapshot import RunningGang
from scheduler.policies.interface import Key, Ranks
from scheduler.policies.las import RUNNING, WAITING
from scheduler.policies.remaining import remaining_time
from scheduler.policies.reranked import Reranked
from scheduler.policies.sensitive_order import GRAIN

WORST_OFF, OTHERS = 0, 1

BOUNDS_PER_ONE = 20
"""Rho that differ by less than a twentieth are alike."""


class Themis(Reranked):
    """`themis`."""

    @property
    def order_version(self) -> Hashable:
        """All rho change with time, and with what is known of past jobs."""
        return ("themis", self._at, self._bound, self.snapshot.past_jobs.version)

    @property
    def ranks(self) -> Ranks:
        """This policy."""
        return self

    def key(self, job: Job) -> Key:
        """See Orders."""
        return self._standing(job, job.ran_for, WAITING)

    def rank(self, gang: RunningGang) -> Key:
        """See Ranks."""
        return self._standing(gang.job, gang.run_time(self._at), RUNNING)

    def may_stop(self, gang: RunningGang) -> bool:
        """When its lease is over."""
        return self._lease_left(gang) <= 0

    def next_decision_at(self) -> Instant | None:
        """When rho is worked out anew, if anybody waits."""
        return after(self._at, GRAIN) if self.snapshot.pending else None

    @property
    def rank_version(self) -> object:
        """See Ranks."""
        return (super().rank_version, self.order_version)

    def changes_at(self, gang: RunningGang) -> Instant | None:
        """See Ranks: when its lease ends."""
        left = self._lease_left(gang)
        return after(self.snapshot.now, left) if left > 0 else None

    @property
    def _at(self) -> Instant:
        """The instant rho is worked out for."""
        return Instant(self.snapshot.now // GRAIN * GRAIN)

    def _lease_left(self, gang: RunningGang) -> Duration:
        since = gang.attempt.running_since or gang.attempt.created_at
        had = elapsed(since, self.snapshot.now)
        return Duration(self.snapshot.knobs.lease - had)

    def _standing(self, job: Job, ran_for: Duration, state: int) -> Key:
        rho = self._rho(job, ran_for)
        if rho >= self._bound:
            return (-job.priority, WORST_OFF, -rho, state, job.submitted_at, job.id)
        return (-job.priority, OTHERS, 0.0, state, job.submitted_at, job.id)

    @cached_property
    def _bound(self) -> float:
        """The rho from which on a job is among the worst-off."""
        every = sorted(self._every_rho(), reverse=True)
        if not every:
            return 0.0
        share = 1.0 - self.snapshot.knobs.fairness_filter
        # Rounded down, so that the order of the line does not change with every arrival.
        return floor(every[max(1, ceil(share * len(every))) - 1] * BOUNDS_PER_ONE) / BOUNDS_PER_ONE

    def _every_rho(self) -> Iterator[float]:
        for job in self.snapshot.pending:
            yield self._rho(job, job.ran_for)
        for gang in self.snapshot.holding:
            yield self._rho(gang.job, gang.run_time(self._at))

    def _rho(self, job: Job, ran_for: Duration) -> float:
        times = self.snapshot.step_times
        ladder = Ladder() if times is None else times.ladder(job)
        left = remaining_time(job, ladder, self.snapshot, so_far=ran_for)
        alone = max(1, ran_for + left)
        return (max(0, elapsed(job.submitted_at, self._at)) + left) / alone
