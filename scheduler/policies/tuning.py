"""The auto-tuner: how long a gang of some size had better wait for a tier, learned from past waits.

A timer is the quantile of the waits after which an acceptable offer came, estimated by Kaplan-Meier
(E. L. Kaplan, P. Meier, 1958) over accepted and censored waits, each weighted by its age. Where the
curve never falls to the quantile, offers may never come for some: then the timer is the T that
minimises the expected loss, integral from 0 to T of S(u) du (time spent waiting) + S(T) x L (what
is lost if the wait was in vain).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.domain.ids import LevelName
from scheduler.domain.instants import DAY, HOUR, Duration, Instant, elapsed
from scheduler.domain.waits import WaitObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRules:
    """Numbers of the tuner."""

    quantile: float = 0.9
    """Share of the waits that a timer is to outlast."""
    window: Duration = Duration(7 * DAY)
    half_life: Duration = Duration(24 * HOUR)
    """An observation of this age counts half."""
    newest: int = 100
    """At most so many observations of a kind are looked at."""
    accepted_min: int = 20
    """Fewer uncensored waits than this teach nothing."""
    floor: Duration = Duration(0)
    is_naive: bool = False
    """Mean + one standard deviation of accepted waits: shows the collapse censoring prevents."""

    def __post_init__(self) -> None:
        assert 0 < self.quantile < 1
        assert self.half_life > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedTimer:
    """A timer and what it stands on."""

    timer: Duration
    samples: int
    """Waits it was learned from, censored ones included."""
    accepted: int
    demand: int
    """The demand bucket whose waits these are; smaller than asked where that one had too few."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The survival curve from `at` up to the next step."""

    at: Duration
    survival: float


def tuned_timer(
    waits: Sequence[WaitObservation],
    *,
    demand: int,
    level: LevelName,
    loss: Duration,
    now: Instant,
    rules: TuningRules,
) -> TunedTimer | None:
    """The timer of a gang in a demand bucket for one level; None where too little is known.

    `loss` is L: what the job loses by running one tier wider. Looks at the asked demand first, then
    at smaller and smaller ones.
    """
    buckets = {w.demand for w in waits if w.level == level and w.demand <= demand}
    for bucket in sorted(buckets, reverse=True):
        recent = counted(waits, demand=bucket, level=level, now=now, rules=rules)
        accepted = sum(not wait.is_censored for wait in recent)
        if accepted >= rules.accepted_min:
            timer = _naive(recent) if rules.is_naive else _timer(recent, loss, now, rules)
            return TunedTimer(
                timer=max(timer, rules.floor),
                samples=len(recent),
                accepted=accepted,
                demand=bucket,
            )
    return None


def counted(
    waits: Iterable[WaitObservation],
    *,
    demand: int,
    level: LevelName,
    now: Instant,
    rules: TuningRules,
) -> Sequence[WaitObservation]:
    """The waits of one kind that a timer is learned from, newest first."""
    of_kind = (wait for wait in waits if wait.level == level and wait.demand == demand)
    return _recent(of_kind, now=now, rules=rules)


def _recent(
    waits: Iterable[WaitObservation], *, now: Instant, rules: TuningRules
) -> list[WaitObservation]:
    # An offer taken at once says nothing about how long waiting takes.
    kept = [
        wait
        for wait in waits
        if elapsed(wait.at, now) <= rules.window and (wait.wait > 0 or wait.is_censored)
    ]
    kept.sort(key=lambda wait: (-wait.at, wait.job_id))
    return kept[: rules.newest]


def _timer(
    waits: Sequence[WaitObservation], loss: Duration, now: Instant, rules: TuningRules
) -> Duration:
    curve = survival(waits, now=now, half_life=rules.half_life)
    for step in curve:
        if step.survival <= 1 - rules.quantile:
            return step.at
    longest = max(wait.wait for wait in waits)
    return _cheapest(curve, loss=loss, longest=longest)


def survival(waits: Sequence[WaitObservation], *, now: Instant, half_life: Duration) -> list[_Step]:
    """Kaplan-Meier: S(t) = product over accepted waits t_i <= t of (1 - d_i / n_i), by weight.

    At equal times accepted waits come before censored ones, as usual.
    """
    # Only shares of weights matter. The newest weighs 1: else all may be too light for a float.
    newest = min((elapsed(wait.at, now) for wait in waits), default=Duration(0))
    weighted = sorted(
        (wait.wait, wait.is_censored, 0.5 ** ((elapsed(wait.at, now) - newest) / half_life))
        for wait in waits
    )
    at_risk = sum(weight for _, _, weight in weighted)
    share = 1.0
    curve: list[_Step] = []
    for length, is_censored, weight in weighted:
        if not is_censored:
            share *= max(0.0, 1 - weight / at_risk)
            if curve and curve[-1].at == length:
                curve.pop()
            curve.append(_Step(length, share))
        at_risk = max(at_risk - weight, 1e-12)
    return curve


def _cheapest(curve: list[_Step], *, loss: Duration, longest: Duration) -> Duration:
    """The T <= longest that minimises integral_0^T S(u) du + S(T) x L; the smallest such T.

    Between steps the integral only grows, so the minimum is at 0 or at a step.
    """
    best, best_cost = Duration(0), float(loss)
    area, before, height = 0.0, 0, 1.0
    for step in curve:
        if step.at > longest:
            break
        area += height * (step.at - before)
        before, height = step.at, step.survival
        cost = area + height * loss
        if cost < best_cost:
            best, best_cost = step.at, cost
    return best


def _naive(waits: Sequence[WaitObservation]) -> Duration:
    taken = [wait.wait for wait in waits if not wait.is_censored]
    mean = sum(taken) / len(taken)
    deviation = (sum((wait - mean) ** 2 for wait in taken) / len(taken)) ** 0.5
    return Duration(round(mean + deviation))
