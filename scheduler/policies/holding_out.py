"""Delay scheduling: what waiting for a closer tier is worth to a job, and how long it holds out.

    rung       node ──T0──▶ rack ──T1──▶ cluster        offered `cluster`: taken when the clock has
    timer      T0           T1           (none)         reached T0 + T1; `rack`: at T0; `node`: now

T is the least of what waiting is worth (L: the time the job would lose one rung down), what past
waits teach, and what it would cost to start one rung down and move later. L = remaining steps x
(step time one rung down - step time here); 0 if the two are too close to tell apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scheduler.domain.ids import GpuModel
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.job import Job
from scheduler.domain.knobs import NetworkMoves, PolicyKnobs, Timers
from scheduler.domain.ladder import Ladder
from scheduler.domain.patience import TierTimer
from scheduler.domain.restarts import checkpoint_interval, restart_cost, saves_when_told
from scheduler.domain.timers import TimerReason
from scheduler.domain.waits import WaitObservation, demand_bucket
from scheduler.network.iteration import TIE_GAP
from scheduler.policies.tuning import TuningRules, tuned_timer

LONGEST = Duration(2**53)
"""285 years: what a sum of timers without an end comes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """What timers are made of."""

    waits: Sequence[WaitObservation]
    now: Instant
    knobs: PolicyKnobs


def tuning_rules(knobs: PolicyKnobs) -> TuningRules:
    """The numbers of the tuner."""
    return TuningRules(
        quantile=knobs.timer_quantile,
        window=knobs.tuner_window,
        half_life=knobs.tuner_half_life,
        newest=knobs.tuner_newest,
        accepted_min=knobs.tuner_accepted_min,
        floor=knobs.timer_floor,
        is_naive=knobs.timers == Timers.NAIVE,
    )


def timers_of(
    job: Job, ladder: Ladder, remaining: Duration, lessons: Lessons
) -> tuple[TierTimer, ...]:
    """Timers of all rungs but the last, closest first."""
    return tuple(_capped(_timers(job, ladder, remaining, lessons), lessons.knobs))


def worth_of_waiting(ladder: Ladder, number: int, remaining: Duration) -> Duration:
    """L: run time lost by taking the next rung down for the rest of the job."""
    gap = ladder.gap(number)
    if gap <= TIE_GAP:
        return Duration(0)
    # Steps left, times what each takes longer.
    longer = gap * ladder.rungs[number].step_s / ladder.best.step_s
    return Duration(min(LONGEST, round(remaining * longer)))


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A timer, and what it stands on."""

    timer: Duration | None
    reason: TimerReason
    samples: int = 0


def _timers(job: Job, ladder: Ladder, remaining: Duration, lessons: Lessons) -> Iterator[TierTimer]:
    for number, rung in enumerate(ladder.rungs[:-1]):
        chosen = _chosen(job, ladder, number, remaining, lessons)
        yield TierTimer(
            level=rung.level,
            gpu_model=rung.gpu_model if ladder.names_models else GpuModel(""),
            timer=chosen.timer,
            samples=chosen.samples,
            reason=chosen.reason,
        )


def _chosen(
    job: Job, ladder: Ladder, number: int, remaining: Duration, lessons: Lessons
) -> _Chosen:
    match lessons.knobs.timers:
        case Timers.FIXED:
            return _Chosen(lessons.knobs.fixed_timer, TimerReason.FIXED)
        case Timers.ZERO:
            return _Chosen(Duration(0), TimerReason.FIXED)
        case Timers.INFINITE:
            return _Chosen(None, TimerReason.FIXED)
        case Timers.VALUE:
            worth = worth_of_waiting(ladder, number, remaining)
            found = _Chosen(worth, TimerReason.WORTH)
        case Timers.TUNED | Timers.NAIVE:
            worth = worth_of_waiting(ladder, number, remaining)
            found = _tuned(job, ladder, number, worth, lessons)
    move = price_of_moving_later(job, ladder, number, lessons.knobs)
    if move is not None and found.timer is not None and move < found.timer:
        return _Chosen(move, TimerReason.MOVING)
    return found


def price_of_moving_later(
    job: Job, ladder: Ladder, number: int, knobs: PolicyKnobs
) -> Duration | None:
    """What it costs to start one rung down and to move up when there is room, in the time of this
    rung; None where the job would not be moved, or loses nothing by staying."""
    if not knobs.moves_cap_timers or knobs.upgrades == NetworkMoves.OFF:
        return None
    if not job.spec.checkpoint.is_declared or ladder.gap(number) <= TIE_GAP:
        return None
    price = restart_cost(job.spec, knobs)
    if not saves_when_told(job.spec):
        # It is stopped between two checkpoints.
        price = Duration(price + checkpoint_interval(job.spec, knobs) // 2)
    return Duration(min(LONGEST, round(price * (1.0 + ladder.gap(number)))))


def _tuned(job: Job, ladder: Ladder, number: int, worth: Duration, lessons: Lessons) -> _Chosen:
    """What past waits teach, and no more than waiting is worth."""
    if not worth:
        return _Chosen(worth, TimerReason.WORTH)
    found = tuned_timer(
        lessons.waits,
        demand=demand_bucket(job.spec.gpus),
        level=ladder.rungs[number].level,
        loss=worth,
        now=lessons.now,
        rules=tuning_rules(lessons.knobs),
    )
    if found is None or found.timer >= worth:
        return _Chosen(worth, TimerReason.WORTH)
    return _Chosen(found.timer, TimerReason.PAST_WAITS, found.samples)


def _capped(timers: Iterator[TierTimer], knobs: PolicyKnobs) -> Iterator[TierTimer]:
    """Their sum is bounded, unless somebody chose the timers."""
    is_free = knobs.timers in {Timers.FIXED, Timers.INFINITE}
    left = knobs.wait_max
    for each in timers:
        if is_free or each.timer is None or each.timer <= left:
            yield each
        else:
            yield replace(each, timer=left, samples=0, reason=TimerReason.LIMIT)
        if each.timer is not None:
            left = Duration(max(0, left - each.timer))


def threshold(timers: Sequence[TierTimer], number: int) -> Duration | None:
    """What the clock has to show before an offer of that rung is taken; None: never."""
    total = 0
    for each in timers[:number]:
        if each.timer is None:
            return None
        total += each.timer
    return Duration(total)


def rung_of_offer(ladder: Ladder, *, number: int, step_s: float, speed_min: float) -> int:
    """The rung an offer counts as, by its speed: from rung `number` on downwards."""
    last = len(ladder.rungs) - 1
    while number < last and step_s * speed_min > ladder.rungs[number].step_s:
        number += 1
    return number
