"""An operating-system lock on a file: it ends with the process that holds it, however that ends."""

import fcntl
import os
from pathlib import Path

from scheduler.domain.errors import AlreadyServingError

_OWNER_ONLY = 0o600


class FileLock:
    """Held from its making until `release`."""

    def __init__(self, path: Path) -> None:
        """Raises AlreadyServingError, with the other's process id, if another process holds it."""
        # Not inherited by children, so a worker that outlives its server does not keep the lock.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise AlreadyServingError(
                f"process {holder or 'unknown'} already serves from {path.parent}"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process have it. The file stays: removing it would race with others."""
        os.close(self._descriptor)


def lock_file(path: Path) -> Path:
    """The file whose lock says that a process serves from the SQLite database at `path`."""
    return path.with_name(f"{path.name}.lock")
