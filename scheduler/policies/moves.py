"""Network-sensitive preemption and upgrades: which gangs may be stopped so that one runs closer.

A waiting job may have gangs stopped for it if it was measured to lose by distance, and if the GPU
time it saves is a multiple of what the victims lose. A running gang moves when a closer place is
free and the rest of its run saves a multiple of a restart. Both are bounded per job, and gentle:
of jobs whose users have not said that they stand it, nobody is stopped.
"""

from collections.abc import Sequence

from scheduler.domain.ids import QueueName
from scheduler.domain.instants import Duration, Instant, after, elapsed
from scheduler.domain.job import Job, JobPhase
from scheduler.domain.knobs import JobOrder, NetworkMoves, PolicyKnobs
from scheduler.domain.placement import Placement
from scheduler.domain.restarts import (
    bears_another,
    bears_another_alike,
    bears_another_in,
    bears_it_again_at,
    bears_it_now,
    is_movable,
    price_of_stop,
    quantum,
    restart_cost,
)
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.network.iteration import TIE_GAP
from scheduler.policies.elders import is_protected, protected_until
from scheduler.policies.holding_out import LONGEST
from scheduler.policies.remaining import remaining_time
from scheduler.policies.sensitive_order import SensitiveOrder


class Moves:
    """See interface.Moves."""

    def __init__(self, snapshot: Snapshot, order: SensitiveOrder) -> None:
        self._snapshot = snapshot
        self._order = order
        self._queue_knobs: dict[QueueName, PolicyKnobs] = {}

    def stake(self, job: Job) -> Duration:
        """See interface.Moves: measured loss by distance, over the rest of the job."""
        if self._knobs(job).preemption == NetworkMoves.OFF:
            return Duration(0)
        measured = self._snapshot.measured and self._snapshot.measured.of(job.id)
        if not measured or measured.best_s <= 0:
            return Duration(0)
        lost = measured.run_s / measured.best_s - 1.0
        if lost <= TIE_GAP:
            return Duration(0)
        held_out = job.waiting.timers if job.waiting is not None else ()
        bound = sum(LONGEST if each.timer is None else each.timer for each in held_out)
        saved = lost * self._remaining(job, job.ran_for)
        return Duration(round(min(saved, bound) if held_out else saved))

    def victims(self, job: Job) -> Sequence[RunningGang]:
        """See interface.Moves."""
        mine = self._order.standing(job, job.ran_for)
        found = [
            (self._order.key_of_running(gang), gang)
            for gang in self._snapshot.holding
            if self._may_stop(gang, job) and self._stands_behind(gang, mine, job)
        ]
        return [gang for _, gang in sorted(found, key=lambda item: item[0])]

    def is_worth(self, job: Job, victims: Sequence[RunningGang]) -> bool:
        """See interface.Moves."""
        price = sum(
            gang.job.spec.gpus * (self.price(gang) + self._wait_again(gang)) for gang in victims
        )
        return job.spec.gpus * self.stake(job) >= self._knobs(job).benefit_min * price

    def may_stop_for_order(self, gang: RunningGang) -> bool:
        """Whether the gang may be stopped now for a job that the order puts before it, unless it is
        near its end."""
        return (
            is_movable(gang.job.spec)
            and self._has_settled(gang)
            and not is_protected(gang, self._snapshot)
        )

    def stop_holds_until(self, gang: RunningGang) -> Instant | None:
        """Up to when that and `settled_at` stay as they are if it runs on; None: for good."""
        job, now, knobs = gang.job, self._snapshot.now, self._knobs(gang.job)
        if not is_movable(job.spec):
            return None
        ran = self._present_run(gang)
        again = bears_it_again_at(job, knobs)
        alike = bears_another_alike(job, gang.run_time(now), ran, knobs)
        bounds = (
            after(now, Duration(quantum(job.spec, knobs) - ran)),
            protected_until(gang, self._snapshot),
            now if again is None else again,
            now if alike is None else after(now, alike),
        )
        return min((at for at in bounds if at > now), default=None)

    def settled_at(self, gang: RunningGang) -> Instant | None:
        """When all bounds on stopping it are over, if it runs on; None: never, or not by time."""
        if not is_movable(gang.job.spec):
            return None
        settles_at = self._settles_at(gang)
        return (
            None if settles_at is None else max(settles_at, protected_until(gang, self._snapshot))
        )

    def _settles_at(self, gang: RunningGang) -> Instant | None:
        """When it will have settled. One that is still starting up does so later than this: then it
        is asked again."""
        job, now, knobs = gang.job, self._snapshot.now, self._knobs(gang.job)
        ran = self._present_run(gang)
        again = bears_it_again_at(job, knobs)
        longer = bears_another_in(job, gang.run_time(now), ran, knobs)
        if again is None or longer is None:
            return None
        settles = Duration(max(0, quantum(job.spec, knobs) - ran, longer))
        return max(after(now, settles), again)

    def next_move_at(self) -> Instant | None:
        """See interface.Moves."""
        settles = [self._settles_at(gang) for gang in self.slow_gangs() if self._moves_at_all(gang)]
        now = self._snapshot.now
        return min((at for at in settles if at is not None and at > now), default=None)

    def price(self, gang: RunningGang) -> Duration:
        """See interface.Moves."""
        return price_of_stop(gang.job.spec, self._present_run(gang), self._knobs(gang.job))

    def upgradable(self) -> Sequence[RunningGang]:
        """See interface.Moves."""
        found = [
            (-self._saving_max(gang), gang.job.id, gang)
            for gang in self.slow_gangs()
            if self._may_move(gang)
        ]
        return [gang for saving, _, gang in sorted(found, key=lambda each: each[:2]) if saving]

    def is_upgrade(self, gang: RunningGang, placement: Placement) -> bool:
        """See interface.Moves."""
        knobs = self._knobs(gang.job)
        saved = self._saving(gang, self._step_s(gang.job, placement))
        return saved >= knobs.benefit_min * self.price(gang)

    def slow_gangs(self) -> Sequence[RunningGang]:
        """See interface.Moves. Few gangs would gain anything at their best tier, whatever the
        hour."""
        times = self._snapshot.step_times
        assert times is not None, "the engine brings them"
        ladder, step_s = times.ladder, times.step_s
        return [
            gang
            for gang in self._snapshot.on_several_nodes
            if (rungs := ladder(gang.job).rungs)
            and step_s(gang.job, gang.attempt.placement) > rungs[0].step_s * (1.0 + TIE_GAP)
        ]

    def _saving_max(self, gang: RunningGang) -> int:
        """Run time saved at the best tier, if that is worth a move at all; else 0."""
        times = self._snapshot.step_times
        assert times is not None, "the engine brings them"
        saved = self._saving(gang, times.ladder(gang.job).best.step_s)
        return saved if saved >= self._knobs(gang.job).benefit_min * self.price(gang) else 0

    def _saving(self, gang: RunningGang, step_s: float) -> int:
        """Run time saved by going on with that step time."""
        times = self._snapshot.step_times
        assert times is not None, "the engine brings them"
        now_s = self._step_s(gang.job, gang.attempt.placement)
        if now_s <= step_s * (1.0 + TIE_GAP):
            return 0
        ran_for = gang.run_time(self._snapshot.now)
        return round(
            self._remaining(gang.job, ran_for)
            * (now_s - step_s)
            / times.ladder(gang.job).best.step_s
        )

    def _step_s(self, job: Job, placement: Placement) -> float:
        times = self._snapshot.step_times
        assert times is not None, "the engine brings them"
        return times.step_s(job, placement)

    def _moves_at_all(self, gang: RunningGang) -> bool:
        """Whether it may move to closer GPUs once it has settled."""
        return self._knobs(gang.job).upgrades != NetworkMoves.OFF and is_movable(gang.job.spec)

    def _may_move(self, gang: RunningGang) -> bool:
        return self._moves_at_all(gang) and self._has_settled(gang)

    def _may_stop(self, gang: RunningGang, job: Job) -> bool:
        victim = gang.job
        if victim.priority > job.priority or not is_movable(victim.spec):
            return False
        if victim.spec.queue != job.spec.queue and not (
            self._knobs(job).preemption == self._knobs(victim).preemption == NetworkMoves.ON
        ):
            return False
        return (
            self._has_settled(gang)
            and not is_protected(gang, self._snapshot)
            and not self.is_near_its_end(gang)
        )

    def _has_settled(self, gang: RunningGang) -> bool:
        """It runs, has done so long enough, and bears being stopped once more."""
        job, now, knobs = gang.job, self._snapshot.now, self._knobs(gang.job)
        return (
            job.phase is JobPhase.RUNNING
            and job.stop_requested is None
            and self._present_run(gang) >= quantum(job.spec, knobs)
            and bears_it_now(job, knobs, now)
            and bears_another(job, gang.run_time(now), self.price(gang), knobs)
        )

    def tells_length(self, gang: RunningGang) -> bool:
        """Whether the job declares its length, or the policy is told."""
        return gang.job.spec.iterations is not None or self._snapshot.lengths is not None

    def is_near_its_end(self, gang: RunningGang) -> bool:
        """It tells its length, and a restart would take longer than what is left."""
        if not self.tells_length(gang):
            return False
        left = self._remaining(gang.job, gang.run_time(self._snapshot.now))
        return left <= self.price(gang) + restart_cost(gang.job.spec, self._knobs(gang.job))

    def _stands_behind(self, gang: RunningGang, mine: tuple[float | int, ...], job: Job) -> bool:
        """Its key is worse: by a class, or by a margin where keys are not classes."""
        knobs = self._knobs(job)
        theirs = self._order.standing(gang.job, gang.run_time(self._snapshot.now))
        if knobs.order in {JobOrder.GITTINS, JobOrder.LAS, JobOrder.N4}:
            return theirs > mine
        return theirs[0] > mine[0] * (1.0 + knobs.preemption_margin)

    def _wait_again(self, gang: RunningGang) -> Duration:
        """How long the victim is expected to wait until it runs again: as it has waited before."""
        job = gang.job
        waited = elapsed(job.submitted_at, job.first_started_at or gang.attempt.created_at)
        return min(waited, self._knobs(job).wait_max)

    def _present_run(self, gang: RunningGang) -> Duration:
        since: Instant | None = gang.attempt.running_since
        return Duration(0) if since is None else elapsed(since, self._snapshot.now)

    def _remaining(self, job: Job, so_far: Duration) -> Duration:
        times = self._snapshot.step_times
        assert times is not None, "the engine brings them"
        return remaining_time(job, times.ladder(job), self._snapshot, so_far=so_far)

    def _knobs(self, job: Job) -> PolicyKnobs:
        queue = job.spec.queue
        found = self._queue_knobs.get(queue)
        if found is None:
            found = self._queue_knobs[queue] = self._snapshot.knobs_of(queue)
        return found
