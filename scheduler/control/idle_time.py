"""GPU time that jobs leave idle because they hold out for closer GPUs, and what that is to save.

A free GPU is charged to the first job in the policy's order that declined it, and to one alone.
What a wait is predicted to save is what its job would have lost by taking the offer that it
declined; it counts as saved when the job starts somewhere closer.
"""

from collections import Counter
from dataclasses import dataclass

from scheduler.control.live_jobs import LiveJobs
from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import Instant, elapsed, in_seconds
from scheduler.domain.placement import WaitingForCloserTier
from scheduler.engine.decision import Decision
from scheduler.engine.standing import Standing
from scheduler.ports.event_sink import EventSink


@dataclass(frozen=True, slots=True)
class _Declined:
    """A job that holds out."""

    queue: QueueName
    gpus: int
    blocked: WaitingForCloserTier

    @property
    def saves(self) -> float:
        """Predicted GPU-seconds."""
        return self.gpus * in_seconds(self.blocked.saves)


class IdleByChoice:
    """Counts as time passes; owned by the loop."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._declined: dict[JobId, _Declined] = {}
        self._idle: Counter[QueueName] = Counter()
        self._counted_until: Instant | None = None
        self._told: dict[QueueName, tuple[int, float]] = {}
        self._seen: Decision | None = None

    def forget(self) -> None:
        """A term begins or ends: nothing is idle that we know of."""
        self._declined.clear()
        self._idle.clear()
        self._counted_until = None
        self._told.clear()
        self._seen = None

    def pass_time(self, now: Instant) -> None:
        """Charge the time since the last call to the queues whose jobs leave GPUs idle."""
        since = now if self._counted_until is None else self._counted_until
        self._counted_until = now
        if not self._idle:
            return
        passed = in_seconds(elapsed(since, now))
        for queue, gpus in sorted(self._idle.items()):
            if passed and gpus:
                self._sink.emit("idled", {"queue": queue, "gpu_s": gpus * passed})

    def look_at(self, decision: Decision, live: LiveJobs, standing: Standing) -> None:
        """Who holds out from now on, and who has got what they held out for; once a decision."""
        if decision is self._seen:
            return
        self._seen = decision
        if not (self._declined or self._told or decision.blocked):
            return
        for start in decision.plan.start:
            former = self._declined.get(start.job_id)
            is_closer = former and start.placement.tier_name != former.blocked.offered_level
            if former and is_closer and start.job_id in live.attempts:
                self._sink.emit("wait_paid", {"queue": former.queue, "gpu_s": former.saves})
        self._declined = {
            job_id: _Declined(job.spec.queue, job.spec.gpus, blocked)
            for job_id, blocked in decision.blocked.items()
            if isinstance(blocked, WaitingForCloserTier) and (job := live.pending.get(job_id))
        }
        if self._declined:
            self._count(sum(left for left in standing.free.gpus if left > 0))
        elif self._told:
            self._count(0)

    def _count(self, gpus_free: int) -> None:
        self._idle.clear()
        expected: dict[QueueName, float] = {}
        for each in self._declined.values():
            idle = min(gpus_free, each.gpus)
            gpus_free -= idle
            self._idle[each.queue] += idle
            expected[each.queue] = expected.get(each.queue, 0.0) + each.saves
        told = {queue: (self._idle[queue], expected[queue]) for queue in expected}
        for queue in sorted(told.keys() | self._told.keys()):
            gpus, saves = told.get(queue, (0, 0.0))
            if self._told.get(queue) != (gpus, saves):
                self._sink.emit("holding_out", {"queue": queue, "gpus": gpus, "saves_gpu_s": saves})
        self._told = told
