"""The memory store of a run: it tells events as they happen, and counts what becomes of jobs."""

from collections.abc import Callable

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.event import Event
from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.instants import Instant
from scheduler.domain.job import Attempt, Outcome
from scheduler.ports.unit import SaveAttempt, SaveJob, Unit


class SimulatedStore(MemoryStore):
    """A MemoryStore that is watched."""

    def __init__(self, *, log: Callable[[Event], None] | None) -> None:
        super().__init__()
        self._log = log
        self._just_ended: list[JobId] = []
        self.ends: dict[JobId, Instant] = {}
        """When each job that has ended did so."""
        self.preemptions: dict[JobId, int] = {}
        self.upgrades: dict[JobId, int] = {}

    @property
    def jobs_ended(self) -> int:
        """How many jobs have ended."""
        return len(self.ends)

    def write(self, unit: Unit) -> Sequence:
        """See JobStore."""
        sequence = super().write(unit)
        for change in unit.changes:
            if isinstance(change, SaveJob):
                job = change.job
                if job.ended_at is not None and job.id not in self.ends:
                    self.ends[job.id] = job.ended_at
                    self._just_ended.append(job.id)
            elif isinstance(change, SaveAttempt):
                self._count(change.attempt)
        if self._log is not None:
            for event in unit.events:
                self._log(event)
        return sequence

    def take_ended(self) -> list[JobId]:
        """Jobs that have ended since the last call."""
        ended, self._just_ended = self._just_ended, []
        return ended

    def _count(self, attempt: Attempt) -> None:
        if attempt.ended_at is None:
            return
        match attempt.outcome:
            case Outcome.PREEMPTED:
                self.preemptions[attempt.job_id] = self.preemptions.get(attempt.job_id, 0) + 1
            case Outcome.UPGRADED:
                self.upgrades[attempt.job_id] = self.upgrades.get(attempt.job_id, 0) + 1
            case _:
                return
