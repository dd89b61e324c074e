"""What ended jobs teach of lengths: a view that is renewed now and then, not with every end."""

from dataclasses import dataclass

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import QueueName
from scheduler.domain.instants import Duration
from scheduler.domain.waits import JobEnd


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class LiveService:
    """What a job that has not ended had run when the view was made: it will need more."""

    queue: QueueName
    gpus: int
    ran_for: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJobs:
    """Ended jobs, and those that live."""

    version: int = 0
    """Equal versions of one scheduler's life have equal content."""
    ends: tuple[JobEnd, ...] = ()
    live: tuple[LiveService, ...] = ()

    def __hash__(self) -> int:
        # What is worked out of a view is looked up by it in every cycle.
        return self.version


NOTHING_PAST = PastJobs()
