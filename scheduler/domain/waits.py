"""What past jobs teach: how long acceptable offers took to come, and how long jobs ran in all."""

from dataclasses import dataclass

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import JobId, LevelName, QueueName
from scheduler.domain.instants import DAY, Duration, Instant

WAITS_KEPT = 100
"""Observations of one demand bucket and level that are kept, the newest ones."""

WAITS_KEPT_FOR = Duration(7 * DAY)

ENDS_KEPT = 2_000
"""Ends of one queue's jobs that are kept, the newest ones."""

ENDS_KEPT_FOR = Duration(28 * DAY)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class WaitObservation:
    """One wait for one tier by one job.

    Censored ones ended without the offer: the timer expired, the job was cancelled, preempted, lost
    a node, or waits still. Leaving them out would cut the sample off at its own timer.
    """

    job_id: JobId
    demand: int
    """GPUs of the gang, rounded up to a power of two; 0 for gangs without GPUs."""
    level: LevelName
    """Level waited for."""
    wait: Duration
    """Clock spent on this tier alone: what the timers of closer tiers took is subtracted."""
    is_censored: bool
    at: Instant
    """When the wait ended, or now for one that lasts."""

    def __post_init__(self) -> None:
        assert self.wait >= 0, self.job_id


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """The service a job had when it ended; outlives the job, so that deleting one teaches wrong
    orders to nobody."""

    job_id: JobId
    queue: QueueName
    gpus: int
    """GPUs of the gang."""
    ran_for: Duration
    """Run time of all its attempts."""
    is_complete: bool
    """It succeeded: that was all the service it needed. Cancelled and failed ones are censored."""
    at: Instant


def demand_bucket(gpus: int) -> int:
    """`gpus` rounded up to 1, 2, 4, 8, ...; 0 stays 0."""
    return 0 if gpus <= 0 else 1 << (gpus - 1).bit_length()
