"""A store that was restored from a backup: nothing is started or stopped before an admin has said
what is to become of the gangs it does not know."""

from copy import deepcopy
from dataclasses import replace

import pytest

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.errors import NotFoundError, StoreUnavailableError
from scheduler.domain.ids import AttemptNumber, Epoch, JobId, Sequence
from scheduler.domain.instants import seconds
from scheduler.domain.job import JobPhase, Outcome
from scheduler.domain.placement import StoreOutdated
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.stray import AdoptionProblem, StrayOrder, StrayReason
from scheduler.ports.cluster import WorkerState
from scheduler.ports.unit import DeleteJob, OrderStray, Unit
from tests.builders import a_job
from tests.gangs import an_order
from tests.worlds import Script, World, runs


def backup_of(world: World) -> MemoryStore:
    """What a backup taken now holds."""
    assert isinstance(world.store, MemoryStore)
    copied = MemoryStore()
    copied._tables = deepcopy(world.store._tables)  # as the file is copied
    return copied


def restore(world: World, backup: MemoryStore) -> None:
    """A server comes up on the backup, beside the cluster as it is."""
    world.store = backup
    world.restart()
    world.ticks()


def a_world_with_a_job_submitted_after_its_backup(
    cluster: str = "r1: 8", *, script: Script | None = None
) -> World:
    """`old` waits in the backup and still waits; `new` runs, and the backup has not heard of it."""
    world = World(cluster, script=script or Script())
    world.submit(a_job("large", gpus=64))
    world.ticks()
    backup = backup_of(world)
    world.submit(a_job("new"))
    world.ticks()
    assert world.phase("new") is JobPhase.RUNNING
    restore(world, backup)
    return world


def key_of(name: str, number: int = 0) -> AttemptKey:
    return AttemptKey(JobId(f"id-{name}"), AttemptNumber(number))


def order(world: World, key: AttemptKey, wanted: StrayOrder) -> None:
    world.store.write(Unit(changes=(OrderStray(attempt=key, order=wanted),)))
    world.ticks()


def states(world: World) -> dict[AttemptKey, set[WorkerState]]:
    found: dict[AttemptKey, set[WorkerState]] = {}
    for report in world.cluster.observe().workers:
        found.setdefault(report.attempt, set()).add(report.state)
    return found


def test_a_gang_of_a_later_job_shows_that_the_store_is_older() -> None:
    world = a_world_with_a_job_submitted_after_its_backup()
    (stray,) = world.store.strays()
    assert (stray.attempt, stray.name) == (key_of("new"), "new")
    assert stray.shows_an_older_store
    assert world.named_events("SafeModeEntered")


def test_a_gang_of_a_later_job_that_begins_to_run_after_the_restore_shows_it_then() -> None:
    world = World("r1: 8", script=Script(WorkerScript(start_after=seconds(30))))
    world.ticks()
    backup = backup_of(world)
    world.submit(a_job("new"))
    world.ticks()
    assert states(world) == {key_of("new"): {WorkerState.MADE}}
    restore(world, backup)
    assert world.store.strays() == ()
    world.run(seconds(31))
    assert [stray.attempt for stray in world.store.strays()] == [key_of("new")]
    assert world.named_events("SafeModeEntered")


def test_in_safe_mode_nothing_is_started_and_every_wait_says_so() -> None:
    world = a_world_with_a_job_submitted_after_its_backup("r1: 8 8")
    world.submit(a_job("later"))
    world.run(seconds(600))
    assert world.phase("later") is JobPhase.PENDING
    answer = world.store.answer(JobId("id-later"))
    assert answer is not None
    assert isinstance(answer.blocked, StoreOutdated)
    assert states(world) == {key_of("new"): {WorkerState.RUNNING}}


def test_in_safe_mode_nothing_is_stopped_not_even_what_only_waits() -> None:
    world = a_world_with_a_job_submitted_after_its_backup()
    waiting = an_order(job="aa", nodes={"r1-n0": 1}, gpus_per_worker=0)
    world.cluster.prepare(waiting)
    world.run(seconds(600))
    assert states(world)[waiting.attempt] == {WorkerState.MADE}


def test_an_adopted_gang_runs_on_and_ends_as_its_own_job() -> None:
    world = a_world_with_a_job_submitted_after_its_backup(script=Script(runs(1000)))
    order(world, key_of("new"), StrayOrder.ADOPT)
    assert world.store.strays() == ()
    assert world.phase("new") is JobPhase.RUNNING
    world.run(seconds(1000))
    assert world.phase("new") is JobPhase.SUCCEEDED
    assert world.store.reservations() == ()
    assert world.named_events("SafeModeLeft")


def test_the_gpus_of_an_adopted_gang_are_not_given_away() -> None:
    world = a_world_with_a_job_submitted_after_its_backup()
    order(world, key_of("new"), StrayOrder.ADOPT)
    world.submit(a_job("later"))
    world.ticks()
    assert world.phase("later") is JobPhase.PENDING
    assert sum(held.gpus for held in world.store.reservations()) == 8


def test_a_released_gang_runs_on_and_is_nobodys() -> None:
    world = a_world_with_a_job_submitted_after_its_backup()
    order(world, key_of("new"), StrayOrder.RELEASE)
    world.run(seconds(5))
    assert world.store.strays() == ()
    assert states(world) == {}
    assert world.cluster.runs_of(JobId("id-new")) == 1
    with pytest.raises(NotFoundError):
        world.job("new")
    assert world.named_events("SafeModeLeft")


def test_a_job_that_the_backup_saw_waiting_is_adopted_with_its_later_attempt() -> None:
    world = World("r1: 8")
    world.submit(a_job("a"))
    backup = backup_of(world)
    world.ticks()
    restore(world, backup)
    assert [stray.attempt for stray in world.store.strays()] == [key_of("a")]
    assert world.phase("a") is JobPhase.PENDING
    order(world, key_of("a"), StrayOrder.ADOPT)
    assert world.phase("a") is JobPhase.RUNNING
    assert world.job("a").attempts == 1


def test_a_gang_made_in_a_later_term_is_known_by_that_alone() -> None:
    world = World("r1: 8")
    world.submit(a_job("zz"))
    world.run(seconds(1))
    late = replace(an_order(job="aa", nodes={"r1-n0": 1}, gpus_per_worker=0), epoch=Epoch(7))
    world.cluster.prepare(late)
    world.restart()
    world.ticks()
    (stray,) = world.store.strays()
    assert (stray.reason, stray.workers_alive) == (StrayReason.NEWER_TERM, 1)


def test_a_gang_that_is_merely_unknown_is_listed_and_halts_nothing() -> None:
    world = World("r1: 8 8")
    world.submit(a_job("zz"))
    world.ticks()
    older = replace(an_order(job="aa", nodes={"r1-n1": 1}), epoch=Epoch(1))
    world.cluster.prepare(older)
    world.cluster.release(older.attempt)
    world.submit(a_job("later", gpus=7), a_job("one-more", gpus=1))
    world.ticks()
    assert [stray.reason for stray in world.store.strays()] == [StrayReason.UNKNOWN]
    assert world.phase("later") is JobPhase.RUNNING
    assert world.phase("one-more") is JobPhase.PENDING, "what strays hold is not free"
    assert not world.named_events("SafeModeEntered")


@pytest.mark.parametrize(
    ("is_running", "tells_orders"),
    [
        pytest.param(False, True, id="it waits"),
        pytest.param(False, False, id="it waits, and nobody says yet by which order"),
        pytest.param(True, False, id="it runs, and nobody says yet by which order"),
    ],
)
def test_what_an_unknown_gang_was_made_with_is_held_from_the_first_look(
    *, is_running: bool, tells_orders: bool
) -> None:
    world = World("r1: 8")
    world.submit(a_job("zz", gpus=1))
    world.ticks()
    world.cluster.tells_orders = tells_orders
    unknown = replace(an_order(job="aa", nodes={"r1-n0": 1}, gpus_per_worker=7), epoch=Epoch(1))
    world.cluster.prepare(unknown)
    if is_running:
        world.cluster.release(unknown.attempt)
    world.submit(a_job("later", gpus=1))
    world.ticks()
    assert world.phase("later") is JobPhase.PENDING


def test_what_an_unknown_gang_that_never_ran_held_is_free_once_it_is_swept() -> None:
    world = World("r1: 8")
    world.submit(a_job("zz", gpus=1))
    world.ticks()
    unknown = replace(an_order(job="aa", nodes={"r1-n0": 1}, gpus_per_worker=7), epoch=Epoch(1))
    world.cluster.prepare(unknown)
    world.submit(a_job("later", gpus=7))
    world.run(seconds(59))
    assert world.phase("later") is JobPhase.PENDING
    world.run(seconds(60))
    assert world.phase("later") is JobPhase.RUNNING


def test_a_name_that_is_taken_is_said_and_asked_for_again() -> None:
    world = a_world_with_a_job_submitted_after_its_backup()
    taken = replace(a_job("new"), id=JobId("id-another"))
    world.submit(taken)
    order(world, key_of("new"), StrayOrder.ADOPT)
    assert [stray.problem for stray in world.store.strays()] == [AdoptionProblem.NAME_TAKEN]
    order(world, key_of("new"), StrayOrder.RELEASE)
    world.run(seconds(5))
    assert world.store.strays() == ()


def test_another_server_finds_safe_mode_as_it_was() -> None:
    world = a_world_with_a_job_submitted_after_its_backup()
    (before,) = world.store.strays()
    world.run(seconds(60))
    world.restart()
    world.ticks()
    assert world.store.strays() == (before,)


def test_an_attempt_that_only_the_backup_knows_ends_where_a_later_one_is_adopted() -> None:
    world = World("r1: 8")
    world.submit(a_job("a"))
    world.ticks()
    backup = backup_of(world)
    world.cluster.lose_worker(key_of("a"), 0)
    world.run(seconds(60))
    assert world.job("a").attempts == 2
    restore(world, backup)
    order(world, key_of("a", 1), StrayOrder.ADOPT)
    outcomes = [(attempt.number, attempt.outcome) for attempt in world.attempts("a")]
    assert outcomes == [(0, Outcome.WORKER_LOST), (1, None)]
    assert world.phase("a") is JobPhase.RUNNING
    assert {held.attempt for held in world.store.reservations()} == {key_of("a", 1)}


def test_a_job_deleted_while_its_ended_gang_is_still_reported_shows_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World("r1: 8", script=Script(runs(10)))
    world.submit(a_job("kept", gpus=64), a_job("gone"))
    # Its log is being copied, or the cluster is slow to let go.
    monkeypatch.setattr(world.cluster, "forget", lambda _attempt: None)
    world.run(seconds(20))
    gone = world.job("gone")
    assert gone.phase is JobPhase.SUCCEEDED
    world.store.write(
        Unit(
            changes=(
                DeleteJob(job_id=gone.id, expected_revision=gone.revision, at=world.clock.now()),
            )
        )
    )
    with monkeypatch.context() as away:
        away.setattr(world.store, "sequence", refuse)
        world.ticks()
    world.run(seconds(5))
    assert world.sink.named("store_unavailable")
    assert states(world) == {key_of("gone"): {WorkerState.ENDED}}
    assert world.store.strays() == ()


def refuse() -> Sequence:
    """A database that does not answer."""
    raise StoreUnavailableError("it is away")
