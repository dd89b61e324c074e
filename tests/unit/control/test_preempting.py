"""Gangs are stopped for a job that ranks before them; it gets their GPUs, and nobody else does."""

from dataclasses import replace

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.explain import explain_eviction
from scheduler.domain.ids import JobId, JobName
from scheduler.domain.instants import seconds
from scheduler.domain.job import Job, JobPhase, Outcome, StopCause
from scheduler.domain.knobs import PolicyKnobs
from scheduler.ports.job_store import EventQuery
from scheduler.ports.unit import SaveJob, Unit
from tests.builders import a_job
from tests.worlds import Script, World, runs

FEWEST_GPUS_FIRST = PolicyKnobs(policy="sjf")
SLOW_TO_LEAVE = WorkerScript(stop_after=seconds(30))


def a_world(*jobs: Job, cluster: str = "r1: 8", script: WorkerScript | None = None) -> World:
    """These jobs have had time to start."""
    world = World(cluster, knobs=FEWEST_GPUS_FIRST, script=Script(script or WorkerScript()))
    world.submit(*jobs)
    world.ticks()
    return world


def test_a_job_that_ranks_before_a_running_one_takes_its_place() -> None:
    world = a_world(a_job("large", gpus=8))
    world.submit(a_job("small", gpus=2))
    world.ticks()
    assert world.phase("small") is JobPhase.RUNNING
    assert world.phase("large") is JobPhase.PENDING
    assert world.attempts("large")[0].outcome is Outcome.PREEMPTED
    assert world.attempts("large")[0].stop_cause is StopCause.PREEMPT


def test_a_stopped_job_comes_back_when_there_is_room_and_counts_what_it_ran() -> None:
    world = a_world(a_job("large", gpus=8))
    world.run(seconds(50))
    world.cluster.script = Script(runs(20))
    world.submit(a_job("small", gpus=2))
    world.run(seconds(25))
    assert world.phase("small") is JobPhase.SUCCEEDED
    assert world.phase("large") is JobPhase.RUNNING
    assert len(world.attempts("large")) == 2
    assert world.job("large").ran_for == pytest.approx(seconds(50), abs=seconds(2))
    assert world.job("large").restarts_user == world.job("large").restarts_infra == 0


def test_what_leaves_is_promised_to_the_job_it_leaves_for() -> None:
    world = a_world(a_job("large", gpus=8), script=SLOW_TO_LEAVE)
    world.submit(a_job("small", gpus=4))
    world.ticks()
    assert world.phase("large") is JobPhase.STOPPING
    assert world.job("small").promised is not None
    # One that would rank even before it, and one that would fit beside it, come too late.
    world.submit(a_job("smaller", gpus=2), a_job("zeroth", gpus=4))
    world.run(seconds(20))
    assert world.phase("smaller") is JobPhase.PENDING
    world.run(seconds(20))
    assert world.phase("small") is JobPhase.RUNNING
    assert world.job("small").promised is None


def test_a_restarted_server_keeps_the_promise() -> None:
    world = a_world(a_job("large", gpus=8), script=SLOW_TO_LEAVE)
    world.submit(a_job("small", gpus=8, priority=1))
    world.ticks()
    assert world.phase("large") is JobPhase.STOPPING
    world.restart()
    world.submit(a_job("late", gpus=1))
    world.run(seconds(40))
    assert world.phase("small") is JobPhase.RUNNING


def test_a_promise_falls_back_when_the_job_it_was_made_to_is_gone() -> None:
    world = a_world(a_job("large", gpus=8), script=SLOW_TO_LEAVE)
    world.submit(a_job("small", gpus=4))
    world.ticks()
    world.cancel("small")
    world.run(seconds(40))
    assert world.phase("small") is JobPhase.CANCELLED
    assert world.phase("large") is JobPhase.RUNNING


def test_a_promise_on_a_lost_node_is_void() -> None:
    world = a_world(
        a_job("one", gpus=8), a_job("two", gpus=8), cluster="r1: 8 8", script=SLOW_TO_LEAVE
    )
    world.submit(a_job("small", gpus=4))
    world.ticks()
    (stopped,) = [n for n in ("one", "two") if world.phase(n) is JobPhase.STOPPING]
    promised = world.job("small").promised
    assert promised is not None
    world.cluster.lose_node(promised.assignments[0].node)
    world.run(seconds(60))
    assert world.phase("small") is JobPhase.RUNNING
    assert world.attempts("small")[-1].placement != promised
    assert world.phase(stopped) is not JobPhase.RUNNING


def a_void_promise() -> World:
    """`wide` was promised both nodes, one is cordoned, and `late` fits on the other."""
    world = a_world(a_job("large", gpus=8), cluster="r1: 8 8", script=SLOW_TO_LEAVE)
    world.submit(a_job("wide", workers=2, gpus=6, priority=1))
    world.ticks()
    promised = world.job("wide").promised
    assert promised is not None
    assert len(promised.assignments) == 2
    left = world.attempts("large")[0].placement.assignments[0].node
    (node,) = [node for node in world.cluster.observe().nodes if node.name == left]
    world.cluster.set_node(replace(node, is_cordoned=True))
    world.submit(a_job("late", gpus=8))
    return world


def test_what_a_void_promise_kept_is_anybodys() -> None:
    world = a_void_promise()
    world.ticks()
    assert world.phase("late") is JobPhase.RUNNING
    assert world.phase("wide") is JobPhase.PENDING
    assert world.job("wide").promised is None


def test_nothing_starts_where_a_promise_could_not_be_withdrawn() -> None:
    world = a_void_promise()
    write = world.store.write
    raced = False

    def racing(unit: Unit) -> object:
        nonlocal raced
        saves = [change.job for change in unit.changes if isinstance(change, SaveJob)]
        if not raced and any(job.name == "wide" and not job.promised for job in saves):
            # Somebody else writes the job first.
            raced = True
            wide = world.job("wide")
            write(Unit(changes=(SaveJob(job=wide, expected_revision=wide.revision),)))
        return write(unit)

    world.store.write = racing  # type: ignore[assignment, method-assign]  # a race on purpose
    world.tick()
    assert raced
    assert world.phase("late") is JobPhase.PENDING
    world.ticks()
    assert world.phase("late") is JobPhase.RUNNING


def test_stops_and_promises_are_written_together_or_not_at_all() -> None:
    world = a_world(a_job("large", gpus=8))
    world.submit(a_job("small", gpus=2))
    write = world.store.write
    raced = False

    def racing(unit: Unit) -> object:
        nonlocal raced
        saves = [change.job for change in unit.changes if isinstance(change, SaveJob)]
        if not raced and any(job.promised for job in saves):
            # Somebody else writes the victim first.
            raced = True
            large = world.job("large")
            write(Unit(changes=(SaveJob(job=large, expected_revision=large.revision),)))
        return write(unit)

    world.store.write = racing  # type: ignore[assignment, method-assign]  # a race on purpose
    world.tick()
    assert raced
    assert world.job("small").promised is None
    assert world.job("large").stop_requested is None
    world.ticks()
    assert world.phase("small") is JobPhase.RUNNING


def test_a_gang_that_is_cancelled_while_it_leaves_stays_cancelled() -> None:
    world = a_world(a_job("large", gpus=8), script=SLOW_TO_LEAVE)
    world.submit(a_job("small", gpus=2))
    world.ticks()
    world.cancel("large")
    world.run(seconds(40))
    assert world.phase("large") is JobPhase.CANCELLED
    assert world.phase("small") is JobPhase.RUNNING


def test_every_eviction_names_for_whom_it_was_in_events_and_in_the_attempt() -> None:
    world = a_world(a_job("large", gpus=8), script=SLOW_TO_LEAVE)
    world.submit(a_job("small", gpus=2))
    world.ticks()
    assert world.job("large").message == "it makes way for small"
    world.run(seconds(40))
    (attempt,) = world.attempts("large")
    assert attempt.message == (
        "stopped to make room for another job; it starts again by itself: it makes way for small"
    )
    events = world.store.events(EventQuery(job_id=JobId("id-large")))
    told = [(event.reason, event.message) for event in events]
    assert ("GangPreempted", "it makes way for small") in told
    assert ("GangStoppedForPreempt", attempt.message) in told


def test_the_price_of_an_eviction_is_said() -> None:
    price = seconds(300)
    assert explain_eviction(StopCause.PREEMPT, price=price, beneficiary=JobName("small")) == (
        "it makes way for small; that costs it about 5 min of run time"
    )
    assert explain_eviction(StopCause.UPGRADE, price=price, beneficiary=None) == (
        "it moves to GPUs that are closer together; that costs it about 5 min of run time"
    )
