"""One gang of the fake cluster: its workers, and the release that waits for the last of them."""

from dataclasses import dataclass

from scheduler.adapters.memory.workers import ScriptedWorker
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import GangOrder, WorkerReport


@dataclass(slots=True, kw_only=True)
class ScriptedGang:
    """The workers of one attempt; mutable, owned by MemoryCluster."""

    attempt: AttemptKey
    workers: list[ScriptedWorker]
    order: GangOrder
    release_asked_at: Instant | None = None
    """Set from the request until the gang runs or can not run any more."""

    def next_change_after(self, now: Instant) -> Instant | None:
        """When one of its workers changes next if nobody does anything; None for never."""
        changes = (worker.next_change_after(now) for worker in self.workers)
        return min((at for at in changes if at is not None), default=None)

    def is_made_at(self, now: Instant) -> bool:
        """Whether every worker is made, or has got further than that."""
        return all(worker.state_at(now) is not None for worker in self.workers)

    def is_over_at(self, now: Instant) -> bool:
        """Whether every worker has reached its last state."""
        return all(worker.is_over_at(now) for worker in self.workers)

    def runs_at(self, now: Instant) -> bool:
        """Whether user code of one of its workers runs."""
        return any(w.has_run_at(now) and not w.is_over_at(now) for w in self.workers)

    def reports_at(self, now: Instant) -> tuple[WorkerReport, ...]:
        """The reports of the workers that are made."""
        reports = (worker.report_at(now) for worker in self.workers)
        return tuple(report for report in reports if report is not None)

    def ask_release(self, now: Instant) -> None:
        """Note that it may run, unless it does or was ended before it could."""
        if not any(w.started_at is not None or w.end is not None for w in self.workers):
            self.release_asked_at = self.release_asked_at or now

    def settle(self, now: Instant) -> None:
        """If it may run, let it run from the instant at which its last worker was made."""
        made_at = [worker.made_at for worker in self.workers if worker.made_at is not None]
        if self.release_asked_at is None or len(made_at) < len(self.workers):
            return
        release_at = max(self.release_asked_at, *made_at)
        if release_at > now:
            return
        self.release_asked_at = None
        if not any(worker.is_over_at(release_at) for worker in self.workers):
            for worker in self.workers:
                worker.release(release_at)

    def stop(self, now: Instant, *, kill_at: Instant) -> None:
        """Signal the workers that still live and kill those left at `kill_at`."""
        self.release_asked_at = None
        for worker in self.workers:
            if not worker.is_over_at(now):
                worker.stop(now, kill_at)
