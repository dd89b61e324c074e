"""What policies have in common that rank running gangs with the jobs that wait."""

from scheduler.domain.instants import Duration, Instant, elapsed
from scheduler.domain.job import Job
from scheduler.domain.placement import Blocked
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.policies.interface import Offer
from scheduler.policies.ordering import ServiceTime


class Reranked:
    """Takes the first offer, holds nobody up, and may stop any gang for a job ranked before it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def accept(self, job: Job, offer: Offer) -> Blocked | None:
        """Take it."""
        return None

    @property
    def patience(self) -> None:
        """Nobody declines."""
        return None

    def blocks_later(self, job: Job) -> bool:
        """Never."""
        return False

    def may_stop(self, gang: RunningGang) -> bool:
        """Always."""
        return True

    def next_decision_at(self) -> Instant | None:
        """Time alone changes nothing."""
        return None


def run_time(gang: RunningGang, now: Instant) -> Duration:
    """How long a gang's job has run in all its attempts."""
    since = gang.attempt.running_since
    running = Duration(0) if since is None else elapsed(since, now)
    return Duration(gang.job.ran_for + running)


def service(gang: RunningGang, now: Instant) -> ServiceTime:
    """GPU time a gang's job has had."""
    return gang.job.spec.gpus * run_time(gang, now)


def service_before(job: Job) -> ServiceTime:
    """GPU time a waiting job has had."""
    return job.spec.gpus * job.ran_for
