"""What waits and ends teach is written with what ends them, once, whatever happens in between."""

from dataclasses import replace

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.control import commands
from scheduler.control.commands import Requester
from scheduler.domain.ids import JobId, LevelName
from scheduler.domain.instants import MINUTE, Duration, Instant, seconds
from scheduler.domain.job import FailurePolicy
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import WaitingForCloserTier
from scheduler.domain.waits import WaitObservation
from scheduler.ports.job_store import EventQuery
from scheduler.ports.unit import RecordWaits, Unit
from tests.builders import a_job
from tests.worlds import Script, World, runs

MANUAL = PolicyKnobs(policy="dally-manual", fixed_timer=Duration(10 * MINUTE))
WAITS = JobId("id-s")
WAIT_EVENTS = ("OfferDeclined", "TimerExpired")


def a_world_in_which_s_waits() -> World:
    """Sixteen GPUs are free, half of them in each rack, and `s` holds out for one rack."""
    world = World("r1: 8 8\nr2: 8 8", knobs=MANUAL)
    world.submit(a_job("x"), a_job("y"), a_job("z"))
    world.ticks()
    world.submit(a_job("s", workers=2))
    world.cancel("x", at_once=True)
    world.ticks()
    return world


def taught(world: World) -> list[tuple[str, Duration, bool]]:
    """What the store keeps of waits: job, length, and whether it was in vain."""
    return [(wait.job_id, wait.wait, wait.is_censored) for wait in world.store.past_waits()]


def by(world: World) -> Requester:
    """A user, now."""
    return Requester(actor="ada", at=world.clock.now())


def test_a_declined_offer_is_told_at_once_with_its_timer() -> None:
    answer = a_world_in_which_s_waits().store.answer(WAITS)
    assert answer is not None
    assert isinstance(answer.blocked, WaitingForCloserTier)
    assert (answer.blocked.level, answer.blocked.timer) == ("rack", 10 * MINUTE)


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_an_offer_that_comes_in_time_is_learned_with_the_claim(restarts: int) -> None:
    world = a_world_in_which_s_waits()
    for _ in range(restarts):
        world.run(seconds(1))
        world.restart()
    world.run(seconds(100 - restarts))
    world.cancel("z", at_once=True)
    world.ticks()
    world.restart()
    world.ticks()
    assert taught(world) == [("id-s", seconds(100), False)]


def test_giving_up_is_learned_as_a_wait_in_vain() -> None:
    world = a_world_in_which_s_waits()
    world.run(Duration(11 * MINUTE))
    assert world.attempts("s")
    assert taught(world) == [("id-s", 10 * MINUTE, True)]


def test_declining_is_told_once_for_an_episode_and_giving_up_when_it_happens() -> None:
    world = a_world_in_which_s_waits()
    world.run(Duration(11 * MINUTE))
    told = [e for e in world.store.events(EventQuery(job_id=WAITS)) if e.reason in WAIT_EVENTS]
    assert [(event.reason, event.message, event.count) for event in told] == [
        (
            "OfferDeclined",
            "declined free GPUs that lie too far apart: holds out 10 min for one rack",
            1,
        ),
        ("TimerExpired", "held out 10 min for one rack in vain, and takes what is offered", 1),
    ]


def test_offers_declined_in_turns_are_one_event_with_a_count() -> None:
    world = a_world_in_which_s_waits()
    for name in ("t1", "t2"):
        # Others take what it declined, and leave it again.
        world.submit(a_job(name))
        world.run(seconds(10))
        world.cancel(name, at_once=True)
        world.run(seconds(10))
    told = [e for e in world.store.events(EventQuery(job_id=WAITS)) if e.reason in WAIT_EVENTS]
    assert [(event.reason, event.count) for event in told] == [("OfferDeclined", 3)]


def test_a_wait_that_its_user_ends_was_in_vain() -> None:
    world = a_world_in_which_s_waits()
    world.run(seconds(100))
    commands.cancel(world.store, WAITS, by=by(world))
    commands.cancel(world.store, WAITS, by=by(world))
    world.run(seconds(10))
    assert taught(world) == [("id-s", seconds(100), True)]
    assert world.store.ended_jobs() == ()


def test_the_clock_of_a_job_that_is_held_stands_still() -> None:
    world = a_world_in_which_s_waits()
    world.run(seconds(100))
    commands.hold(world.store, WAITS, by=by(world))
    world.run(seconds(1_000))
    commands.release(world.store, WAITS, by=by(world))
    world.run(seconds(50))
    commands.cancel(world.store, WAITS, by=by(world))
    assert taught(world) == [("id-s", seconds(150), True)]


@pytest.mark.parametrize(
    ("exit_code", "is_complete"),
    [pytest.param(0, True, id="succeeded"), pytest.param(1, False, id="failed")],
)
def test_the_end_of_a_job_that_ran_is_learned_once(exit_code: int, *, is_complete: bool) -> None:
    world = World(script=Script(runs(60, exit_code=exit_code)))
    world.submit(a_job("a"))
    world.run(seconds(200))
    world.restart()
    world.run(seconds(10))
    (end,) = world.store.ended_jobs()
    assert (end.job_id, end.queue, end.gpus) == ("id-a", "default", 8)
    assert (end.ran_for, end.at) == (seconds(60), world.job("a").ended_at)
    assert end.is_complete is is_complete


def test_a_restarted_job_has_not_ended() -> None:
    world = World(script=Script(runs(60, exit_code=1), WorkerScript()))
    world.submit(a_job("a", failure_policy=FailurePolicy(restarts_max=1)))
    world.run(seconds(200))
    assert len(world.attempts("a")) == 2
    assert world.store.ended_jobs() == ()


def waits_of_five_minutes(count: int, *, since: Instant) -> RecordWaits:
    """So many jobs of eight GPUs waited five minutes for a rack, and got it."""
    return RecordWaits(
        waits=tuple(
            WaitObservation(
                job_id=JobId(f"w{n}"),
                demand=8,
                level=LevelName("rack"),
                wait=Duration(5 * MINUTE),
                is_censored=False,
                at=Instant(since + n),
            )
            for n in range(count)
        )
    )


def retunings(world: World) -> list[str]:
    """What events of timers say."""
    events = world.store.events(EventQuery())
    return [event.message for event in events if event.reason == "TimersRetuned"]


def test_timers_that_move_are_told_once_by_whomever_the_waits_were_written() -> None:
    world = World(knobs=PolicyKnobs(policy="dally"))
    world.submit(a_job("a"))
    world.ticks()
    world.store.write(Unit(changes=(waits_of_five_minutes(25, since=world.clock.now()),)))
    world.submit(a_job("b"))
    world.run(Duration(2 * MINUTE))
    told = [
        "gangs of up to 8 GPUs wait for one rack 5 min at most, from 25 past waits, 0 of them "
        "in vain"
    ]
    assert retunings(world) == told
    # The same again is no news, and neither is what a server finds when it starts.
    again = replace(waits_of_five_minutes(1, since=world.clock.now()))
    world.store.write(Unit(changes=(again,)))
    world.restart()
    world.run(Duration(3 * MINUTE))
    assert retunings(world) == told
