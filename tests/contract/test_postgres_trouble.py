"""PostgreSQL goes away, comes back, or loses an answer: nothing acknowledged is lost or doubled."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from threading import Event as Flag
from threading import Thread

import psycopg
import pytest
from sqlalchemy import text

from scheduler.adapters.sql.connecting import open_engines
from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.adapters.sql.migrating import upgrade
from scheduler.adapters.sql.writer import Transaction
from scheduler.domain.errors import NameTakenError, StoreUnavailableError
from scheduler.domain.job import Job
from scheduler.ports.job_store import EventQuery, JobQuery
from scheduler.ports.kill_points import KillPoint
from scheduler.ports.unit import InsertJob, RecordAudit
from tests.builders import a_job
from tests.contract.cutting_proxy import Cut, CuttingProxy
from tests.contract.ledgers import Load
from tests.contract.stores import an_audit_row, an_event, insert, write
from tests.databases import Databases, PostgresServer
from tests.polling import wait_until
from tests.proof import times

DATABASE_KILLS = times(ci=2, proof=100)


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    """A database."""
    with databases.lent("postgres") as lent:
        yield lent


@pytest.fixture
def proxy(url: str) -> Iterator[CuttingProxy]:
    """A proxy in front of it."""
    with CuttingProxy(url) as made:
        yield made


@pytest.mark.parametrize("cut", list(Cut))
def test_a_unit_whose_commit_lost_its_answer_is_written_exactly_once(
    proxy: CuttingProxy, cut: Cut
) -> None:
    with open_store(proxy.url) as store:
        insert(store, a_job("before"))
        for number in range(5):
            proxy.cut_next(cut)
            told = an_event(f"R{number}")
            write(store, InsertJob(job=a_job(f"{number}")), events=(told,))
        assert proxy.cuts == 5
        names = [job.name for job in store.jobs(JobQuery()).jobs]
        assert sorted(names) == ["0", "1", "2", "3", "4", "before"]
        assert [event.count for event in store.events(EventQuery())] == [1] * 5
        assert store.sequence() == 1 + 5 * 2


@pytest.mark.parametrize("cut", list(Cut))
def test_a_refusal_is_told_although_its_answer_got_lost(proxy: CuttingProxy, cut: Cut) -> None:
    with open_store(proxy.url) as store:
        insert(store, a_job("a"))
        proxy.cut_next(cut)
        with pytest.raises(NameTakenError):
            insert(store, a_job("a"))


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_what_lost_against_another_transaction_is_done_again(url: str, code: str) -> None:
    runs: list[int] = []

    def fail_first(transaction: Transaction) -> int:
        runs.append(transaction.sequence)
        if len(runs) < 3:
            raising = f"DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '{code}'; END $$"
            transaction.connection.execute(text(raising))
        return len(runs)

    with open_store(url) as store:
        insert(store, a_job("a"))
        assert store._writer.submit(fail_first).result(30) == 3
        assert runs == [1, 1, 1]


def test_what_always_loses_is_given_up(url: str) -> None:
    def fail(transaction: Transaction) -> None:
        raising = "DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END $$"
        transaction.connection.execute(text(raising))

    with open_store(url) as store:
        with pytest.raises(StoreUnavailableError, match="given up after 5 tries"):
            store._writer.submit(fail).result(30)
        insert(store, a_job("a"))


def write_until_heard(store: SqlStore, heard: Flag) -> None:
    """Write until another store hears of it: its listener may have begun before anybody heard."""

    def is_heard() -> bool:
        write(store, RecordAudit(row=an_audit_row()))
        return heard.wait(0.5)

    wait_until(is_heard, "a write is heard of")


def test_a_hint_comes_from_another_process(url: str) -> None:
    with open_store(url) as one, open_store(url) as other:
        every, requests, connected = Flag(), Flag(), Flag()
        end = other.on_change(connected.set)
        write_until_heard(one, connected)
        end()
        other.on_change(requests.set, requests_only=True)
        other.on_change(every.set)
        write(one, RecordAudit(row=an_audit_row()))
        assert every.wait(30)
        assert not requests.is_set()
        insert(one, a_job("a"))
        assert requests.wait(30)


def test_a_listener_that_lost_its_connection_hears_again(url: str) -> None:
    with open_store(url) as one, open_store(url) as other:
        heard = Flag()
        other.on_change(heard.set)
        write_until_heard(one, heard)
        for name in ("a", "b"):
            heard.clear()
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            # Once because something may have been missed, whether or not it was.
            assert heard.wait(30)
            insert(one, a_job(name))


def test_the_server_is_asked_to_sync_and_to_give_up_in_time(url: str) -> None:
    engines = open_engines(f"{url}&options=-csynchronous_commit%3Doff")
    with engines.writer.connect() as connection:
        told = {
            name: connection.execute(text(f"SHOW {name}")).scalar_one()
            for name in (
                "synchronous_commit",
                "statement_timeout",
                "lock_timeout",
                "idle_in_transaction_session_timeout",
                "transaction_isolation",
            )
        }
    engines.dispose()
    assert told == {
        "synchronous_commit": "on",
        "statement_timeout": "30s",
        "lock_timeout": "5s",
        "idle_in_transaction_session_timeout": "30s",
        "transaction_isolation": "read committed",
    }


@pytest.mark.parametrize("point", [KillPoint.STORE_BEFORE_COMMIT, KillPoint.STORE_AFTER_COMMIT])
@pytest.mark.parametrize("nth", [1, 7])
def test_what_was_acknowledged_survives_the_death_of_the_writer(
    url: str, point: KillPoint, nth: int
) -> None:
    with Load(url, point.value, str(nth)) as load:
        load.read_to_the_end()
        assert load.process.wait() == -signal.SIGKILL
    with open_store(url) as store:
        names = {job.name for job in store.jobs(JobQuery(limit=500)).jobs}
    assert load.ledger.acked <= names


# Death of the database.


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of our own, to be killed."""
    with PostgresServer() as made:
        yield made


@pytest.mark.proof(kills=DATABASE_KILLS)
def test_what_was_acknowledged_survives_the_death_of_the_database(server: PostgresServer) -> None:
    upgrade(server.url)
    acked: set[str] = set()
    unknown: set[str] = set()
    stop = Flag()

    def keep_writing(store: SqlStore, writer: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            name = f"{writer}-{number}"
            try:
                insert(store, a_job(name))
                acked.add(name)
            except StoreUnavailableError:
                unknown.add(name)
                stop.wait(0.05)

    with open_store(server.url) as store:
        threads = [Thread(target=keep_writing, args=(store, writer)) for writer in range(6)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(DATABASE_KILLS):
                wait_for_more(acked)
                server.kill()
                wait_for_more(unknown)
                with pytest.raises(StoreUnavailableError):
                    store.sequence()
                server.start()
                wait_for_more(acked)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        names = [job.name for job in every_job(store)]
        assert len(names) == len(set(names))
        assert acked <= set(names) <= acked | unknown
        store.check()


def wait_for_more(names: set[str]) -> None:
    """Return when there are some more."""
    tick, before, deadline_s = Flag(), len(names), 60.0
    while len(names) < before + 5:
        tick.wait(0.01)
        deadline_s -= 0.01
        assert deadline_s > 0


def every_job(store: SqlStore) -> Iterator[Job]:
    """All jobs, page by page."""
    query = JobQuery(limit=500)
    while page := store.jobs(query).jobs:
        yield from page
        query = replace(query, after=(page[-1].submitted_at, page[-1].id))
