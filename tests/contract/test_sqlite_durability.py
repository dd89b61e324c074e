"""SQLite: what is acknowledged is on disk, one server owns the file, and a full disk passes."""

import os
import random
import shutil
import signal
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import exc

from scheduler.adapters.sql.connecting import (
    assert_durable,
    database_file,
)
from scheduler.adapters.sql.file_lock import FileLock, lock_file
from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.adapters.sql.migrating import upgrade
from scheduler.domain.errors import AlreadyServingError, StoreUnavailableError
from scheduler.ports.job_store import JobQuery
from scheduler.ports.kill_points import KillPoint
from tests.builders import a_job
from tests.contract.ledgers import Load
from tests.contract.sqlite_faults import (
    LosesSync,
    a_full_database,
    no_file_may_grow,
    over_a_disk_that_loses_syncs,
)
from tests.contract.stores import insert
from tests.databases import Databases
from tests.proof import times

TURNS = times(ci=1, proof=20)
CLONES = times(ci=50, proof=100)
"""Of each turn: its database grows, and every copy is read whole."""


@pytest.fixture
def url(databases: Databases) -> str:
    """A new SQLite database."""
    return databases.new("sqlite")


@pytest.fixture
def path(url: str) -> Path:
    """Its file."""
    found = database_file(url)
    assert found is not None
    return found


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    """A store in it."""
    with open_store(url) as made:
        yield made


def test_the_writer_syncs_every_commit(store: SqlStore) -> None:
    with store._engines.writer.connect() as connection:
        told = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert told == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 30_000,
    }


@pytest.mark.parametrize(
    "pragma",
    [
        pytest.param("PRAGMA synchronous = NORMAL", id="syncs only checkpoints"),
        pytest.param("PRAGMA journal_mode = MEMORY", id="no log on disk"),
    ],
)
def test_a_connection_that_is_not_durable_is_refused(tmp_path: Path, pragma: str) -> None:
    connection = sqlite3.connect(tmp_path / "some.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    assert_durable(connection)
    connection.execute(pragma)
    with pytest.raises(StoreUnavailableError, match="not durable"):
        assert_durable(connection)
    connection.close()


def test_readers_can_not_write(store: SqlStore) -> None:
    with (
        store._engines.readers.connect() as connection,
        pytest.raises(exc.OperationalError, match="readonly"),
    ):
        connection.exec_driver_sql("DELETE FROM jobs")


def test_only_the_owner_may_read_the_database(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    upgrade(f"sqlite:///{path}")
    with open_store(f"sqlite:///{path}") as store:
        insert(store, a_job("a"))
        for file in tmp_path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


# One server.


def test_a_second_server_is_refused_by_the_name_of_the_first(url: str) -> None:
    with Load(url) as load:
        load.read_until_acked(1)
        with pytest.raises(AlreadyServingError, match=f"process {load.process.pid} already"):
            open_store(url)
        with pytest.raises(AlreadyServingError, match=f"process {load.process.pid} already"):
            upgrade(url)
    open_store(url).close()


def test_a_command_beside_the_server_reads_and_writes(url: str, store: SqlStore) -> None:
    with open_store(url, is_server=False) as beside:
        insert(beside, a_job("a"))
        insert(store, a_job("b"))
        insert(beside, a_job("c"))
        assert [job.name for job in store.jobs(JobQuery()).jobs] == ["a", "b", "c"]
        assert store.sequence() == beside.sequence() == 3


@pytest.mark.parametrize(
    ("file", "told"),
    [
        pytest.param("none/dally.db", "No such file or directory", id="no folder"),
        pytest.param("folder", "Is a directory", id="a folder in its place"),
        pytest.param("text/dally.db", "Not a directory", id="below a file"),
        pytest.param("text", "file is not a database", id="a text"),
    ],
)
def test_a_file_that_can_not_be_used_is_said_in_our_words(
    tmp_path: Path, file: str, told: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("a text that is no database" * 100)
    with pytest.raises(StoreUnavailableError, match=told):
        upgrade(f"sqlite:///{tmp_path / file}")


def test_a_lock_is_free_again_when_it_is_released(path: Path) -> None:
    lock = FileLock(lock_file(path))
    lock.release()
    FileLock(lock_file(path)).release()


# Death of the process.


@pytest.mark.parametrize("point", [KillPoint.STORE_BEFORE_COMMIT, KillPoint.STORE_AFTER_COMMIT])
@pytest.mark.parametrize("nth", [1, 2, 7])
def test_what_was_acknowledged_survives_the_death_of_the_writer(
    url: str, point: KillPoint, nth: int
) -> None:
    with Load(url, point.value, str(nth)) as load:
        load.read_to_the_end()
        assert load.process.wait() == -signal.SIGKILL
    with open_store(url) as store:
        names = names_in(store)
    assert load.ledger.acked <= names
    if point is KillPoint.STORE_AFTER_COMMIT:
        assert len(names) > len(load.ledger.acked)


def names_in(store: SqlStore) -> set[str]:
    """Names of all jobs."""
    query, names = JobQuery(limit=500), set[str]()
    while page := store.jobs(query).jobs:
        names |= {job.name for job in page}
        query = replace(query, after=(page[-1].submitted_at, page[-1].id))
    return names


@pytest.mark.proof(clones=CLONES)
@pytest.mark.parametrize("turn", range(TURNS))
def test_a_copy_of_any_moment_holds_what_was_acknowledged_by_then(
    url: str, path: Path, tmp_path: Path, turn: int
) -> None:
    """Power lost at a random moment, with any part of what was not synced lost too."""
    chance = random.Random(7 + turn)
    with Load(url) as load:
        for number in range(CLONES):
            load.read_until_acked(len(load.ledger.acked) + chance.randrange(1, 12))
            os.kill(load.process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, load.process.pid, os.WSTOPPED)
            load.read_what_is_there()
            clone = tmp_path / f"clone-{number}.db"
            take_clone(path, clone)
            os.kill(load.process.pid, signal.SIGCONT)
            lose_tail(clone, load.ledger.synced_bytes, chance)
            assert load.ledger.acked <= names_in_clone(clone)
            remove_database(clone)
    open_store(url).close()


def take_clone(path: Path, clone: Path) -> None:
    """Copy the database and its log as they stand."""
    shutil.copyfile(path, clone)
    log = log_of(path)
    if log.exists():
        shutil.copyfile(log, log_of(clone))


def lose_tail(clone: Path, synced_bytes: int, chance: random.Random) -> None:
    """Cut some of what lies behind the last synced commit.

    Behind it lies nothing older either, unless the log has begun anew: then it is longer than what
    was synced last, and only the file's growth since is certain not to be synced.
    """
    log = log_of(clone)
    if log.exists() and log.stat().st_size > synced_bytes:
        os.truncate(log, chance.randint(synced_bytes, log.stat().st_size))


def log_of(path: Path) -> Path:
    """The write-ahead log beside a database."""
    return path.with_name(f"{path.name}-wal")


def names_in_clone(clone: Path) -> set[str]:
    """Names of all jobs, once the clone has proved whole."""
    connection = sqlite3.connect(clone)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return {name for (name,) in connection.execute("SELECT name FROM jobs")}
    finally:
        connection.close()


def remove_database(path: Path) -> None:
    """Remove a database with its companions."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


# A disk that fails.


def test_a_full_disk_refuses_writes_serves_reads_and_passes(store: SqlStore) -> None:
    insert(store, a_job("before"))
    acked = {"before"}
    with a_full_database(store):
        acked |= set(insert_until_refused(store))
        with pytest.raises(StoreUnavailableError, match="full"):
            insert(store, *(a_job(f"again-{number}") for number in range(10)))
        assert names_in(store) >= acked
    acked = names_in(store)
    insert(store, a_job("after"))
    assert names_in(store) == acked | {"after"}
    assert not store.must_restart
    store.check()


def insert_until_refused(store: SqlStore) -> Iterator[str]:
    """Names of jobs that could still be inserted."""
    for number in range(1000):
        name = f"during-{number}"
        try:
            insert(store, a_job(name))
        except StoreUnavailableError:
            return
        yield name
    raise AssertionError("never full")


def test_a_disk_that_takes_nothing_refuses_writes_serves_reads_and_passes(store: SqlStore) -> None:
    insert(store, a_job("before"))
    with no_file_may_grow(1):
        with pytest.raises(StoreUnavailableError):
            insert(store, a_job("during"))
        with pytest.raises(StoreUnavailableError):
            store.check()
        assert names_in(store) == {"before"}
    insert(store, a_job("after"))
    assert names_in(store) == {"before", "after"}
    assert not store.must_restart


def test_after_a_failed_sync_nothing_is_written_any_more(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LosesSync, "is_broken", False)
    insert(store, a_job("before"))
    over_a_disk_that_loses_syncs(store)
    with pytest.raises(StoreUnavailableError):
        insert(store, a_job("during"))
    assert store.must_restart
    LosesSync.is_broken = False
    with pytest.raises(StoreUnavailableError, match="failed to sync"):
        insert(store, a_job("after"))
    with pytest.raises(StoreUnavailableError, match="failed to sync"):
        store.check()
    assert names_in(store) == {"before"}
