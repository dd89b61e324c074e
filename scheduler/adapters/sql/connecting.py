"""Engines for a database URL, with the settings that our promises need, and the words for trouble.

sqlite:////var/lib/dally/dally.db        four slashes: an absolute path
postgresql://user:password@host/dally
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from scheduler.domain.errors import StoreUnavailableError

_BUSY_TIMEOUT_MS = 30_000
_WAL_BYTES_MAX = 64 * 1024 * 1024
_OWNER_ONLY = 0o600

_POSTGRES_OPTIONS = {
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "30s",
}
_CONNECT_TIMEOUT_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """One database, opened twice: the writer has one connection, readers have many."""

    writer: Engine
    readers: Engine
    path: Path | None
    """The file of a SQLite database; None on PostgreSQL."""

    @property
    def is_sqlite(self) -> bool:
        """Whether one process owns the database."""
        return self.path is not None

    def dispose(self) -> None:
        """Close every connection that is not in use."""
        self.writer.dispose()
        self.readers.dispose()


def open_engines(database_url: str) -> Engines:
    """Engines for the URL; nothing is connected yet. ValueError if no such database is known."""
    url = make_url(database_url)
    match url.get_backend_name():
        case "sqlite":
            return _sqlite_engines(url)
        case "postgresql" | "postgres":
            return _postgres_engines(url)
        case other:
            raise ValueError(f"no support for {other!r} databases; use sqlite or postgresql")


def database_file(database_url: str) -> Path | None:
    """The file of a SQLite database; None for other databases."""
    url = make_url(database_url)
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database == ":memory:":
        raise ValueError("a SQLite URL names a file, e.g. sqlite:////var/lib/dally/dally.db")
    return Path(url.database)


def postgres_conninfo(database_url: str) -> str | None:
    """The URL as the driver takes it; None for other databases."""
    url = make_url(database_url)
    if url.get_backend_name() == "sqlite":
        return None
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


# SQLite.


def _sqlite_engines(url: URL) -> Engines:
    path = database_file(url.render_as_string(hide_password=False))
    assert path is not None
    writer = create_engine(url, poolclass=NullPool, connect_args={"check_same_thread": False})
    event.listen(writer, "connect", _on_sqlite_writer_connect)
    event.listen(writer, "begin", _begin_immediate)
    readers = create_engine(
        url, pool_size=8, max_overflow=56, connect_args={"check_same_thread": False}
    )
    event.listen(readers, "connect", _on_sqlite_reader_connect)
    event.listen(readers, "begin", _begin)
    return Engines(writer=writer, readers=readers, path=path)


def create_private_file(path: Path) -> None:
    """Make the database file so that only its owner reads it: secrets lie in it."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY))


def _on_sqlite_writer_connect(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    _prepare_sqlite(connection)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_MAX}")
    assert_durable(connection)


def assert_durable(connection: sqlite3.Connection) -> None:
    """Refuse to go on if a commit would not be on disk when it returns."""
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if (mode, level) != ("wal", 2):
        raise StoreUnavailableError(
            f"SQLite is not durable here: journal_mode={mode}, synchronous={level}"
        )


def _on_sqlite_reader_connect(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    _prepare_sqlite(connection)
    connection.execute("PRAGMA query_only = ON")


def _prepare_sqlite(connection: sqlite3.Connection) -> None:
    # The driver must not begin transactions of its own accord: we say when and how.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


# PostgreSQL.


def _postgres_engines(url: URL) -> Engines:
    url = url.set(drivername="postgresql+psycopg")
    options = " ".join(f"-c {name}={value}" for name, value in _POSTGRES_OPTIONS.items())
    arguments: dict[str, Any] = {"connect_timeout": _CONNECT_TIMEOUT_S, "options": options}
    writer = create_engine(
        url, poolclass=NullPool, connect_args=arguments, isolation_level="READ COMMITTED"
    )
    event.listen(writer, "connect", _on_postgres_writer_connect)
    # One snapshot for all statements of a read, so that its parts fit together.
    readers = create_engine(
        url,
        pool_size=8,
        max_overflow=24,
        connect_args=arguments,
        isolation_level="REPEATABLE READ",
        execution_options={"postgresql_readonly": True},
    )
    return Engines(writer=writer, readers=readers, path=None)


def _on_postgres_writer_connect(
    connection: "psycopg.Connection[tuple[object, ...]]", _: ConnectionPoolEntry
) -> None:
    with connection.cursor() as cursor:
        if _shown(cursor, "fsync") == "off":
            raise StoreUnavailableError("PostgreSQL is not durable here: fsync is off")
        if _shown(cursor, "synchronous_commit") not in {"on", "remote_apply"}:
            cursor.execute("SET synchronous_commit = on")
    connection.commit()


def _shown(cursor: "psycopg.Cursor[tuple[object, ...]]", setting: LiteralString) -> object:
    row = cursor.execute(f"SHOW {setting}").fetchone()
    assert row is not None
    return row[0]


# Trouble.


@contextmanager
def trouble_in_our_words() -> Iterator[None]:
    """Say StoreUnavailableError for what is wrong with the database, not with a statement."""
    try:
        yield
    except exc.DBAPIError as error:
        if is_trouble(error):
            raise StoreUnavailableError(first_line(error.orig)) from error
        raise
    except exc.TimeoutError as error:
        raise StoreUnavailableError("no database connection got free in time") from error
    except (sqlite3.Error, psycopg.Error) as error:
        # From our own set-up of a fresh connection, which SQLAlchemy does not wrap.
        raise StoreUnavailableError(first_line(error)) from error
    except OSError as error:
        # From making the file of a SQLite database, or the one that is locked beside it.
        raise StoreUnavailableError(f"{error.filename}: {error.strerror}") from error


def is_trouble(error: exc.DBAPIError) -> bool:
    """Whether the database does not answer or can not do its work just now."""
    is_about_statement = isinstance(
        error, exc.IntegrityError | exc.ProgrammingError | exc.DataError | exc.NotSupportedError
    )
    return error.connection_invalidated or not is_about_statement


def is_transient(error: exc.DBAPIError) -> bool:
    """Whether the same transaction, run again at once, may well succeed: nothing was committed."""
    return isinstance(
        error.orig, psycopg.errors.SerializationFailure | psycopg.errors.DeadlockDetected
    )


def is_lost_sync(error: exc.DBAPIError) -> bool:
    """Whether the disk failed to sync: no later sync may be believed, so the process has to end."""
    name = getattr(error.orig, "sqlite_errorname", "")
    return name in {"SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC"}


def first_line(error: BaseException | None) -> str:
    """What a driver says, without its longer explanations."""
    return next(iter(str(error).strip().splitlines()), repr(error))
