"""Where the server keeps things: the data folder, and the database's URL and file.

Imports nothing heavy: a folder that can not be used is refused before the server is loaded.
"""

import errno
import os
import tempfile
from pathlib import Path

from scheduler.adapters.sql.file_lock import FileLock, lock_file
from scheduler.config_file import ConfigError
from scheduler.settings import Settings, flag_of
from scheduler.topology_file import FileProblem

FILE_NAME = "dally.db"
OWNER_ONLY = 0o700
PROBE_BYTES = 64 << 10
"""Less room than this is none: the first migration alone writes more."""


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
    """The data folder, readable by its user alone. Raises ConfigError if it can not be used."""
    folder = settings.data_dir
    try:
        folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, prefix=".probe-") as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise _refusal(folder, error) from error


def refuse_if_served(settings: Settings) -> None:
    """Raise AlreadyServingError if a server holds the SQLite file of the data folder.

    Only a look: the lock is taken when the store is opened, and then it decides.
    """
    if not settings.database_url.get_secret_value():
        FileLock(lock_file(file_of(settings))).release()


def look_at_data_dir(settings: Settings) -> str:
    """What `make_data_dir` would find, without making anything. Raises ConfigError."""
    folder = settings.data_dir
    try:
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        if not nearest.is_dir():
            raise NotADirectoryError
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _refusal(folder, error) from error
    return str(folder) if nearest == folder else f"{folder} will be made"


def _refusal(folder: Path, error: OSError) -> ConfigError:
    problem = FileProblem(place=flag_of("data_dir"), detail=_unusable(folder, error))
    return ConfigError("the configuration of dallyd", [problem])


def _unusable(folder: Path, error: OSError) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{folder} is not a folder, or lies below a file"
    return f"{folder} can not be made or written to: {error.strerror or error}"
