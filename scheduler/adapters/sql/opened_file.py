"""Whether the file of a SQLite database is still the one that was opened.

Whoever puts a backup in its place (`mv`) leaves us with a file that has no name any more: it takes
what we write, and nobody will ever read that. A file that is written over in place (SQLite's own
`.restore`) stays the same one; that shows in what it says.
"""

import os
from pathlib import Path

from scheduler.domain.errors import StoreReplacedError, StoreUnavailableError


class OpenedFile:
    """The file behind a store; none on PostgreSQL."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._opened = None if path is None else path.stat()

    def check(self) -> None:
        """Raise StoreReplacedError if another file lies there, or none; StoreUnavailableError if
        nobody can tell now."""
        if self._path is None or self._opened is None:
            return
        try:
            is_same = os.path.samestat(self._path.stat(), self._opened)
        except (FileNotFoundError, NotADirectoryError):
            is_same = False
        except OSError as error:
            raise StoreUnavailableError(str(error)) from error
        if not is_same:
            raise StoreReplacedError(str(self._path))
