"""The database of the settings: its URL, its migration, and the store on it."""

from pathlib import Path

from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.adapters.sql.migrating import current, head, upgrade
from scheduler.settings import Settings

FILE_NAME = "dally.db"
OWNER_ONLY = 0o700


def is_sqlite(settings: Settings) -> bool:
    """Whether the database is a file of this machine."""
    return database_url(settings).startswith("sqlite")


def database_url(settings: Settings) -> str:
    """The URL as given, else that of a file in the data folder."""
    return settings.database_url.get_secret_value() or f"sqlite:///{file_of(settings)}"


def file_of(settings: Settings) -> Path:
    """Where the SQLite file lies by default."""
    return settings.data_dir / FILE_NAME


def make_data_dir(settings: Settings) -> None:
    """The data folder, readable by its user alone."""
    settings.data_dir.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)


def migrate(settings: Settings) -> str:
    """Migrate, and say what was done."""
    url = database_url(settings)
    if is_sqlite(settings):
        make_data_dir(settings)
    before = current(url)
    upgrade(url)
    if before == head():
        return f"the schema is up to date (revision {before})"
    return f"the schema went from {f'revision {before}' if before else 'nothing'} to {head()}"


def open_to_serve(settings: Settings) -> SqlStore:
    """The store for a server; a SQLite file is migrated first. Raises AlreadyServingError."""
    make_data_dir(settings)
    if is_sqlite(settings):
        upgrade(database_url(settings))
    return open_store(database_url(settings))


def open_beside(settings: Settings) -> SqlStore:
    """The store for a command that may run beside a server."""
    return open_store(database_url(settings), is_server=False)
