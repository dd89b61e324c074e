"""Forgets what has been kept long enough, a bounded number of rows at a time."""

from sqlalchemy import Connection, Table, bindparam, case, delete, select, tuple_, update

from scheduler.adapters.sql.tables import (
    THE_ONLY,
    audit,
    deleted_jobs,
    events,
    instance,
    replies,
    worker_logs,
)
from scheduler.domain.instants import Instant
from scheduler.ports.unit import Expire


def expire(change: Expire, connection: Connection) -> None:
    """Forget, and note up to which sequence readers of changes may have missed something."""
    rows_max = change.rows_max
    forgotten = [
        *_forget_oldest(connection, events, change.events_before, rows_max=rows_max),
        *_forget_oldest(connection, deleted_jobs, change.events_before, rows_max=rows_max),
    ]
    _forget_oldest(connection, replies, change.replies_before, rows_max=rows_max)
    _forget_oldest(connection, audit, change.audit_before, rows_max=rows_max)
    _forget_oldest(connection, worker_logs, change.logs_before, rows_max=rows_max)
    if forgotten:
        connection.execute(_RAISE_HORIZON, {"reached": max(forgotten)})


_RAISE_HORIZON = (
    update(instance)
    .where(instance.c.name == THE_ONLY)
    .values(
        horizon=case(
            (instance.c.horizon < bindparam("reached"), bindparam("reached")),
            else_=instance.c.horizon,
        )
    )
)


def _forget_oldest(
    connection: Connection, table: Table, before: Instant, *, rows_max: int
) -> list[int]:
    """Delete rows by age, then key; the sequence numbers of those deleted, where rows have one."""
    key = list(table.primary_key)
    oldest = select(*key).where(table.c.at < before).order_by(table.c.at, *key).limit(rows_max)
    forgetting = delete(table).where(tuple_(*key).in_(oldest))
    if "sequence" not in table.c:
        connection.execute(forgetting)
        return []
    return list(connection.scalars(forgetting.returning(table.c.sequence)))
