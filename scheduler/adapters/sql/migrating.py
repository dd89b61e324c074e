"""Runs the migrations in migrations/, and says whether a schema fits this code.

upgrade(url)     bring the schema to the newest revision; several processes may try at once
current(url)     the revision of a database; None when it is empty
head()           the newest revision this code knows
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, func, select, text

from scheduler.adapters.sql.connecting import (
    create_private_file,
    database_file,
    open_engines,
    trouble_in_our_words,
)
from scheduler.adapters.sql.file_lock import FileLock, lock_file
from scheduler.adapters.sql.tables import THE_ONLY, instance
from scheduler.domain.errors import WrongSchemaError

_MIGRATION_LOCK = 0x64616C6C79
"""Any number that no other program in the same database locks: the letters of the product."""


@cache
def head() -> str:
    """The newest revision this code knows."""
    newest = _scripts().get_current_head()
    assert newest is not None, "there is a migration"
    return newest


def current(database_url: str) -> str | None:
    """The revision of the database; None when nothing has been migrated."""
    path = database_file(database_url)
    if path is not None and not path.exists():
        return None
    engines = open_engines(database_url)
    try:
        with trouble_in_our_words(), engines.readers.connect() as connection:
            return _revision_of(connection)
    finally:
        engines.dispose()


def upgrade(database_url: str, revision: str = "head") -> None:
    """Migrate up to a revision; where the database is there already nothing happens.

    Raises AlreadyServingError while a server uses the SQLite file, WrongSchemaError when the schema
    is of a newer version.
    """
    with _alone(database_url) as connection:
        found = _revision_of(connection)
        connection.rollback()
        if found is not None and not _is_known(found):
            raise WrongSchemaError(found=found, needed=head(), what_to_do="use the newer version")
        command.upgrade(_config(connection), revision)


def downgrade(database_url: str, revision: str) -> None:
    """Migrate down, which drops data: for tests."""
    with _alone(database_url) as connection:
        command.downgrade(_config(connection), revision)


def check_schema(connection: Connection) -> None:
    """Raise WrongSchemaError unless this code works on the schema.

    A newer schema is fine while it says so itself: old and new replicas serve side by side.
    """
    found = _revision_of(connection)
    if found == head():
        return
    if found is None or _is_known(found):
        raise WrongSchemaError(found=found, needed=head(), what_to_do="run `dallyd migrate`")
    oldest_code = connection.scalar(
        select(instance.c.code_revision_min).where(instance.c.name == THE_ONLY)
    )
    # Revisions are numbers of four digits.
    if oldest_code is None or oldest_code > head():
        raise WrongSchemaError(found=found, needed=head(), what_to_do="use a newer version")


def expect_database(path: Path) -> None:
    """Raise WrongSchemaError if there is no SQLite file yet."""
    if not path.exists():
        raise WrongSchemaError(found=None, needed=head(), what_to_do="run `dallyd migrate`")


def _revision_of(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _is_known(revision: str) -> bool:
    return revision in {script.revision for script in _scripts().walk_revisions()}


@cache
def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config(connection: Connection | None = None) -> Config:
    """Settings for Alembic; env.py migrates over the given connection."""
    package = find_spec("migrations")
    assert package is not None
    assert package.submodule_search_locations
    config = Config()
    config.set_main_option("script_location", next(iter(package.submodule_search_locations)))
    config.attributes["connection"] = connection
    return config


@contextmanager
def _alone(database_url: str) -> Iterator[Connection]:
    """A connection for migrating while nobody else migrates."""
    path = database_file(database_url)
    engines = open_engines(database_url)
    try:
        with trouble_in_our_words():
            if path is None:
                with _alone_on_postgres(engines.writer) as connection:
                    yield connection
                return
            create_private_file(path)
            lock = FileLock(lock_file(path))
            try:
                with engines.writer.connect() as connection:
                    yield connection
            finally:
                lock.release()
    finally:
        engines.dispose()


@contextmanager
def _alone_on_postgres(engine: Engine) -> Iterator[Connection]:
    # The lock hangs on a transaction of its own, so that each migration has one too. It is not a
    # session's lock, which a connection pooler in between would leave behind.
    with engine.connect() as holder, engine.connect() as connection:
        for setting in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
            holder.execute(text(f"SET LOCAL {setting} = 0"))
        holder.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        # A migration may take long; what it must not do is wait for locks and block all others.
        connection.execute(text("SET statement_timeout = 0"))
        connection.commit()
        yield connection
