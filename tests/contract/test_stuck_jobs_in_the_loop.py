"""A job whose row can not be read: the loop leaves it and its workers alone, and keeps its GPUs."""

from typing import NamedTuple

import pytest
from sqlalchemy import Table, select, update

from scheduler.adapters.sql.job_store import SqlStore
from scheduler.adapters.sql.tables import attempts, jobs, reservations
from scheduler.domain.ids import JobId
from scheduler.domain.instants import seconds
from scheduler.domain.job import JobPhase
from tests.builders import a_job
from tests.worlds import Script, World, runs

BROKEN = JobId("id-broken")


class Column(NamedTuple):
    """Where the row of the job is broken."""

    table: Table
    name: str


@pytest.fixture(
    params=[
        pytest.param(Column(jobs, "spec"), id="its spec"),
        pytest.param(Column(attempts, "worker_ends"), id="its attempt"),
        pytest.param(Column(reservations, "extended"), id="a reservation"),
    ]
)
def column(request: pytest.FixtureRequest) -> Column:
    """What is broken."""
    found: Column = request.param
    return found


def a_world(store: SqlStore) -> World:
    """`broken` holds the whole node r1-n0 and runs for 100 s."""
    world = World("r1: 8 8", store=store, script=Script(runs(100)), poll=seconds(30))
    world.submit(a_job("broken", gpus=8))
    world.run(seconds(2))
    assert world.phase("broken") is JobPhase.RUNNING
    return world


def value_of(store: SqlStore, column: Column) -> object:
    """What stands there."""
    key = column.table.c.id if column.table is jobs else column.table.c.job_id
    with store._engines.writer.connect() as connection:
        return connection.scalar(select(column.table.c[column.name]).where(key == BROKEN))


def write_value(store: SqlStore, column: Column, value: object) -> None:
    """Write it past the store, and have the job count as changed."""
    key = column.table.c.id if column.table is jobs else column.table.c.job_id
    changed = store.sequence() + 1
    with store._engines.writer.begin() as connection:
        connection.execute(update(column.table).where(key == BROKEN).values({column.name: value}))
        connection.execute(update(jobs).where(jobs.c.id == BROKEN).values(changed=changed))


@pytest.mark.parametrize("servers", [1, 2])
def test_its_gpus_are_not_given_away_and_it_goes_on_when_it_is_mended(
    sql_store: SqlStore, column: Column, servers: int
) -> None:
    world = a_world(sql_store)
    good = value_of(sql_store, column)
    write_value(sql_store, column, "{")
    world.submit(a_job("small", gpus=8), a_job("wide", workers=2, gpus=8))
    if servers > 1:
        world.restart()
    world.run(seconds(10))
    assert world.phase("small") is JobPhase.RUNNING
    assert world.phase("wide") is JobPhase.PENDING
    # Its workers end meanwhile, and nobody forgets what they ended with.
    world.run(seconds(150))
    assert world.phase("small") is JobPhase.SUCCEEDED
    assert world.phase("wide") is JobPhase.PENDING
    assert world.cluster.runs_of(BROKEN) == 1

    write_value(sql_store, column, good)
    world.submit(a_job("another"))  # A change that the loop hears of.
    world.run(seconds(10))
    assert world.phase("broken") is JobPhase.SUCCEEDED
    assert world.phase("wide") is JobPhase.RUNNING
    assert [len(world.attempts("broken")), world.job("broken").restarts_infra] == [1, 0]


def test_nodes_that_change_do_not_free_what_it_holds(sql_store: SqlStore, column: Column) -> None:
    world = a_world(sql_store)
    write_value(sql_store, column, "{")
    world.submit(a_job("wide", workers=2, gpus=8))
    world.run(seconds(2))
    (node,) = [node for node in world.cluster.observe().nodes if node.name == "r1-n1"]
    world.cluster.remove_node("r1-n1")
    world.run(seconds(2))
    world.cluster.set_node(node)
    world.run(seconds(2))
    assert world.phase("wide") is JobPhase.PENDING


@pytest.mark.parametrize("servers", [1, 2])
def test_a_waiting_job_that_can_not_be_read_holds_up_nobody(
    sql_store: SqlStore, servers: int
) -> None:
    world = World("r1: 8", store=sql_store, script=Script(runs(10)), poll=seconds(30))
    world.submit(a_job("a-first", gpus=8), a_job("broken", gpus=8))
    world.run(seconds(2))
    write_value(sql_store, Column(jobs, "spec"), "{")
    world.submit(a_job("last", gpus=8))
    if servers > 1:
        world.restart()
    world.run(seconds(60))
    assert world.phase("a-first") is JobPhase.SUCCEEDED
    assert world.phase("last") is JobPhase.SUCCEEDED
    assert world.cluster.runs_of(BROKEN) == 0
