"""Jobs that have waited too long to leave it to the order: they go first, and large ones hold.

Under any order a large gang starves behind a stream of small jobs. One that has not started for
`hold_after` keeps a topology domain free for itself; what is expected to end in time may still
start there. Aging (`aging_after`) puts every such job first, and is off unless chosen. Neither does
anything for a job that has run before and waits again.
"""

from math import ceil

from scheduler.domain.instants import Duration, Instant, after, elapsed
from scheduler.domain.job import Job
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.policies.remaining import remaining_time


class Elders:
    """See interface.Elders."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._knobs = snapshot.knobs

    @property
    def hold_share_max(self) -> float:
        """See interface.Elders."""
        return self._knobs.hold_share_max

    def goes_first_at(self, job: Job) -> Instant | None:
        """See interface.Elders."""
        bounds = [self._knobs.aging_after, self._knobs.hold_after]
        chosen = [bound for bound in bounds if bound > 0]
        return after(job.submitted_at, min(chosen)) if chosen else None

    def may_hold(self, job: Job) -> bool:
        """See interface.Elders."""
        bound = self._knobs.hold_after
        return bound > 0 and elapsed(job.submitted_at, self._snapshot.now) >= bound

    def lasts(self, job: Job) -> Duration:
        """See interface.Elders."""
        return self._remaining(job, job.ran_for)

    def lasts_still(self, gang: RunningGang) -> Duration:
        """See interface.Elders."""
        return self._remaining(gang.job, gang.run_time(self._snapshot.now))

    def _remaining(self, job: Job, so_far: Duration) -> Duration:
        times = self._snapshot.step_times
        assert times is not None, "the engine brings them"
        return remaining_time(job, times.ladder(job), self._snapshot, so_far=so_far)


def is_protected(gang: RunningGang, snapshot: Snapshot) -> bool:
    """Whether a gang that held a domain is not to be stopped yet."""
    return snapshot.now < protected_until(gang, snapshot)


def protected_until(gang: RunningGang, snapshot: Snapshot) -> Instant:
    """The end of that, before all if it never held one: it runs as long as it kept others out, at
    most a share of its wait."""
    job = gang.job
    if job.waiting is None or job.waiting.held is None:
        return Instant(0)
    placed_at = gang.attempt.created_at
    waited = elapsed(job.submitted_at, placed_at)
    share = Duration(ceil(snapshot.knobs.protected_share * waited))
    return after(placed_at, min(share, elapsed(job.waiting.held.since, placed_at)))
