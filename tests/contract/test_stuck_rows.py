"""A row that can not be read stops nobody else, is told of, and what it holds is not given away."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Table, update

from scheduler.adapters.sql.job_store import SqlStore
from scheduler.adapters.sql.tables import (
    answers,
    attempts,
    events,
    jobs,
    nodes,
    policy_knobs,
    profiles,
    progress,
    queues,
    reservations,
    step_times,
    tokens,
)
from scheduler.domain.errors import UnreadableRowError
from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.instants import Instant
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.queue import DEFAULT_PROJECT
from scheduler.domain.reservation import Reservation
from scheduler.ports.job_store import ChangeCursor, EventQuery, JobQuery
from scheduler.ports.unit import (
    InsertJob,
    RecordProgress,
    SaveAnswers,
    SaveKnobs,
    SaveNodes,
    SaveProfile,
    SaveStepTimes,
    SaveToken,
)
from tests.builders import a_job
from tests.contract.stores import (
    CLUSTER,
    HOLD,
    JOB,
    KEY,
    REPORT,
    START,
    a_profile,
    a_token,
    an_answer,
    an_event,
    gang_of,
    insert,
    learned,
    write,
)

GOOD = a_job("good", submitted_at=Instant(5))


def spoil(store: SqlStore, table: Table, **values: object) -> None:
    """Break every row of JOB, or of the whole table where rows belong to no job."""
    breaking = update(table).values(**values)
    if table is jobs:
        breaking = breaking.where(jobs.c.id == JOB.id)
    elif "job_id" in table.c:
        breaking = breaking.where(table.c.job_id == JOB.id)
    with store._engines.writer.begin() as connection:
        assert connection.execute(breaking).rowcount > 0


def fill(store: SqlStore) -> None:
    """A job to be broken and one that is fine, both with a gang."""
    insert(store, JOB, GOOD)
    write(store, START, HOLD, *gang_of(GOOD))


BREAKS = [
    pytest.param(jobs, {"spec": "{"}, "not JSON", id="a spec that is no JSON"),
    pytest.param(jobs, {"spec": '{"queue":"q"}'}, "roles: missing", id="a spec without roles"),
    pytest.param(jobs, {"phase": "Dreaming"}, "Dreaming", id="a phase of a later version"),
    pytest.param(jobs, {"stop_requested": "Whim"}, "Whim", id="an unknown stop cause"),
    pytest.param(attempts, {"phase": "Dreaming"}, "Dreaming", id="an unknown attempt phase"),
    pytest.param(attempts, {"worker_ends": "7"}, "no object", id="worker ends that are a number"),
    pytest.param(reservations, {"extended": "[]"}, "no object", id="broken resources"),
    pytest.param(reservations, {"gpu_indices": "x"}, "not JSON", id="broken GPU indices"),
]


@pytest.mark.parametrize(("table", "values", "problem"), BREAKS)
def test_a_broken_job_is_left_out_whole_and_what_it_holds_stays_held(
    sql_store: SqlStore, table: Table, values: dict[str, str], problem: str
) -> None:
    fill(sql_store)
    spoil(sql_store, table, **values)
    live = sql_store.live()
    assert [job.id for job in live.jobs] == [GOOD.id]
    assert {attempt.job_id for attempt in live.attempts} == {GOOD.id}
    assert {held.attempt.job_id for held in live.reservations} == {GOOD.id}
    assert live.stuck == (JOB.id,)
    assert [gpus(held) for held in live.held_by_stuck] == [gpus(held) for held in HOLD.reservations]
    assert len(sql_store.reservations()) == len(HOLD.reservations) + 1
    rows = sql_store.stuck_rows()
    assert {row.table for row in rows} == {table.name}
    assert all(problem in row.problem and JOB.id in row.key for row in rows)


def gpus(held: Reservation) -> tuple[str, int, int]:
    """How much of which node a rank holds."""
    return held.node, held.rank, held.gpus


def test_a_job_that_breaks_later_is_told_as_a_change(sql_store: SqlStore) -> None:
    fill(sql_store)
    before = sql_store.live().sequence
    spoil(sql_store, jobs, phase="Dreaming", changed=before + 1)
    told = sql_store.live(before)
    assert (told.jobs, told.stuck) == ((), (JOB.id,))
    assert len(told.held_by_stuck) == 2
    quiet = sql_store.live(Sequence(before + 1))
    assert (quiet.jobs, quiet.stuck) == ((), ())
    assert quiet.held_by_stuck == told.held_by_stuck
    spoil(sql_store, jobs, phase="Pending", changed=before + 2)
    mended = sql_store.live(Sequence(before + 1))
    assert [job.id for job in mended.jobs] == [JOB.id]
    assert mended.held_by_stuck == ()


def test_the_job_itself_is_refused_by_name(sql_store: SqlStore) -> None:
    fill(sql_store)
    spoil(sql_store, jobs, spec="{")
    with pytest.raises(UnreadableRowError, match="not JSON"):
        sql_store.job(JOB.project, JOB.name)
    with pytest.raises(UnreadableRowError, match="not JSON"):
        sql_store.job_by_id(JOB.id)
    assert sql_store.job_source(JOB.id) == ""


def test_lists_are_as_long_as_without_broken_rows(sql_store: SqlStore) -> None:
    every = [a_job(f"{n}", submitted_at=Instant(n)) for n in range(9)]
    insert(sql_store, *every, replace(JOB, submitted_at=Instant(100)))
    broken = [job.id for job in every if job.submitted_at % 3 != 1]
    with sql_store._engines.writer.begin() as connection:
        connection.execute(update(jobs).where(jobs.c.id.in_(broken)).values(spec="{"))
    page = sql_store.jobs(JobQuery(limit=3))
    assert [job.name for job in page.jobs] == ["1", "4", "7"]
    rest = sql_store.jobs(JobQuery(limit=3, after=(7, page.jobs[-1].id)))
    assert [job.name for job in rest.jobs] == ["a"]
    changes = sql_store.job_changes(ChangeCursor(Sequence(1)), limit=2)
    assert [change.name for change in changes] == ["1", "4"]
    assert len(sql_store.stuck_rows()) == 6


def test_one_in_a_hundred_hinders_none_of_the_others(sql_store: SqlStore) -> None:
    write(sql_store, *(InsertJob(job=a_job(f"{n:03}")) for n in range(200)))
    with sql_store._engines.writer.begin() as connection:
        bad = [JobId("id-050"), JobId("id-150")]
        connection.execute(update(jobs).where(jobs.c.id.in_(bad)).values(phase="Dreaming"))
    assert len(sql_store.live().jobs) == 198
    assert {row.key for row in sql_store.stuck_rows()} == set(bad)


def test_a_row_that_is_mended_is_stuck_no_more(sql_store: SqlStore) -> None:
    fill(sql_store)
    spoil(sql_store, jobs, phase="Dreaming")
    sql_store.live()
    assert len(sql_store.stuck_rows()) == 1
    spoil(sql_store, jobs, phase="Pending")
    assert sql_store.stuck_rows() == ()


SMALL_BREAKS: list[tuple[Table, dict[str, object], Callable[[SqlStore], object]]] = [
    (nodes, {"node": "{}"}, lambda s: s.topology()[1]),
    (events, {"kind": "Odd"}, lambda s: s.events(EventQuery(job_id=JOB.id))),
    (progress, {"report": "{}"}, lambda s: s.progress(JOB.id)),
    (step_times, {"learned": "{"}, lambda s: tuple(s.step_times([JOB.id]))),
    (profiles, {"profile": "{}"}, lambda s: s.profiles(DEFAULT_PROJECT)),
    (tokens, {"projects": "no"}, lambda s: s.tokens()),
    (queues, {"knobs": "no"}, lambda s: s.queues()),
]


@pytest.mark.parametrize(
    ("table", "values", "look"), SMALL_BREAKS, ids=[table.name for table, *_ in SMALL_BREAKS]
)
def test_other_rows_are_left_out_too(
    sql_store: SqlStore,
    table: Table,
    values: dict[str, object],
    look: Callable[[SqlStore], tuple[object, ...]],
) -> None:
    fill_the_rest(sql_store)
    assert look(sql_store) != ()
    spoil(sql_store, table, **values)
    assert look(sql_store) == ()
    assert {row.table for row in sql_store.stuck_rows()} == {table.name}


@pytest.mark.parametrize(
    ("table", "values", "look"),
    [
        pytest.param(answers, {"blocked": "{}"}, lambda s: s.answer(JOB.id), id="an answer"),
        pytest.param(policy_knobs, {"knobs": "[]"}, lambda s: s.knobs(), id="the knobs"),
    ],
)
def test_what_has_no_stand_in_is_refused(
    sql_store: SqlStore, table: Table, values: dict[str, object], look: Callable[[SqlStore], object]
) -> None:
    fill_the_rest(sql_store)
    look(sql_store)
    spoil(sql_store, table, **values)
    with pytest.raises(UnreadableRowError):
        look(sql_store)
    assert {row.table for row in sql_store.stuck_rows()} == {table.name}


def fill_the_rest(store: SqlStore) -> None:
    """Something in every table."""
    fill(store)
    write(
        store,
        SaveNodes(levels=CLUSTER.levels, nodes=CLUSTER.nodes, at=Instant(1)),
        RecordProgress(attempt=KEY, progress=REPORT),
        SaveAnswers(answers=(an_answer(JOB),)),
        SaveStepTimes(job_id=JOB.id, times=learned(), expected_revision=0),
        SaveProfile(project=DEFAULT_PROJECT, profile=a_profile()),
        SaveToken(token=a_token()),
        SaveKnobs(knobs=PolicyKnobs()),
        events=(an_event(job_id=JOB.id),),
    )
