"""Where checkpoints lie, and how to write one so that a reader never sees half of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dally_runtime.contract import variable


def checkpoint_dir() -> Path | None:
    """The folder that all attempts of the job share, made if need be; None outside a job."""
    folder = variable("DALLY_CHECKPOINT_DIR")
    if not folder:
        return None
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path


def attempt() -> int:
    """Which start of the job this is, counted from 0; 0 outside a job."""
    return int(variable("DALLY_ATTEMPT") or 0)


@contextmanager
def atomic_file(path: Path | str) -> Iterator[Path]:
    """A path to write to; on leaving well, the file is on disk under its own name.

    If the block raises or the process dies, the file is what it was before.
    """
    target = Path(path)
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        yield new
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        new.unlink(missing_ok=True)
