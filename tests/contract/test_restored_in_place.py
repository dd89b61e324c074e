"""A backup that is put back into the database under a running leader: it notices, and stops
nothing before an admin has said what is to become of the gangs that the backup does not know."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.adapters.sql.connecting import database_file
from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.adapters.sql.opened_file import OpenedFile
from scheduler.domain.errors import StoreReplacedError, StoreRestoredError, StoreUnavailableError
from scheduler.domain.ids import AttemptNumber, JobId
from scheduler.domain.instants import seconds
from scheduler.domain.job import JobPhase
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.stray import StrayReason
from scheduler.ports.cluster import WorkerState
from tests.builders import a_job
from tests.contract.stores import insert
from tests.contract.test_leadership import HandClock, leadership
from tests.databases import Databases, Rows, backup_of, put_back
from tests.worlds import Script, World

NEW = AttemptKey(JobId("id-new"), AttemptNumber(0))


@pytest.fixture
def opened(database_url: str) -> Iterator[SqlStore]:
    """A store on the database."""
    with open_store(database_url) as store:
        yield store


def a_world(url: str, store: SqlStore, *, new_runs: bool = True) -> tuple[World, Rows]:
    """`large` waits, as the backup knows; `new` is launched after the backup was taken."""
    script = Script(WorkerScript() if new_runs else WorkerScript(start_after=seconds(3_600)))
    world = World("r1: 8", script=script, store=store)
    world.submit(a_job("large", gpus=64))
    world.ticks()
    backup = backup_of(url)
    world.submit(a_job("new"))
    world.ticks()
    return world, backup


def new_of(world: World) -> set[WorkerState]:
    view = world.cluster.observe()
    return {report.state for report in view.workers if report.attempt == NEW}


@pytest.mark.parametrize(
    ("new_runs", "state"),
    [
        pytest.param(True, WorkerState.RUNNING, id="what runs"),
        pytest.param(False, WorkerState.MADE, id="what is only made"),
    ],
)
def test_a_leader_under_whom_a_backup_is_put_back_goes_into_safe_mode(
    database_url: str, opened: SqlStore, state: WorkerState, *, new_runs: bool
) -> None:
    world, backup = a_world(database_url, opened, new_runs=new_runs)
    put_back(database_url, backup)
    world.run(seconds(2))
    (stray,) = opened.strays()
    assert (stray.attempt, stray.reason) == (NEW, StrayReason.NEWER_TERM)
    assert world.named_events("SafeModeEntered")
    assert len(world.sink.named("store_restored")) == 1
    world.submit(a_job("later"))
    world.run(seconds(120))
    assert world.phase("later") is JobPhase.PENDING
    assert new_of(world) == {state}, "nothing is stopped"


def test_it_is_noticed_although_as_much_was_written_since(
    database_url: str, opened: SqlStore
) -> None:
    world, backup = a_world(database_url, opened)
    world.run(seconds(10))
    known = opened.sequence()
    put_back(database_url, backup)
    number = 0
    while opened.sequence() <= known:
        number += 1
        insert(opened, a_job(f"z{number}", gpus=64))
    world.run(seconds(3))
    assert [stray.attempt for stray in opened.strays()] == [NEW]
    assert world.named_events("SafeModeEntered")


def test_a_backup_that_lacks_nothing_is_put_back_and_the_work_goes_on(
    database_url: str, opened: SqlStore
) -> None:
    world = World("r1: 8", store=opened)
    world.submit(a_job("a", gpus=4))
    world.run(seconds(10))
    backup = backup_of(database_url)
    world.run(seconds(20))
    put_back(database_url, backup)
    world.submit(a_job("b", gpus=4))
    world.run(seconds(10))
    assert world.sink.named("store_restored")
    assert opened.strays() == ()
    assert [world.phase(name) for name in ("a", "b")] == [JobPhase.RUNNING] * 2
    assert world.job("a").attempts == 1


def test_a_leader_learns_at_its_next_renewal_that_renewals_are_gone(
    database_url: str, opened: SqlStore
) -> None:
    clock = HandClock()
    ada = leadership(opened, "ada", clock)
    assert ada.lead() == 1
    backup = backup_of(database_url)
    clock.now_s += 3
    assert ada.lead() == 1
    put_back(database_url, backup)
    clock.now_s += 3
    with pytest.raises(StoreRestoredError):
        ada.lead()
    clock.now_s += 3
    assert ada.lead() == 1, "its term goes on"


def test_a_file_that_nobody_can_look_at_is_looked_at_again(
    databases: Databases, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.symlink_to(tmp_path / "real")
    real = database_file(databases.new("sqlite"))
    assert real is not None
    (tmp_path / "real").mkdir()
    real.rename(tmp_path / "real" / "dally.db")
    opened = OpenedFile(folder / "dally.db")
    folder.unlink()
    folder.symlink_to(folder)  # a loop: neither there nor not there
    with pytest.raises(StoreUnavailableError):
        opened.check()
    folder.unlink()
    folder.symlink_to(tmp_path / "real")
    opened.check()


def test_another_file_in_the_place_of_the_database_is_no_database_of_ours(
    databases: Databases,
) -> None:
    url, other = databases.new("sqlite"), databases.new("sqlite")
    clock = HandClock()
    with open_store(url) as store:
        path, another = database_file(url), database_file(other)
        assert path is not None
        assert another is not None
        ada = leadership(store, "ada", clock)
        assert ada.lead() == 1
        another.rename(path)
        clock.now_s += 3
        with pytest.raises(StoreReplacedError):
            ada.lead()
        path.unlink()
        with pytest.raises(StoreReplacedError):
            ada.lead()
