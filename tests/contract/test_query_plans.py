"""No list reads a table from end to end: the plan of every query says SEARCH, never SCAN."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import event, text

from scheduler.adapters.sql.job_store import SqlStore
from scheduler.domain.ids import JobId, JobName, ProjectName, QueueName, Sequence
from scheduler.domain.instants import Instant
from scheduler.domain.job import JobPhase
from scheduler.domain.queue import DEFAULT_PROJECT
from scheduler.ports.job_store import ChangeCursor, EventQuery, JobQuery
from scheduler.ports.unit import (
    Change,
    DeleteJob,
    DeleteProfile,
    Expire,
    FreeReservations,
    RecordAudit,
    RecordEnd,
    RecordProgress,
    RecordWaits,
    SaveAnswers,
    SaveJob,
    SaveProfile,
    SaveStepTimes,
    SaveToken,
)
from tests.builders import a_job
from tests.contract.stores import (
    DONE,
    HOLD,
    JOB,
    KEY,
    REPORT,
    RUNNING,
    START,
    a_profile,
    a_reply,
    a_token,
    a_wait,
    an_answer,
    an_audit_row,
    an_end,
    an_event,
    insert,
    learned,
    write,
)

SMALL = {"projects", "queues", "levels", "nodes", "tokens", "reservations", "cycles", "instance"}
"""Tables that stay small, and reservations where all of them are asked for."""

SOME = (ProjectName("p1"), ProjectName("p2"))
AFTER = (5, JobId("x"))

READS: dict[str, Callable[[SqlStore], object]] = {
    "jobs": lambda s: s.jobs(JobQuery()),
    "jobs after": lambda s: s.jobs(JobQuery(after=AFTER, limit=1)),
    "newest jobs": lambda s: s.jobs(JobQuery(after=AFTER, limit=1, is_newest_first=True)),
    "newest jobs of a queue and projects": lambda s: s.jobs(
        JobQuery(queue=QueueName("q"), projects=SOME, after=AFTER, is_newest_first=True)
    ),
    "newest jobs by labels": lambda s: s.jobs(
        JobQuery(labels=(("a", "b"),), after=AFTER, is_newest_first=True)
    ),
    "jobs of projects": lambda s: s.jobs(JobQuery(projects=SOME, after=AFTER)),
    "jobs of a queue": lambda s: s.jobs(JobQuery(queue=QueueName("q"), after=AFTER)),
    "jobs of a queue and projects": lambda s: s.jobs(
        JobQuery(queue=QueueName("q"), projects=SOME, phases=(JobPhase.RUNNING,))
    ),
    "jobs of phases": lambda s: s.jobs(JobQuery(phases=(JobPhase.RUNNING, JobPhase.PENDING))),
    "jobs by labels": lambda s: s.jobs(
        JobQuery(labels=(("a", "b"), ("c", "d")), after=AFTER, projects=SOME)
    ),
    "events": lambda s: s.events(EventQuery()),
    "events after": lambda s: s.events(EventQuery(after=Sequence(3))),
    "events of a job": lambda s: s.events(EventQuery(job_id=JOB.id, after=Sequence(3))),
    "events of projects": lambda s: s.events(EventQuery(projects=SOME, after=Sequence(3))),
    "a job": lambda s: s.job(DEFAULT_PROJECT, JobName(JOB.name)),
    "a job by id": lambda s: (s.job_by_id(JOB.id), s.job_source(JOB.id)),
    "what belongs to a job": lambda s: (
        s.attempts(JOB.id),
        s.progress(JOB.id),
        s.answer(JOB.id),
        s.step_times([JOB.id]),
        s.profiles(DEFAULT_PROJECT),
    ),
    "changes of the live state": lambda s: s.live(Sequence(2)),
    "changes of jobs": lambda s: s.job_changes(ChangeCursor(Sequence(1)), limit=5),
    "a token": lambda s: s.token_by_secret("x"),
    "a reply": lambda s: s.reply(principal="a", route="r", key="k"),
    "what was learned since": lambda s: (
        s.past_waits(Sequence(3)),
        s.ended_jobs(Sequence(3)),
        s.live_step_times(Sequence(3)),
    ),
    "audit": lambda s: s.audit(limit=5),
    "the rest": lambda s: (s.last_cycle(), s.knobs(), s.sequence(), s.horizon(), s.lease()),
}

OLD = Instant(0)
WRITES: dict[str, tuple[Change, ...]] = {
    "a changed job": (SaveJob(job=RUNNING, expected_revision=0),),
    "an attempt": (START, HOLD, FreeReservations(attempt=KEY)),
    "progress": (START, RecordProgress(attempt=KEY, progress=REPORT)),
    "answers": (SaveAnswers(answers=(an_answer(JOB),)),),
    "what was learned": (SaveStepTimes(job_id=JOB.id, times=learned(), expected_revision=0),),
    "profiles": (
        SaveProfile(project=DEFAULT_PROJECT, profile=a_profile()),
        DeleteProfile(project=DEFAULT_PROJECT, name=a_profile().name),
    ),
    "a deleted job": (DeleteJob(job_id=DONE.id, expected_revision=0, at=OLD),),
    "a token": (SaveToken(token=a_token()),),
    "a reply and audit": (a_reply(), RecordAudit(row=an_audit_row())),
    "lessons": (RecordWaits(waits=(a_wait(),)), RecordEnd(end=an_end())),
    "growing old": (Expire(events_before=OLD, replies_before=OLD, audit_before=OLD),),
}


@dataclass(frozen=True)
class Heard:
    """A statement that was run, and the values of one of its runs."""

    statement: str
    values: Any


@contextmanager
def statements(store: SqlStore) -> Iterator[list[Heard]]:
    """The statements that the store runs meanwhile."""
    heard: list[Heard] = []

    def hear(*told: Any) -> None:
        _, _, statement, values, *_ = told
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)", statement):
            heard.append(Heard(statement, values[0] if isinstance(values, list) else values))

    engines = (store._engines.readers, store._engines.writer)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", hear)
    yield heard
    for engine in engines:
        event.remove(engine, "before_cursor_execute", hear)


def scans(store: SqlStore, heard: list[Heard]) -> list[str]:
    """Every full read of a table that does not stay small, with its statement."""
    with store._engines.writer.connect() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        if not is_sqlite:
            # The tables are nearly empty: without this any plan is a good plan.
            connection.execute(text("SET enable_seqscan = off"))
        explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN "
        return [
            f"{line} in {one.statement}"
            for one in heard
            for row in connection.exec_driver_sql(explain + one.statement, one.values)
            if scanned(line := str(row[-1])) - SMALL and not stops_early(one.statement)
        ]


def scanned(line: str) -> set[str]:
    """The table that a line of a plan reads from end to end."""
    tables = set(re.findall(r"(?:\bSCAN|Seq Scan on) (\w+)", line))
    # The parts of a list that are merged; they have a limit.
    return {table for table in tables if not table.startswith("anon_")} - {"CONSTANT"}


def stops_early(statement: str) -> bool:
    """Whether rows are read in the order of an index until there are enough of them."""
    return "WHERE" not in statement and "LIMIT" in statement


def fill(store: SqlStore) -> None:
    """Something to look for."""
    insert(store, JOB, DONE, a_job("other"))
    write(store, events=(an_event(job_id=JOB.id, project="p1"), an_event("Else")))


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_read_searches(sql_store: SqlStore, read: Callable[[SqlStore], object]) -> None:
    fill(sql_store)
    with statements(sql_store) as heard:
        read(sql_store)
    assert heard
    assert scans(sql_store, heard) == []


@pytest.mark.parametrize("changes", WRITES.values(), ids=WRITES)
def test_every_write_searches(sql_store: SqlStore, changes: tuple[Change, ...]) -> None:
    fill(sql_store)
    with statements(sql_store) as heard:
        write(sql_store, *changes)
    assert heard
    assert scans(sql_store, heard) == []


def test_a_full_read_would_be_noticed(sql_store: SqlStore) -> None:
    every_job = [Heard("SELECT id FROM jobs WHERE message = 'x'", ())]
    assert scans(sql_store, every_job) != []
