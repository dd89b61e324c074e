"""What past jobs teach: past waits and ended jobs, of each kind the newest ones."""

from dataclasses import dataclass
from functools import cache
from typing import Any, assert_never

from sqlalchemy import Connection, Delete, Select, Table, bindparam, delete, or_, select, tuple_

from scheduler.adapters.sql.rows import AnyRow, Values, reading
from scheduler.adapters.sql.stuck_rows import StuckRows
from scheduler.adapters.sql.tables import ends, waits
from scheduler.adapters.sql.unit_work import UnitWork
from scheduler.adapters.sql.upserts import put
from scheduler.domain import ids
from scheduler.domain.instants import Duration
from scheduler.domain.waits import (
    ENDS_KEPT,
    ENDS_KEPT_FOR,
    WAITS_KEPT,
    WAITS_KEPT_FOR,
    JobEnd,
    WaitObservation,
)
from scheduler.ports.unit import RecordEnd, RecordWaits


@dataclass(frozen=True, slots=True)
class _Keeping:
    """A table of lessons: what its kinds are, and how many of each stay for how long."""

    table: Table
    kind: tuple[str, ...]
    """Columns of the key before `at` and `job_id`."""
    kept: int
    kept_for: Duration


_WAITS = _Keeping(waits, ("demand", "level"), WAITS_KEPT, WAITS_KEPT_FOR)
_ENDS = _Keeping(ends, ("queue",), ENDS_KEPT, ENDS_KEPT_FOR)


def record(change: RecordWaits | RecordEnd, work: UnitWork) -> None:
    """Write what was learned, and forget what is over."""
    match change:
        case RecordWaits(waits=told):
            _record(_WAITS, [_wait_row(wait) for wait in told], work)
        case RecordEnd(end=end):
            _record(_ENDS, [_end_row(end)], work)
        case _:
            assert_never(change)


def waits_since(
    connection: Connection, after: ids.Sequence | None, stuck: StuckRows
) -> tuple[WaitObservation, ...]:
    """Past waits, by sequence."""
    return tuple(stuck.readable(connection.execute(_since(waits, after)), _to_wait))


def ends_since(
    connection: Connection, after: ids.Sequence | None, stuck: StuckRows
) -> tuple[JobEnd, ...]:
    """Ended jobs, by sequence."""
    return tuple(stuck.readable(connection.execute(_since(ends, after)), _to_end))


def _since(table: Table, after: ids.Sequence | None) -> Select[Any]:
    found = select(table).order_by(table.c.sequence, *table.primary_key)
    return found if after is None else found.where(table.c.sequence > after)


def _record(keeping: _Keeping, rows: list[Values], work: UnitWork) -> None:
    put(work.connection, keeping.table, [row | {"sequence": work.last} for row in rows])
    newest: dict[tuple[str | int | bool | bytes | None, ...], int] = {}
    for row in rows:
        kind = tuple(row[name] for name in keeping.kind)
        at = row["at"]
        assert isinstance(at, int)
        newest[kind] = max(at, newest.get(kind, at))
    for kind, at in newest.items():
        work.connection.execute(
            _forgetting(keeping),
            {**dict(zip(keeping.kind, kind, strict=True)), "before": at - keeping.kept_for},
        )


@cache
def _forgetting(keeping: _Keeping) -> Delete:
    """Deletes what is old, and what is more than is kept, of one kind."""
    table = keeping.table
    age = (table.c.at, table.c.job_id)
    of_kind = [table.c[name] == bindparam(name) for name in keeping.kind]
    older = (
        select(*age)
        .where(*of_kind)
        .order_by(*(column.desc() for column in age))
        .offset(keeping.kept)
    )
    return delete(table).where(
        *of_kind, or_(table.c.at < bindparam("before"), tuple_(*age).in_(older))
    )


def _wait_row(wait: WaitObservation) -> Values:
    return {
        "demand": wait.demand,
        "level": wait.level,
        "at": wait.at,
        "job_id": wait.job_id,
        "wait": wait.wait,
        "is_censored": wait.is_censored,
    }


def _to_wait(row: AnyRow) -> WaitObservation:
    key = f"{row.demand}/{row.level}/{row.at}/{row.job_id}"
    return reading("waits", key, _read_wait, row)


def _read_wait(row: AnyRow) -> WaitObservation:
    return WaitObservation(
        job_id=row.job_id,
        demand=row.demand,
        level=row.level,
        wait=row.wait,
        is_censored=row.is_censored,
        at=row.at,
    )


def _end_row(end: JobEnd) -> Values:
    return {
        "queue": end.queue,
        "at": end.at,
        "job_id": end.job_id,
        "gpus": end.gpus,
        "ran_for": end.ran_for,
        "is_complete": end.is_complete,
    }


def _to_end(row: AnyRow) -> JobEnd:
    return reading("ends", f"{row.queue}/{row.at}/{row.job_id}", _read_end, row)


def _read_end(row: AnyRow) -> JobEnd:
    return JobEnd(
        job_id=row.job_id,
        queue=row.queue,
        gpus=row.gpus,
        ran_for=row.ran_for,
        is_complete=row.is_complete,
        at=row.at,
    )
