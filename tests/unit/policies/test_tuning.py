"""The auto-tuner: what past waits say about how long the next one is worth."""

import random
from collections.abc import Sequence

import pytest

from scheduler.domain import ids
from scheduler.domain.instants import DAY, HOUR, MINUTE, Duration, Instant
from scheduler.domain.waits import WaitObservation, demand_bucket
from scheduler.policies.tuning import TunedTimer, TuningRules, survival, tuned_timer

RACK = ids.LevelName("rack")
NOW = Instant(30 * DAY)
FOREVER = Duration(365 * DAY)


def waits(
    minutes: Sequence[float],
    *,
    censored: bool = False,
    demand: int = 8,
    age: Duration = Duration(0),
    start: int = 0,
) -> list[WaitObservation]:
    return [
        WaitObservation(
            job_id=ids.JobId(f"j{start + i:04}"),
            demand=demand,
            level=RACK,
            wait=Duration(round(length * MINUTE)),
            is_censored=censored,
            at=Instant(NOW - age),
        )
        for i, length in enumerate(minutes)
    ]


def tuned(
    observed: list[WaitObservation],
    *,
    demand: int = 8,
    loss: Duration = FOREVER,
    rules: TuningRules | None = None,
) -> TunedTimer | None:
    return tuned_timer(
        observed, demand=demand, level=RACK, loss=loss, now=NOW, rules=rules or TuningRules()
    )


def timer_of(
    observed: list[WaitObservation],
    *,
    loss: Duration = FOREVER,
    rules: TuningRules | None = None,
) -> Duration:
    answer = tuned(observed, loss=loss, rules=rules)
    assert answer is not None
    return answer.timer


@pytest.mark.parametrize(("gpus", "bucket"), [(0, 0), (1, 1), (2, 2), (3, 4), (8, 8), (9, 16)])
def test_demand_is_rounded_up_to_a_power_of_two(gpus: int, bucket: int) -> None:
    assert demand_bucket(gpus) == bucket


def test_t9_constant_waits_give_that_wait() -> None:
    assert timer_of(waits([12] * 30)) == 12 * MINUTE


def test_the_timer_outlasts_nine_of_ten_waits() -> None:
    assert timer_of(waits(list(range(1, 101)))) == 90 * MINUTE


def test_fewer_than_twenty_accepted_waits_teach_nothing() -> None:
    assert tuned(waits([5] * 19) + waits([5] * 50, censored=True, start=19)) is None


def test_a_smaller_demand_teaches_where_the_own_one_has_too_few() -> None:
    answer = tuned(waits([5] * 30, demand=4) + waits([50] * 3, demand=8, start=30))
    assert answer == TunedTimer(timer=Duration(5 * MINUTE), samples=30, accepted=30, demand=4)


def test_a_larger_demand_teaches_nothing() -> None:
    assert tuned(waits([5] * 30, demand=16)) is None


def test_waits_taken_at_once_and_waits_older_than_a_week_are_left_out() -> None:
    old = waits([50] * 40, age=Duration(8 * DAY), start=100)
    assert timer_of(waits([0] * 40) + waits([7] * 20, start=40) + old) == 7 * MINUTE


def test_what_happened_lately_counts_more() -> None:
    old = waits([100] * 40, age=Duration(6 * DAY))
    assert timer_of(old + waits([10] * 30, start=40)) == 10 * MINUTE


def test_the_order_of_observations_does_not_matter() -> None:
    observed = waits([3, 9, 27] * 20) + waits([5, 50] * 10, censored=True, start=60)
    shuffled = list(observed)
    random.Random(7).shuffle(shuffled)
    assert tuned(observed) == tuned(shuffled)


def test_censored_waits_lift_the_curve() -> None:
    only_accepted = survival(waits([10] * 10), now=NOW, half_life=Duration(24 * HOUR))
    assert [step.survival for step in only_accepted] == pytest.approx([0.0])
    both = waits([10] * 5) + waits([20] * 5, censored=True, start=5)
    assert [s.survival for s in survival(both, now=NOW, half_life=HOUR)] == pytest.approx([0.5])


@pytest.mark.parametrize("half_lives", [45, 2000])
def test_waits_that_are_all_old_teach_what_they_taught_when_they_were_new(half_lives: int) -> None:
    observed = waits(list(range(1, 101)), age=Duration(half_lives * MINUTE))
    assert timer_of(observed, rules=TuningRules(half_life=MINUTE)) == 90 * MINUTE


def learn_round_by_round(rules: TuningRules, *, rounds: int) -> list[Duration]:
    """Jobs whose offer comes after an exponential time wait at most the timer learned so far."""
    rng = random.Random(5)
    timer = Duration(60 * MINUTE)
    seen: list[WaitObservation] = []
    timers = []
    for number in range(rounds):
        for each in range(50):
            needed = rng.expovariate(1 / 30)
            is_censored = needed * MINUTE > timer
            length = min(needed, timer / MINUTE)
            seen += waits([length], censored=is_censored, start=number * 50 + each)
        timer = timer_of(seen[-100:], rules=rules)
        timers.append(timer)
    return timers


def test_t9_the_naive_tuner_collapses_and_the_default_does_not() -> None:
    naive = learn_round_by_round(TuningRules(is_naive=True, accepted_min=1), rounds=25)
    learned = learn_round_by_round(TuningRules(), rounds=25)
    assert naive[-1] < 10 * MINUTE
    assert min(learned[-5:]) > 30 * MINUTE


def test_t9b_waits_that_are_never_served_leave_the_timer_bounded() -> None:
    served = waits([4, 8, 12, 16, 20] * 17)
    never = waits([600] * 15, censored=True, start=85)
    assert timer_of(served + never, loss=Duration(HOUR)) <= 20 * MINUTE


def test_where_offers_never_come_for_most_a_small_loss_is_taken_at_once() -> None:
    observed = waits([300] * 20) + waits([400] * 60, censored=True, start=20)
    assert timer_of(observed, loss=MINUTE) == 0
