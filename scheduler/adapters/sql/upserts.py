"""INSERT that replaces what stands under the same key, in the words of each database."""

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Connection, Table, func
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from scheduler.adapters.sql.rows import Values
from scheduler.adapters.sql.tables import events


def put(connection: Connection, table: Table, rows: Sequence[Values]) -> None:
    """Insert the rows; those whose primary key exists replace what stands there."""
    if rows:
        connection.execute(_put_statement(table, connection.dialect.name), list(rows))


def put_new(connection: Connection, table: Table, row: Values) -> bool:
    """Insert the row; False, and nothing is changed, if its key exists."""
    return connection.execute(_new_statement(table, connection.dialect.name), row).rowcount == 1


@cache
def _new_statement(table: Table, dialect: str) -> Insert:
    statement = _insert(table, dialect).on_conflict_do_nothing()
    return statement.execution_options(preserve_rowcount=True)


@cache
def _put_statement(table: Table, dialect: str) -> Insert:
    inserting = _insert(table, dialect)
    key = list(table.primary_key)
    others = {c.name: inserting.excluded[c.name] for c in table.c if not c.primary_key}
    return inserting.on_conflict_do_update(index_elements=key, set_=others)


def put_event(connection: Connection, row: Values) -> None:
    """Insert an event, or count it into the one that it repeats, which moves to the end."""
    connection.execute(_event_statement(connection.dialect.name), row)


@cache
def _event_statement(dialect: str) -> Insert:
    inserting = _insert(events, dialect)
    now = inserting.excluded
    return inserting.on_conflict_do_update(
        index_elements=[events.c.fold_digest],
        set_={
            "sequence": now.sequence,
            "times": events.c.times + now.times,
            "first_at": func.coalesce(events.c.first_at, events.c.at),
            "at": now.at,
            "actor": now.actor,
            "job_name": now.job_name,
        },
    )


def _insert(table: Table, dialect: str) -> "postgresql.Insert | sqlite.Insert":
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
