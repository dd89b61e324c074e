"""What Alembic runs: each migration in a transaction of its own, on SQLite too."""

from collections.abc import Iterable

from alembic import context
from alembic.operations import MigrationScript
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Connection, create_engine
from sqlalchemy.types import TypeEngine

from scheduler.adapters.sql.tables import metadata


def migrate(connection: Connection) -> None:
    """Run what the command asked for."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transaction_per_migration=True,
        # True of SQLite as well, as its driver here does not begin transactions of its own accord.
        transactional_ddl=True,
        # SQLite changes a table by copying it.
        render_as_batch=True,
        compare_type=has_other_type,
        compare_server_default=True,
        process_revision_directives=number_revision,
    )
    with context.begin_transaction():
        context.run_migrations()


def has_other_type(
    migration: MigrationContext,
    _inspected: Column[object],
    _wanted: Column[object],
    inspected_type: TypeEngine[object],
    wanted_type: TypeEngine[object],
) -> bool:
    """Whether a column has another type than the tables of the code say, collation included."""
    return inspected_type.compile(migration.dialect) != wanted_type.compile(migration.dialect)


def number_revision(
    _migration: MigrationContext,
    _revision: str | Iterable[str | None] | Iterable[str],
    directives: list[MigrationScript],
) -> None:
    """Give a new revision the next number of four digits: `check_schema` compares them."""
    head = context.script.get_current_head()
    directives[0].rev_id = f"{int(head or 0) + 1:04d}"


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    url = context.get_x_argument(as_dictionary=True).get("url")
    if url is None:
        raise SystemExit("name the database: alembic -x url=sqlite:////tmp/some.db ...")
    with create_engine(url).connect() as own:
        migrate(own)
