"""The memory store of a run: it tells events as they happen, and counts what becomes of jobs."""

from collections.abc import Callable, Iterable

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.event import Event
from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.instants import Instant, in_seconds
from scheduler.domain.job import Attempt, Job, JobPhase, Outcome
from scheduler.domain.patience import TierTimer, WaitEpisode
from scheduler.ports.unit import SaveAttempt, SaveJob, Unit
from simulator.outcome import FrozenTimer


class SimulatedStore(MemoryStore):
    """A MemoryStore that is watched."""

    def __init__(self, *, log: Callable[[Event], None] | None) -> None:
        super().__init__(keeps_events=False)
        self._log = log
        self._just_ended: list[JobId] = []
        self.ends: dict[JobId, Instant] = {}
        """When each job that has ended did so."""
        self.preemptions: dict[JobId, int] = {}
        self.upgrades: dict[JobId, int] = {}
        self.timers: list[FrozenTimer] = []
        self._frozen: dict[JobId, tuple[TierTimer, ...]] = {}
        """Timers of the episode each job is in."""

    def write(self, unit: Unit) -> Sequence:
        """See JobStore."""
        sequence = super().write(unit)
        for change in unit.changes:
            # No class of changes has another below it.
            if type(change) is SaveJob:
                job = change.job
                if job.waiting is not None and job.phase is JobPhase.PENDING:
                    self._note_timers(job, job.waiting)
                if job.ended_at is not None and job.id not in self.ends:
                    self.ends[job.id] = job.ended_at
                    self._just_ended.append(job.id)
            elif type(change) is SaveAttempt and change.attempt.ended_at is not None:
                self._count(change.attempt)
        if self._log is not None:
            for event in unit.events:
                self._log(event)
        return sequence

    def take_ended(self) -> list[JobId]:
        """Jobs that have ended since the last call."""
        if not self._just_ended:
            return []
        ended, self._just_ended = self._just_ended, []
        return ended

    def _note_timers(self, job: Job, episode: WaitEpisode) -> None:
        """Tell and keep timers that were frozen by this write."""
        if not episode.timers or self._frozen.get(job.id) == episode.timers:
            return
        self._frozen[job.id] = episode.timers
        at = episode.runs_since if episode.runs_since is not None else episode.began_at
        self.timers += [
            FrozenTimer(
                at=at,
                job=job.id,
                gpus=job.spec.gpus,
                level=each.level,
                timer=each.timer,
                samples=each.samples,
            )
            for each in episode.timers
        ]
        if self._log is not None:
            self._log(
                Event(
                    reason="HoldsOut",
                    message=f"declined an offer; holds out for {_in_words(episode.timers)}",
                    at=at,
                    project=job.project,
                    job_id=job.id,
                    job_name=job.name,
                )
            )

    def _count(self, attempt: Attempt) -> None:
        match attempt.outcome:
            case Outcome.PREEMPTED:
                self.preemptions[attempt.job_id] = self.preemptions.get(attempt.job_id, 0) + 1
            case Outcome.UPGRADED:
                self.upgrades[attempt.job_id] = self.upgrades.get(attempt.job_id, 0) + 1
            case _:
                return


def _in_words(timers: Iterable[TierTimer]) -> str:
    return ", ".join(
        f"{each.level} "
        + ("for ever" if each.timer is None else f"{in_seconds(each.timer):,.0f} s")
        + (f" (learned from {each.samples} waits)" if each.samples else "")
        for each in timers
    )
