"""What policies have in common that rank running gangs with the jobs that wait."""

from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.placement import Blocked
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.policies.interface import Moves, Offer
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

    @property
    def elders(self) -> None:
        """The order is all there is."""
        return None

    @property
    def moves(self) -> Moves | None:
        """Nobody is stopped for proximity."""
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


def service(gang: RunningGang, now: Instant) -> ServiceTime:
    """GPU time a gang's job has had."""
    return gang.job.spec.gpus * gang.run_time(now)


def service_before(job: Job) -> ServiceTime:
    """GPU time a waiting job has had."""
    return job.spec.gpus * job.ran_for
