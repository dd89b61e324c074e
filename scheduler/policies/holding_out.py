"""Delay scheduling: what waiting for a closer tier is worth to a job, and how long it holds out.

    rung       node ──T0──▶ rack ──T1──▶ cluster        offered `cluster`: taken when the clock has
    timer      T0           T1           (none)         reached T0 + T1; `rack`: at T0; `node`: now

T is the least of what waiting is worth (L: the time the job would lose one rung down) and what past
waits teach. L = remaining steps x (step time one rung down - step time here); 0 if the two are too
close to tell apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.domain.ids import GpuModel
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.job import Job
from scheduler.domain.knobs import PolicyKnobs, Timers
from scheduler.domain.ladder import Ladder
from scheduler.domain.patience import TierTimer
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


def _timers(job: Job, ladder: Ladder, remaining: Duration, lessons: Lessons) -> Iterator[TierTimer]:
    kind = lessons.knobs.timers
    for number, rung in enumerate(ladder.rungs[:-1]):
        timer: Duration | None
        samples = 0
        match kind:
            case Timers.FIXED:
                timer = lessons.knobs.fixed_timer
            case Timers.ZERO:
                timer = Duration(0)
            case Timers.INFINITE:
                timer = None
            case Timers.VALUE:
                timer = worth_of_waiting(ladder, number, remaining)
            case Timers.TUNED | Timers.NAIVE:
                worth = worth_of_waiting(ladder, number, remaining)
                timer, samples = _tuned(job, ladder, number, worth, lessons)
        yield TierTimer(
            level=rung.level,
            gpu_model=rung.gpu_model if ladder.names_models else GpuModel(""),
            timer=timer,
            samples=samples,
        )


def _tuned(
    job: Job, ladder: Ladder, number: int, worth: Duration, lessons: Lessons
) -> tuple[Duration, int]:
    """The timer and the waits it was learned from (0: it is what waiting is worth)."""
    if not worth:
        return worth, 0
    found = tuned_timer(
        lessons.waits,
        demand=demand_bucket(job.spec.gpus),
        level=ladder.rungs[number].level,
        loss=worth,
        now=lessons.now,
        rules=tuning_rules(lessons.knobs),
    )
    if found is None or found.timer >= worth:
        return worth, 0
    return found.timer, found.samples


def _capped(timers: Iterator[TierTimer], knobs: PolicyKnobs) -> Iterator[TierTimer]:
    """Their sum is bounded, unless somebody chose the timers."""
    is_free = knobs.timers in {Timers.FIXED, Timers.INFINITE}
    left = knobs.wait_max
    for each in timers:
        if is_free or each.timer is None or each.timer <= left:
            yield each
        else:
            yield TierTimer(
                level=each.level, gpu_model=each.gpu_model, timer=left, samples=each.samples
            )
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
