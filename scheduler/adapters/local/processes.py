"""Processes of this machine: is a supervisor alive, and what is left of a worker that lost its own.

A process id alone says nothing, for ids are used again. A supervisor is alive while it holds the
lock of its folder, which the kernel takes back with its life. A process belongs to a worker if it
was started with that worker's hostfile and rank, which no other process has.
"""

import fcntl
import os
import signal
from pathlib import Path

from scheduler.adapters.local.folders import HOSTFILE, WorkerFolder
from scheduler.adapters.local.supervisor import process_table, records

_ROOT = str(Path(__file__).resolve().parents[3])
_BOOT = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from scheduler.adapters.local.supervisor.life import main; main()"
)
"""Starts a supervisor without site-packages, whose scan would take most of its start-up time."""

_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


class Children:
    """Supervisors started by this server. Those of an earlier one are not its children any more."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._alive: set[int] = set()

    def spawn(self, worker: WorkerFolder) -> int:
        """Start a supervisor in a session of its own; returns its process id. Raises OSError."""
        errors = str(worker.path / "supervisor.err")
        pid = os.posix_spawn(
            self._python,
            [self._python, "-I", "-S", "-c", _BOOT, _ROOT, str(worker.path)],
            {"PATH": os.defpath},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=_SIGNALS,
        )
        self._alive.add(pid)
        return pid

    def is_alive(self, pid: int) -> bool:
        """Whether the child has not ended."""
        return pid in self._alive and not self._collect(pid)

    def reap(self) -> None:
        """Collect the children that have ended."""
        for pid in sorted(self._alive):
            self._collect(pid)

    def _collect(self, pid: int) -> bool:
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            return False
        self._alive.remove(pid)
        return True


def complaint(worker: WorkerFolder) -> str:
    """The last thing the supervisor said before it died; empty if it said nothing."""
    try:
        lines = (worker.path / "supervisor.err").read_text(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def is_supervised(worker: WorkerFolder, claim: dict[str, str]) -> bool:
    """Whether the supervisor that claimed the worker is alive.

    Ask only about a claimed worker: looking at the lock takes it for a moment.
    """
    if claim.get("boot") != process_table.boot_id():
        return False
    try:
        lock = os.open(worker.path / records.LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def end_leftovers(worker: WorkerFolder) -> bool:
    """Kill what is left of a worker without supervisor; True once nothing is left."""
    if worker.claim().get("boot") != process_table.boot_id():
        return True
    run = worker.run()
    if run.get("pid") and process_table.start_ticks(int(run["pid"])) == run["ticks"]:
        process_table.signal_group(int(run["pid"]), signal.SIGKILL)
    found = _processes_of(worker)
    for pid in found:
        process_table.signal_process(pid, signal.SIGKILL)
    return not found


def ring(worker: WorkerFolder) -> None:
    """Have the supervisor look at its files, if it is there; now and then it does by itself."""
    try:
        wake = os.open(worker.path / records.WAKE, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(wake, b"\0")
    except BlockingIOError:
        return  # It has been rung for often enough.
    finally:
        os.close(wake)


def _processes_of(worker: WorkerFolder) -> list[int]:
    wanted = {
        f"DALLY_HOSTFILE={worker.path.parent / HOSTFILE}".encode(errors="surrogateescape"),
        f"DALLY_RANK={worker.path.name}".encode(),
    }
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue  # It has ended, or it belongs to another user and so is not ours.
        if wanted <= set(environ.split(b"\0")):
            found.append(int(entry.name))
    return found
