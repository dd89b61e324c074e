"""Faults of the disk under a SQLite store."""

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from scheduler.adapters.sql.job_store import SqlStore
from scheduler.adapters.sql.writer import Transaction

_NO_LIMIT = 2**30


@contextmanager
def a_full_database(store: SqlStore) -> Iterator[None]:
    """Not a page more than now: SQLite says what it says when the disk is full."""
    pages: list[int] = []

    def limit(transaction: Transaction) -> None:
        pages.append(transaction.connection.exec_driver_sql("PRAGMA page_count").scalar_one())
        transaction.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages[0]}")

    def limit_again(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages[0]}")

    def lift(transaction: Transaction) -> None:
        transaction.connection.exec_driver_sql(f"PRAGMA max_page_count = {_NO_LIMIT}")

    writer, engine = store._writer, store._engines.writer
    writer.submit(limit).result()
    event.listen(engine, "connect", limit_again)
    yield
    event.remove(engine, "connect", limit_again)
    writer.submit(lift).result()


@contextmanager
def no_file_may_grow(bytes_max: int) -> Iterator[None]:
    """Writing behind so many bytes of any file fails, in this whole process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class LosesSync(sqlite3.Connection):
    """A connection over a disk that can be told to fail when a commit is synced."""

    is_broken = False

    def commit(self) -> None:
        """Commit, or report what SQLite reports when fsync fails."""
        if self.is_broken:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
            raise error
        super().commit()


def over_a_disk_that_loses_syncs(store: SqlStore) -> None:
    """Have the store's next commits fail to sync."""

    def connect_broken(_dialect: Any, _record: Any, _args: Any, params: dict[str, Any]) -> None:
        params["factory"] = LosesSync

    event.listen(store._engines.writer, "do_connect", connect_broken)
    store._writer._drop_connection()
    LosesSync.is_broken = True
