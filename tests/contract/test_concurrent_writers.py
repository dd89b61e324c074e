"""Many write at once: nothing is lost, doubled or seen out of order, and commits are shared."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from threading import Event as Flag

import pytest

from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.domain.errors import ConflictError, NameTakenError
from scheduler.domain.ids import Epoch, JobId, Sequence
from scheduler.ports.job_store import ChangeCursor, EventQuery, JobQuery
from scheduler.ports.kill_points import KillPoint, arm
from scheduler.ports.unit import InsertJob, SaveJob, Unit
from tests.builders import a_job
from tests.contract.stores import Store, a_reply, an_event, insert, write
from tests.databases import Databases


def at_once(works: Iterable[Callable[[], object]]) -> list[object]:
    """Do all works in threads of their own; what each returned or raised."""

    def settled(work: Callable[[], object]) -> object:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - the outcome is what the test looks at
            return error

    every = list(works)
    with ThreadPoolExecutor(len(every)) as pool:
        return list(pool.map(settled, every))


def test_fifty_writers_of_one_job_lose_no_update(store: Store) -> None:
    insert(store, a_job("a"))

    def count_up_thrice() -> None:
        done = 0
        while done < 3:
            job = store.job_by_id(a_job("a").id)
            more = replace(job, priority=job.priority + 1)
            try:
                write(store, SaveJob(job=more, expected_revision=job.revision))
            except ConflictError:
                continue
            done += 1

    assert at_once([count_up_thrice] * 50) == [None] * 50
    job = store.job_by_id(a_job("a").id)
    assert (job.priority, job.revision) == (150, 150)


def test_a_hundred_requests_with_one_key_make_one_job(store: Store) -> None:
    def submit(number: int) -> None:
        job = replace(a_job("a"), id=JobId(f"id-{number}"))
        write(store, a_reply("same-key"), InsertJob(job=job))

    outcomes = at_once([partial(submit, number) for number in range(100)])
    refused = [error for error in outcomes if isinstance(error, ConflictError)]
    assert outcomes.count(None) == 1
    assert [error.kind for error in refused] == ["idempotency key"] * 99
    assert len(store.jobs(JobQuery()).jobs) == 1


def test_a_name_is_given_once(store: Store) -> None:
    def submit(number: int) -> None:
        insert(store, replace(a_job("a"), id=JobId(f"id-{number}")))

    outcomes = at_once([partial(submit, number) for number in range(20)])
    assert outcomes.count(None) == 1
    assert sum(isinstance(error, NameTakenError) for error in outcomes) == 19


def follow(store: Store, stop: Flag) -> list[str]:
    """Read events as a watcher does, until told to stop and nothing new is there."""
    seen: list[str] = []
    after: Sequence | None = None
    while True:
        is_last = stop.is_set()
        page = store.events(EventQuery(after=after, limit=7))
        seen += [event.reason for event in page]
        after = page[-1].sequence if page else after
        if is_last and not page:
            return seen


def follow_jobs(store: Store, stop: Flag) -> set[str]:
    """Read changes of jobs likewise."""
    seen: set[str] = set()
    cursor = ChangeCursor(Sequence(1))
    while True:
        is_last = stop.is_set()
        changes = store.job_changes(cursor, limit=7)
        seen |= {change.name for change in changes}
        cursor = changes[-1].cursor if changes else cursor
        if is_last and not changes:
            return seen


def write_while_followed(stores: list[Store]) -> None:
    """Writers and followers on all of the stores; each follower sees everything once."""
    stop = Flag()
    written = [f"{writer}-{number}" for writer in range(8) for number in range(10)]

    def write_ten(writer: int) -> None:
        store = stores[writer % len(stores)]
        for number in range(10):
            name = f"{writer}-{number}"
            write(store, InsertJob(job=a_job(name)), events=(an_event(name),))

    with ThreadPoolExecutor(2 * len(stores)) as followers:
        events = [followers.submit(follow, store, stop) for store in stores]
        jobs = [followers.submit(follow_jobs, store, stop) for store in stores]
        try:
            assert at_once([partial(write_ten, writer) for writer in range(8)]) == [None] * 8
        finally:
            stop.set()
        for seen in events:
            assert sorted(seen.result()) == sorted(written)
        for names in jobs:
            assert names.result() == set(written)


def test_a_follower_skips_nothing_while_many_write(store: Store) -> None:
    write_while_followed([store])


def test_a_follower_skips_nothing_that_other_processes_write(databases: Databases) -> None:
    with ExitStack() as opened:
        url = opened.enter_context(databases.lent("postgres"))
        write_while_followed([opened.enter_context(open_store(url)) for _ in range(3)])


# Sharing commits.


class Gate:
    """Holds the writer before its commit until it is opened."""

    def __init__(self) -> None:
        self.is_reached = Flag()
        self.is_open = Flag()

    def __call__(self, point: KillPoint) -> None:
        """Wait, if it is the commit that is about to happen."""
        if point is KillPoint.STORE_BEFORE_COMMIT:
            self.is_reached.set()
            assert self.is_open.wait(30)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate before each commit, open at the end."""
    made = Gate()
    arm(made)
    yield made
    made.is_open.set()
    arm(None)


def held_back(store: SqlStore, gate: Gate, units: list[Unit]) -> list[object]:
    """What comes of units that all wait, in their order, while one commit is held up."""
    with ThreadPoolExecutor(1 + len(units)) as pool:
        first = pool.submit(insert, store, a_job("first"))
        assert gate.is_reached.wait(30)
        rest = []
        for unit in units:
            rest.append(pool.submit(store.write, unit))
            wait_until_waiting(store, len(rest))
        gate.is_open.set()
        first.result()
        return [future.exception() or future.result() for future in rest]


def wait_until_waiting(store: SqlStore, count: int) -> None:
    """Return when so many units wait."""
    tick, deadline_s = Flag(), 30.0
    while store.waiting < count:
        tick.wait(0.001)
        deadline_s -= 0.001
        assert deadline_s > 0


def inserting(*names: str) -> Unit:
    """A unit that inserts jobs of these names."""
    return Unit(changes=tuple(InsertJob(job=a_job(name)) for name in names))


def test_units_that_wait_share_one_commit(sql_store: SqlStore, gate: Gate) -> None:
    before = sql_store.commits
    sequences = held_back(sql_store, gate, [inserting(f"{n}") for n in range(20)])
    assert sql_store.commits - before == 2
    assert sequences == [Sequence(number) for number in range(2, 22)]


def test_a_unit_that_fails_spares_those_that_share_its_commit(
    sql_store: SqlStore, gate: Gate
) -> None:
    units = [
        inserting("a", "x"),
        inserting("b", "first"),
        inserting("c", "y"),
        inserting("d", "x"),
        inserting("e", "z"),
    ]
    outcomes = held_back(sql_store, gate, units)
    assert [isinstance(outcome, int) for outcome in outcomes] == [True, False, True, False, True]
    names = [job.name for job in sql_store.jobs(JobQuery()).jobs]
    assert sorted(names) == ["a", "c", "e", "first", "x", "y", "z"]
    assert sql_store.sequence() == 4


def test_the_leader_goes_before_requests_that_wait(sql_store: SqlStore, gate: Gate) -> None:
    requests = [inserting(f"{n}") for n in range(3)]
    urgent = Unit(changes=inserting("urgent").changes, epoch=Epoch(0))
    sequences = held_back(sql_store, gate, [*requests, urgent])
    assert sequences == [3, 4, 5, 2]
