"""Who waits for closer GPUs, how long, and what the others get meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from scheduler.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant, after
from scheduler.domain.job import CheckpointRequest, Job
from scheduler.domain.knobs import NetworkMoves, PolicyKnobs, Timers, WaitClock
from scheduler.domain.patience import TierTimer, WaitEpisode
from scheduler.domain.placement import WaitingForCloserTier
from scheduler.domain.plan import Plan
from scheduler.domain.snapshot import Snapshot
from scheduler.domain.timers import TimerReason
from scheduler.engine.cycle import decide
from scheduler.engine.invariants import check_plan
from scheduler.policies.dally import VARIANTS
from scheduler.policies.registry import policy_named
from tests.builders import a_job, a_snapshot, at
from tests.step_times import SaidStepTimes

SENSITIVE = (1.0, 1.0, 2.0)
INSENSITIVE = (1.0, 1.0, 1.0)
TWO_RACKS = "r1: 8 8\nr2: 8 8"
HALF_FULL: Sequence[tuple[Job, Mapping[str, int]]] = (
    (a_job("x"), {"r1-n0": 1}),
    (a_job("y"), {"r2-n0": 1}),
)
"""One node of each rack is taken: 16 GPUs are free, across the racks."""


def a_world(
    *pending: Job,
    policy: str = "dally",
    slowdowns: Mapping[str, Sequence[float]] | None = None,
    best: int = 1,
    now: Instant = Instant(0),
    running: Sequence[tuple[Job, Mapping[str, int]]] = HALF_FULL,
    knobs: PolicyKnobs | None = None,
    cluster: str = TWO_RACKS,
) -> Snapshot:
    return replace(
        a_snapshot(
            cluster,
            pending=pending,
            running=running,
            now=now,
            knobs=replace(knobs or PolicyKnobs(), policy=policy),
        ),
        step_times=SaidStepTimes(slowdowns or {"s": SENSITIVE, "s2": SENSITIVE}, best=best),
    )


def planned(snapshot: Snapshot) -> Plan:
    plan = decide(snapshot, policy_named(snapshot.knobs.policy))
    check_plan(snapshot, plan)
    return plan


def started(plan: Plan) -> list[str]:
    return [start.job_id.removeprefix("id-") for start in plan.start]


def episode_of(plan: Plan, job: Job) -> WaitEpisode:
    return next(wait.episode for wait in plan.waits if wait.job_id == job.id)


def waited(job: Job, clock: Duration, *, timer: Duration | None = Duration(10 * MINUTE)) -> Job:
    """A job whose clock stands at that; its timer for a rack is frozen."""
    rack = SaidStepTimes({}).ladder(job).best.level
    timers = (TierTimer(level=rack, timer=timer),)
    return replace(job, waiting=WaitEpisode(began_at=at(0), timers=timers, clock=clock))


def test_a_job_that_loses_nothing_by_distance_is_spread_at_once() -> None:
    assert started(planned(a_world(a_job("i", workers=2)))) == ["i"]


def test_a_sensitive_job_declines_and_its_clock_runs() -> None:
    job = a_job("s", workers=2)
    plan = planned(a_world(job))
    assert started(plan) == []
    episode = episode_of(plan, job)
    assert [(each.level, each.timer) for each in episode.timers] == [("rack", 6 * HOUR)]
    assert episode.runs_since == at(0)
    assert plan.next_wakeup == after(at(0), Duration(6 * HOUR))


def test_why_tells_until_when_for_what_and_what_is_free() -> None:
    job = a_job("s", workers=2)
    plan = planned(a_world(job, now=at(60)))
    assert plan.blocked[job.id] == WaitingForCloserTier(
        level=episode_of(plan, job).timers[0].level,
        until=at(60 + 6 * 3600),
        timer=Duration(6 * HOUR),
        timer_samples=0,
        offered_level=SaidStepTimes({}).ladder(job).rungs[-1].level,
        gpus_free_at_offer=16,
        domains_at_offer=2,
        step_slowdown=2.0,
        saves=Duration(6 * HOUR),
    )


def test_t1_nowait_is_dally_with_all_timers_zero() -> None:
    names = (("s", 2), ("i", 1), ("s2", 2))
    jobs = [a_job(name, workers=w, submitted_at=at(n)) for n, (name, w) in enumerate(names)]
    zero = PolicyKnobs(timers=Timers.ZERO)
    nowait = planned(a_world(*jobs, policy="dally-nowait", now=at(9)))
    assert nowait == planned(a_world(*jobs, knobs=zero, now=at(9)))
    assert started(nowait) == ["s"]


@pytest.mark.parametrize(
    "clock", [Duration(0), Duration(365 * 24 * HOUR)], ids=["at first", "after a year"]
)
def test_t2_with_infinite_timers_no_job_runs_wider_than_its_best_tier(clock: Duration) -> None:
    job = waited(a_job("s", workers=2), clock, timer=None)
    plan = planned(a_world(job, policy="dally-consolidated"))
    assert started(plan) == []
    # Then it may hold a domain; no timer expires.
    assert plan.next_wakeup == at(24 * 3600)
    assert started(planned(a_world(job, policy="dally-consolidated", running=()))) == ["s"]


def test_t3_a_gang_larger_than_a_rack_starts_at_once() -> None:
    job = a_job("s", workers=3)
    assert started(planned(a_world(job, best=2, running=()))) == ["s"]


@pytest.mark.parametrize(
    ("clock", "names"),
    [
        pytest.param(Duration(10 * MINUTE - 1), [], id="a microsecond before the timer"),
        pytest.param(Duration(10 * MINUTE), ["s"], id="at the timer"),
    ],
)
def test_t4_an_offer_is_taken_when_the_clock_reaches_the_timer(
    clock: Duration, names: list[str]
) -> None:
    job = waited(a_job("s", workers=2), clock)
    assert started(planned(a_world(job, policy="dally-manual"))) == names


def test_t5_a_declined_offer_serves_a_later_job_in_the_same_cycle() -> None:
    first = a_job("s", workers=2, submitted_at=at(1))
    later = a_job("i", workers=2, submitted_at=at(2))
    plan = planned(a_world(first, later, now=at(3)))
    assert started(plan) == ["i"]
    assert isinstance(plan.blocked[first.id], WaitingForCloserTier)


def test_waiting_is_free_while_others_take_what_was_declined() -> None:
    first = a_job("s", workers=2, submitted_at=at(1))
    later = a_job("i", workers=2, submitted_at=at(2))
    plan = planned(a_world(first, later, now=at(3)))
    assert episode_of(plan, first).runs_since is None


@pytest.mark.parametrize(
    ("clock", "runs"),
    [(WaitClock.IDLE, False), (WaitClock.DECLINED, True), (WaitClock.PENDING, True)],
)
def test_other_clocks_run_even_when_others_take_what_was_declined(
    clock: WaitClock, *, runs: bool
) -> None:
    first = a_job("s", workers=2, submitted_at=at(1))
    later = a_job("i", workers=2, submitted_at=at(2))
    plan = planned(a_world(first, later, now=at(3), knobs=PolicyKnobs(clock=clock)))
    assert (episode_of(plan, first).runs_since is not None) is runs


def test_a_clock_stops_when_there_is_nothing_to_decline() -> None:
    job = a_job("s", workers=2)
    running = replace(job, waiting=episode_of(planned(a_world(job)), job))
    full = [*HALF_FULL, (a_job("z"), {"r1-n1": 1})]
    episode = episode_of(planned(a_world(running, now=at(60), running=full)), job)
    assert (episode.clock, episode.runs_since) == (Duration(60 * SECOND), None)


def test_t8_without_communication_nobody_waits() -> None:
    jobs = [a_job(f"i{n}", workers=2) for n in range(3)]
    plan = planned(a_world(*jobs))
    assert len(plan.start) == 1
    assert not plan.waits


def test_t11_hours_of_total_shortage_do_not_make_a_job_take_the_first_wide_offer() -> None:
    job = waited(a_job("s", workers=2), Duration(0), timer=Duration(HOUR))
    plan = planned(a_world(job, now=at(5 * 3600)))
    assert started(plan) == []
    pending = PolicyKnobs(clock=WaitClock.PENDING)
    classic = replace(
        job, waiting=replace(job.waiting or WaitEpisode(began_at=at(0)), runs_since=at(0))
    )
    assert started(planned(a_world(classic, now=at(5 * 3600), knobs=pending))) == ["s"]


def test_an_offer_slower_than_its_tier_should_be_counts_as_the_next_wider_one() -> None:
    job = a_job("s", workers=16, gpus=1)
    snapshot = a_world(job, running=(), cluster="r1: 4 4 4 4\nr2: 8 8")
    times = snapshot.step_times
    assert isinstance(times, SaidStepTimes)
    placement = planned(snapshot).start[0].placement
    assert placement.tier == 1
    times.placements[placement] = 1.2
    assert started(planned(snapshot)) == []


def test_timers_are_frozen_for_the_episode() -> None:
    job = waited(a_job("s", workers=2), Duration(0), timer=Duration(MINUTE))
    episode = episode_of(planned(a_world(job)), job)
    assert [each.timer for each in episode.timers] == [MINUTE]


def test_the_timers_of_a_job_add_up_to_a_day_at_most() -> None:
    job = replace(a_job("s", workers=2), ran_for=Duration(1000 * HOUR))
    assert episode_of(planned(a_world(job)), job).timers[0].timer == 24 * HOUR
    knobs = PolicyKnobs(fixed_timer=Duration(100 * HOUR))
    fixed = planned(a_world(job, policy="dally-manual", knobs=knobs))
    assert episode_of(fixed, job).timers[0].timer == 100 * HOUR


def test_a_job_that_starts_teaches_how_long_it_waited_for_its_tier() -> None:
    job = waited(a_job("s", workers=2), Duration(5 * MINUTE))
    plan = planned(a_world(job, running=()))
    assert [(o.level, o.wait, o.is_censored) for o in plan.observations] == [
        ("rack", 5 * MINUTE, False)
    ]


def test_a_job_that_gives_up_teaches_that_its_wait_was_longer_than_its_timer() -> None:
    job = waited(a_job("s", workers=2), Duration(11 * MINUTE))
    plan = planned(a_world(job))
    assert started(plan) == ["s"]
    assert [(o.wait, o.is_censored) for o in plan.observations] == [(10 * MINUTE, True)]


@pytest.mark.parametrize("policy", sorted(VARIANTS))
def test_every_variant_decides_and_keeps_the_promises_of_plans(policy: str) -> None:
    jobs = [a_job("s", workers=2), a_job("i", workers=2), a_job("s2", workers=3)]
    planned(a_world(*jobs, policy=policy))


SAVES = CheckpointRequest(
    path="/ckpt", every=Duration(20 * MINUTE), restart_cost=Duration(MINUTE), is_declared=True
)


@pytest.mark.parametrize(
    ("checkpoint", "knobs", "timer", "reason"),
    [
        pytest.param(
            SAVES, {}, 11 * 2 * MINUTE, TimerReason.MOVING, id="a restart and half an interval, x 2"
        ),
        pytest.param(
            replace(SAVES, warning=Duration(MINUTE)),
            {},
            2 * MINUTE,
            TimerReason.MOVING,
            id="a restart alone where it saves when it is warned",
        ),
        pytest.param(
            replace(SAVES, restart_cost=None, every=None),
            {"restart_cost": Duration(2 * MINUTE), "checkpoint_interval": Duration(4 * MINUTE)},
            8 * MINUTE,
            TimerReason.MOVING,
            id="by the knobs where it does not say",
        ),
        pytest.param(
            CheckpointRequest(), {}, 6 * HOUR, TimerReason.WORTH, id="it can not be moved"
        ),
        pytest.param(
            SAVES, {"upgrades": NetworkMoves.OFF}, 6 * HOUR, TimerReason.WORTH, id="nobody moves"
        ),
        pytest.param(
            SAVES, {"moves_cap_timers": False}, 6 * HOUR, TimerReason.WORTH, id="the knob is off"
        ),
        pytest.param(
            replace(SAVES, restart_cost=Duration(9 * HOUR)),
            {},
            6 * HOUR,
            TimerReason.WORTH,
            id="moving costs more than waiting is worth",
        ),
        pytest.param(
            SAVES,
            {"timers": Timers.FIXED, "fixed_timer": Duration(5 * HOUR)},
            5 * HOUR,
            TimerReason.FIXED,
            id="fixed timers ignore it",
        ),
        pytest.param(
            SAVES, {"timers": Timers.INFINITE}, None, TimerReason.FIXED, id="infinite ones too"
        ),
        pytest.param(
            CheckpointRequest(),
            {"wait_max": Duration(HOUR)},
            HOUR,
            TimerReason.LIMIT,
            id="more than the longest wait",
        ),
    ],
)
def test_what_a_timer_stands_on(
    checkpoint: CheckpointRequest,
    knobs: Mapping[str, object],
    timer: Duration | None,
    reason: TimerReason,
) -> None:
    job = a_job("s", workers=2, checkpoint=checkpoint)
    plan = planned(a_world(job, knobs=replace(PolicyKnobs(), **knobs)))  # type: ignore[arg-type]  # any knob
    (found,) = episode_of(plan, job).timers
    assert (found.timer, found.reason, found.samples) == (timer, reason, 0)
    answer = plan.blocked[job.id]
    assert isinstance(answer, WaitingForCloserTier)
    assert (answer.timer, answer.timer_reason) == (timer, reason)
