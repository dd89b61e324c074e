"""What policies have in common that rank running gangs with the jobs that wait."""

from scheduler.domain.instants import Duration, Instant, after
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

    @property
    def rank_version(self) -> object:
        """See Ranks: the policy and its knobs."""
        return (type(self), self.snapshot.knobs)

    def holds_until(self, gang: RunningGang) -> Instant | None:
        """See Ranks: asked again in each decision."""
        return next_instant(self.snapshot)

    def changes_at(self, gang: RunningGang) -> Instant | None:
        """See Ranks: never."""
        return None

    def tells_length(self, gang: RunningGang) -> bool:
        """See Ranks: who ends soon is stopped like the others."""
        return False

    def ends_soon(self, gang: RunningGang) -> bool:
        """See Ranks."""
        return False


def next_instant(snapshot: Snapshot) -> Instant:
    """What holds until then holds for one decision."""
    return after(snapshot.now, Duration(1))


def runs_on(gang: RunningGang, now: Instant) -> bool:
    """Whether its run time grows with the clock: not while it starts up."""
    since = gang.attempt.running_since
    return since is not None and since <= now


def service(gang: RunningGang, now: Instant) -> ServiceTime:
    """GPU time a gang's job has had."""
    return gang.job.spec.gpus * gang.run_time(now)


def service_before(job: Job) -> ServiceTime:
    """GPU time a waiting job has had."""
    return job.spec.gpus * job.ran_for
