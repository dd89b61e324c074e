"""Baselines that run at their best tier or not at all, whatever that costs them in waiting.

`consolidated` goes in submission order and passes over jobs that wait, `fifo-consolidated` not.
`las-consolidated` and `gittins-consolidated` rank running gangs as well. The best tier is that of
the closest level that could hold the gang by capacity.
"""

from scheduler.domain.job import Job
from scheduler.domain.placement import Blocked, WaitingForCloserTier
from scheduler.domain.snapshot import Snapshot
from scheduler.policies.fifo import Fifo
from scheduler.policies.gittins import ByGittins
from scheduler.policies.interface import Offer
from scheduler.policies.las import ByService


def at_best_tier(job: Job, offer: Offer, snapshot: Snapshot) -> Blocked | None:
    """None if the offer is of the job's best tier."""
    times, tree = snapshot.step_times, snapshot.tree
    assert times is not None, "the engine brings them"
    assert tree is not None, "the engine brings it"
    best, placement = times.best_tier(job), offer.placement
    if placement.tier <= best:
        return None
    homes = tree.domain_of[best]
    return WaitingForCloserTier(
        level=tree.levels[best].name,
        until=None,
        timer=None,
        timer_samples=0,
        offered_level=placement.tier_name,
        gpus_free_at_offer=job.spec.gpus,
        domains_at_offer=len({homes[tree.index_of[a.node]] for a in placement.assignments}),
        step_slowdown=_slowdown(job, offer, snapshot),
    )


def _slowdown(job: Job, offer: Offer, snapshot: Snapshot) -> float:
    times = snapshot.step_times
    assert times is not None, "the engine brings them"
    ladder = times.ladder(job)
    if not ladder.rungs:
        return 1.0
    return max(1.0, times.step_s(job, offer.placement) / ladder.best.step_s)


class Consolidated(Fifo):
    """`consolidated`."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._view = snapshot

    def accept(self, job: Job, offer: Offer) -> Blocked | None:
        """At the best tier."""
        return at_best_tier(job, offer, self._view)

    def blocks_later(self, job: Job) -> bool:
        """Never."""
        return False


class StrictlyConsolidated(Consolidated):
    """`fifo-consolidated`."""

    def blocks_later(self, job: Job) -> bool:
        """Whoever waits, for GPUs or for closer ones, holds up those behind."""
        return True


class LasConsolidated(ByService):
    """`las-consolidated`."""

    def accept(self, job: Job, offer: Offer) -> Blocked | None:
        """At the best tier."""
        return at_best_tier(job, offer, self.snapshot)


class GittinsConsolidated(ByGittins):
    """`gittins-consolidated`."""

    def accept(self, job: Job, offer: Offer) -> Blocked | None:
        """At the best tier."""
        return at_best_tier(job, offer, self.snapshot)
