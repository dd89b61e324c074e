"""What a policy answers. It looks at one snapshot, decides nothing alone and holds no state.

The engine asks in this order, once a cycle:
    order()             in which order jobs are considered
    accept(job, offer)  take this placement, or wait (declining never holds up the others)
    blocks_later(job)   whether a job that stays behind holds up those after it
    next_decision_at()  when its answers may change though nothing else happens
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.placement import Blocked, Placement
from scheduler.domain.snapshot import RunningGang, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A placement that is free now: the closest level that holds the gang."""

    placement: Placement


class Policy(Protocol):
    """A policy that looks at one snapshot."""

    def order(self) -> Sequence[Job]:
        """Every pending job once, the first to be considered first. A total order."""
        ...

    def accept(self, job: Job, offer: Offer) -> Blocked | None:
        """None to take the offer; else why the job had better wait."""
        ...

    def blocks_later(self, job: Job) -> bool:
        """Whether nothing of its queue may start past this job while it waits for GPUs."""
        ...

    def victims(self, job: Job) -> Sequence[RunningGang]:
        """Gangs that may be stopped for `job`, the first to be stopped first."""
        ...

    def next_decision_at(self) -> Instant | None:
        """When the answers may change though nothing else happens."""
        ...


PolicyMaker = Callable[[Snapshot], Policy]
"""A policy's class: makes it look at a snapshot."""
