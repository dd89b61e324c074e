"""What waiting jobs teach: how long it took until an acceptable offer at a tier came, if it did."""

from dataclasses import dataclass

from scheduler.domain.ids import JobId, LevelName
from scheduler.domain.instants import Duration, Instant


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


def demand_bucket(gpus: int) -> int:
    """`gpus` rounded up to 1, 2, 4, 8, ...; 0 stays 0."""
    return 0 if gpus <= 0 else 1 << (gpus - 1).bit_length()
