"""The database of the settings: its migration, the store on it, the leadership in it."""

from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.adapters.sql.leader import SqlLeadership
from scheduler.adapters.sql.migrating import current, head, upgrade
from scheduler.adapters.sql.observing import StoreObserver
from scheduler.domain.instants import in_seconds
from scheduler.domain.lease import LeaseTimes
from scheduler.settings import Settings
from server.data_folder import database_url, is_sqlite, make_data_dir


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


def open_to_serve(settings: Settings, observer: StoreObserver) -> SqlStore:
    """The store for a server; a SQLite file is migrated first. Raises AlreadyServingError."""
    if is_sqlite(settings):
        upgrade(database_url(settings))
    return open_store(database_url(settings), observer=observer)


def open_beside(settings: Settings) -> SqlStore:
    """The store for a command that may run beside a server."""
    return open_store(database_url(settings), is_server=False)


def leadership_on(store: SqlStore, settings: Settings) -> SqlLeadership:
    """The leadership of a server on that store, with the lease of the settings."""
    lease_s = in_seconds(settings.lease)
    times = LeaseTimes(ttl_s=lease_s, act_s=lease_s * 2 / 3, renew_s=lease_s / 8)
    return SqlLeadership(store, times=times)
