"""Dally, after arXiv 2401.16492: jobs hold out for closer GPUs as long as that is worth it to them.

Sensitivity to distance decides who waits, where jobs go and who moves; attained service decides the
order. Its variants differ in their knobs alone.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import Duration, Instant, after
from scheduler.domain.job import Job
from scheduler.domain.knobs import JobOrder, PolicyKnobs, Timers, WaitClock
from scheduler.domain.ladder import Ladder
from scheduler.domain.patience import WaitEpisode, waits_observed
from scheduler.domain.placement import Blocked, Placement, WaitingForCloserTier
from scheduler.domain.snapshot import Neighbour, RunningGang, SharedStep, Snapshot
from scheduler.domain.timers import TimerReason
from scheduler.domain.waits import WaitObservation, demand_bucket
from scheduler.network.iteration import TIE_GAP
from scheduler.policies import holding_out
from scheduler.policies.elders import Elders
from scheduler.policies.fifo import STRICT
from scheduler.policies.holding_out import Lessons
from scheduler.policies.interface import Key, Offer, PolicyMaker, Ranks
from scheduler.policies.moves import Moves
from scheduler.policies.remaining import remaining_time
from scheduler.policies.reranked import next_instant, runs_on
from scheduler.policies.sensitive_order import SensitiveOrder

BY_SERVICE = frozenset({JobOrder.GITTINS, JobOrder.LAS, JobOrder.N4})
"""Orders in which gangs fall behind by running, class by class: none stops another in turns."""

LEARNING = frozenset({Timers.TUNED, Timers.NAIVE, Timers.VALUE})
"""Timers that follow from what waiting is worth; the others hold as they are set."""

BEFORE_ALL = Instant(-1)
"""Earlier than any submission."""

Variant = Callable[[PolicyKnobs], PolicyKnobs]

VARIANTS: Mapping[str, Variant] = {
    "dally": lambda knobs: knobs,
    "dally-classic": lambda knobs: replace(knobs, order=JobOrder.N1, clock=WaitClock.PENDING),
    "dally-manual": lambda knobs: replace(knobs, timers=Timers.FIXED),
    "dally-nowait": lambda knobs: replace(knobs, timers=Timers.ZERO),
    "dally-consolidated": lambda knobs: replace(knobs, timers=Timers.INFINITE),
    # The same; who runs it tells it how long jobs run.
    "dally-informed": lambda knobs: knobs,
}


@dataclass(frozen=True, slots=True)
class _Judged:
    """What an offer is to jobs with one ladder."""

    rung: int
    step_s: float
    """On the links as the others leave them."""
    own_s: float = 0.0
    """What of it the gangs on its links cost it."""
    others_lose: float = 0.0
    """Time that they run longer by it, times their GPUs."""
    gangs_beside: int = 0
    """On its links, if it or any of them loses by that."""


class Dally:
    """See Policy and Patience."""

    def __init__(self, snapshot: Snapshot, variant: Variant = VARIANTS["dally"]) -> None:
        knobs = variant(snapshot.knobs)
        self._given = snapshot
        self._variant = variant
        self._in_queue: dict[QueueName, PolicyKnobs] = {}
        self._snapshot = snapshot if knobs is snapshot.knobs else replace(snapshot, knobs=knobs)
        self._order = SensitiveOrder(self._snapshot)
        self._elders = Elders(self._snapshot)
        self._moves = Moves(self._snapshot, self._order)
        self._judged: dict[Offer, list[tuple[Ladder, float, bool, _Judged]]] = {}
        self._episodes: dict[JobId, WaitEpisode] = {}

    @property
    def order_version(self) -> Hashable:
        """See Orders."""
        return self._order.version

    def key(self, job: Job) -> Key:
        """See Orders."""
        return self._order.key(job)

    @property
    def ranks(self) -> Ranks | None:
        """Running gangs are kept, and the few that are stopped are chosen one by one; unless the
        order may stop them."""
        knobs = self._snapshot.knobs
        return self if knobs.order_stops and knobs.order in BY_SERVICE else None

    def rank(self, gang: RunningGang) -> Key:
        """See Ranks: in a class running gangs stand before those that wait."""
        job = gang.job
        head = (-job.priority, *self._order.standing_to_stay(gang))
        return (*head, BEFORE_ALL, job.submitted_at, job.id)

    def may_stop(self, gang: RunningGang) -> bool:
        """See Ranks."""
        return self._moves.may_stop_for_order(gang)

    @property
    def rank_version(self) -> object:
        """See Ranks: the knobs of all queues, and what is known of past jobs."""
        return (Dally, self._snapshot.knobs, self._snapshot.queues, self._order.version)

    def holds_until(self, gang: RunningGang) -> Instant | None:
        """See Ranks: as long as it stays in its class, and no bound on stopping it is over."""
        now = self._snapshot.now
        if not self._order.goes_by_class or not runs_on(gang, now):
            return next_instant(self._snapshot)
        bounds = (self._order.leaves_class_at(gang), self._moves.stop_holds_until(gang))
        return min((at for at in bounds if at is not None), default=None)

    def changes_at(self, gang: RunningGang) -> Instant | None:
        """See Ranks: when it leaves its class, or may be stopped."""
        bounds = (self._order.leaves_class_at(gang), self._moves.settled_at(gang))
        now = self._snapshot.now
        return min((at for at in bounds if at is not None and at > now), default=None)

    def tells_length(self, gang: RunningGang) -> bool:
        """See Ranks."""
        return self._moves.tells_length(gang)

    def ends_soon(self, gang: RunningGang) -> bool:
        """See Ranks."""
        return self._moves.is_near_its_end(gang)

    @property
    def patience(self) -> "Dally":
        """This policy."""
        return self

    @property
    def elders(self) -> Elders:
        """Large gangs hold domains when they have waited long."""
        return self._elders

    @property
    def moves(self) -> Moves:
        """Network-sensitive preemption and upgrades."""
        return self._moves

    def blocks_later(self, job: Job) -> bool:
        """In a queue that is strict for itself; else who waits leaves the GPUs to the others."""
        own = self._knobs_of(job).policy
        return own == STRICT and own != self._given.knobs.policy

    def next_decision_at(self) -> Instant | None:
        """Clocks apart, time alone changes nothing."""
        return None

    def accept(self, job: Job, offer: Offer) -> Blocked | None:
        """Take the best tier, and a wider one when the clock has outlasted the closer ones."""
        ladder = self._ladder(job)
        rung = self._rung(job, ladder, offer)
        if rung == 0:
            return None
        episode = self.episode(job)
        now = self._snapshot.now
        clock = episode.clock_at(now)
        needed = self._needed(job, ladder, offer)
        if needed is not None and clock >= needed:
            return None
        waits_for = min(rung - 1, _waits_for(episode, clock))
        timer = episode.timers[waits_for]
        closer = holding_out.threshold(episode.timers, rung)
        # Where the timers are over, only those on its links keep it; they may also be most of it.
        is_kept_by_links = (
            needed is not None and closer is not None and (clock >= closer or needed > 2 * closer)
        )
        judged = self._judge(job, ladder, offer)
        return WaitingForCloserTier(
            level=timer.level,
            until=None if needed is None else after(now, Duration(needed - clock)),
            timer=needed,
            timer_samples=0 if is_kept_by_links else timer.samples,
            timer_reason=TimerReason.SHARING if is_kept_by_links else timer.reason,
            offered_level=offer.placement.tier_name,
            gpus_free_at_offer=job.spec.gpus,
            domains_at_offer=self._domains(offer.placement, ladder.rungs[waits_for].tier),
            step_slowdown=judged.step_s / ladder.rungs[waits_for].step_s,
            saves=self._saves(job, ladder, waits_for, judged.step_s),
            gangs_beside=judged.gangs_beside,
        )

    # Patience.

    def episode(self, job: Job) -> WaitEpisode:
        """See Patience."""
        found = self._episodes.get(job.id)
        if found is None:
            found = self._episodes[job.id] = self._frozen(job)
        return found

    def runs(self, job: Job, *, is_declined: bool, leaves_idle: bool) -> bool:
        """See Patience."""
        match self._knobs_of(job).clock:
            case WaitClock.IDLE:
                return is_declined and leaves_idle
            case WaitClock.DECLINED:
                return is_declined
            case WaitClock.PENDING:
                return True

    def expires_at(self, job: Job, offer: Offer) -> Instant | None:
        """See Patience."""
        episode = self.episode(job)
        needed = self._needed(job, self._ladder(job), offer)
        if needed is None:
            return None
        now = self._snapshot.now
        return after(now, Duration(max(0, needed - episode.clock_at(now))))

    def lessons(self, job: Job, offer: Offer) -> tuple[WaitObservation, ...]:
        """See Patience."""
        if job.waiting is None or not job.waiting.timers:
            return ()
        return waits_observed(
            job.id,
            demand_bucket(job.spec.gpus),
            job.waiting,
            taken=self._rung(job, self._ladder(job), offer),
            at=self._snapshot.now,
        )

    def _frozen(self, job: Job) -> WaitEpisode:
        """The episode as it is, or one that begins now; its timers are frozen from here on."""
        waiting = job.waiting
        if waiting is not None and waiting.timers:
            return waiting
        now = self._snapshot.now
        if waiting is None:
            waiting = WaitEpisode(began_at=now)
        knobs = self._knobs_of(job)
        if knobs.clock == WaitClock.PENDING:
            waiting = replace(waiting, began_at=job.phase_since, runs_since=job.phase_since)
        ladder = self._ladder(job)
        lessons = Lessons(waits=self._snapshot.past_waits, now=now, knobs=knobs)
        remaining = remaining_time(job, ladder, self._snapshot)
        timers = holding_out.timers_of(job, ladder, remaining, lessons)
        return replace(waiting, timers=timers)

    def _knobs_of(self, job: Job) -> PolicyKnobs:
        """What holds in the job's queue, which may be another variant, or none that waits."""
        queue = job.spec.queue
        found = self._in_queue.get(queue)
        if found is None:
            knobs = self._given.knobs_of(queue)
            variant = VARIANTS.get(knobs.policy, VARIANTS["dally-nowait"])
            found = self._in_queue[queue] = (
                self._variant(knobs) if knobs.policy == self._given.knobs.policy else variant(knobs)
            )
        return found

    def _ladder(self, job: Job) -> Ladder:
        assert self._snapshot.step_times is not None, "the engine brings them"
        return self._snapshot.step_times.ladder(job)

    def _rung(self, job: Job, ladder: Ladder, offer: Offer) -> int:
        """The rung the offer counts as; 0 if there is nothing to wait for."""
        if not ladder.rungs[1:]:
            return 0
        if not ladder.names_models and offer.placement.tier < ladder.best.tier:
            return 0
        return self._judge(job, ladder, offer).rung

    def _needed(self, job: Job, ladder: Ladder, offer: Offer) -> Duration | None:
        """What the clock has to show before an offer is taken; None: it never is."""
        timers = self.episode(job).timers
        needed = holding_out.threshold(timers, self._rung(job, ladder, offer))
        if needed is None:
            return None
        longer = Duration(needed + self._price_of_crowd(job, ladder, offer))
        return max(needed, min(longer, self._knobs_of(job).wait_max))

    def _price_of_crowd(self, job: Job, ladder: Ladder, offer: Offer) -> Duration:
        """What it and the gangs on its links would lose by each other, as time of its GPUs."""
        judged = self._judge(job, ladder, offer)
        if not judged.gangs_beside:
            return Duration(0)
        lost = remaining_time(job, ladder, self._snapshot) * judged.own_s / ladder.best.step_s
        lost += judged.others_lose / job.spec.gpus
        return Duration(min(holding_out.LONGEST, round(self._knobs_of(job).crowding_weight * lost)))

    def _saves(self, job: Job, ladder: Ladder, waits_for: int, offer_s: float) -> Duration:
        """Run time saved by getting the rung instead of the offer, for the rest of the job."""
        remaining = remaining_time(job, ladder, self._snapshot)
        longer = (offer_s - ladder.rungs[waits_for].step_s) / ladder.best.step_s
        return Duration(min(holding_out.LONGEST, round(remaining * max(0.0, longer))))

    def _judge(self, job: Job, ladder: Ladder, offer: Offer) -> _Judged:
        speed_min, counts_crowd = self._knobs_of(job).offer_speed_min, self._counts_crowd(job)
        known = self._judged.setdefault(offer, [])
        for of_ladder, of_speed, with_crowd, judged in known:
            if of_ladder is ladder and of_speed == speed_min and with_crowd is counts_crowd:
                return judged
        judged = self._judged_anew(job, ladder, offer)
        known.append((ladder, speed_min, counts_crowd, judged))
        return judged

    def _judged_anew(self, job: Job, ladder: Ladder, offer: Offer) -> _Judged:
        times, placement = self._snapshot.step_times, offer.placement
        assert times is not None
        model = times.gpu_model_of(placement)
        number = ladder.place_of(placement.tier, model)
        if number is None:
            number = next(
                (n for n, rung in enumerate(ladder.rungs) if rung.tier >= placement.tier),
                len(ladder.rungs) - 1,
            )
        step_s = ladder.rungs[number].step_s if not placement.tier else times.step_s(job, placement)
        rung = holding_out.rung_of_offer(
            ladder, number=number, step_s=step_s, speed_min=self._knobs_of(job).offer_speed_min
        )
        found = _Judged(rung, max(step_s, ladder.rungs[rung].step_s))
        if not rung or not self._counts_crowd(job):
            return found
        beside = offer.beside()
        return self._beside_others(job, offer, found, beside) if beside else found

    def _counts_crowd(self, job: Job) -> bool:
        """Whether the gangs on its links make it hold out longer."""
        knobs = self._knobs_of(job)
        return knobs.crowding_weight > 0 and knobs.timers in LEARNING

    def _beside_others(
        self, job: Job, offer: Offer, alone: _Judged, beside: tuple[Neighbour, ...]
    ) -> _Judged:
        """The same on links that others use; what nobody can tell apart is not counted."""
        times = self._snapshot.step_times
        assert times is not None
        own, *theirs = times.shared_steps(job, offer.placement, beside)
        others = [
            self._loses(gang, step)
            for gang, step in zip(beside, theirs, strict=True)
            if step.longer_s > TIE_GAP * step.before_s
        ]
        own_s = own.longer_s if own.longer_s > TIE_GAP * own.before_s else 0.0
        if not own_s and not others:
            return alone
        return replace(
            alone,
            step_s=alone.step_s + own_s,
            own_s=own_s,
            others_lose=sum(others),
            gangs_beside=len(beside),
        )

    def _loses(self, gang: Neighbour, step: SharedStep) -> float:
        """What a neighbour runs longer by the newcomer, times its GPUs."""
        ladder = self._ladder(gang.job)
        # By capacity it may have no place any more: its nodes were cordoned, say.
        best_s = ladder.best.step_s if ladder.rungs else step.before_s
        remaining = remaining_time(gang.job, ladder, self._snapshot, so_far=gang.ran_for)
        return gang.job.spec.gpus * remaining * step.longer_s / best_s

    def _domains(self, placement: Placement, tier: int) -> int:
        """How many domains of a level the placement touches."""
        tree = self._snapshot.tree
        if tree is None:
            return 0
        homes = tree.domain_of[tier]
        return len({homes[tree.index_of[each.node]] for each in placement.assignments})


def _waits_for(episode: WaitEpisode, clock: Duration) -> int:
    """The widest rung the job would take by now."""
    number = 0
    while number + 1 < len(episode.timers):
        needed = holding_out.threshold(episode.timers, number + 1)
        if needed is None or clock < needed:
            return number
        number += 1
    return number


def dally_named(name: str) -> PolicyMaker:
    """A variant by name."""
    return partial(Dally, variant=VARIANTS[name])
