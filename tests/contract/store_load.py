"""A process that writes jobs from several threads and says of each when it was acknowledged.

python -m tests.contract.store_load URL [POINT NTH]    dies of SIGKILL the NTH time at POINT

It prints `acked NAME` after each write, and `synced BYTES`: so long was the write-ahead log when
its last commit had been synced.
"""

import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Lock, Thread

from scheduler.adapters.sql.connecting import database_file
from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.ports.kill_points import KillPoint, arm
from scheduler.ports.unit import InsertJob, Unit
from tests.builders import a_job
from tests.contract.stores import an_event

WRITERS = 6
BALLAST = "x" * 500
"""Makes the log grow, so that checkpoints happen too."""

_print_lock = Lock()


def main() -> None:
    """Write until killed."""
    url, *death = sys.argv[1:]
    path = database_file(url)
    arm(Hook(path, death))
    with open_store(url) as store:
        say(f"pid {os.getpid()}")
        numbers = count()
        threads = [Thread(target=_write, args=(store, numbers)) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def say(line: str) -> None:
    """Print a line at once and whole."""
    with _print_lock:
        os.write(1, f"{line}\n".encode())


def _write(store: SqlStore, numbers: Iterator[int]) -> None:
    for number in numbers:
        name = f"{os.getpid()}-{number}"
        told = (an_event(name, message=BALLAST),)
        store.write(Unit(changes=(InsertJob(job=a_job(name), source=BALLAST),), events=told))
        say(f"acked {name}")


class Hook:
    """Tells how much is synced, and kills the process at the wanted time."""

    def __init__(self, path: Path | None, death: list[str]) -> None:
        self._log = None if path is None else path.with_name(f"{path.name}-wal")
        self._point = KillPoint(death[0]) if death else None
        self._left = int(death[1]) if death else 0

    def __call__(self, point: KillPoint) -> None:
        """Called by the writer."""
        if point is KillPoint.STORE_AFTER_COMMIT and self._log is not None:
            say(f"synced {self._log.stat().st_size}")
        if point is self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
