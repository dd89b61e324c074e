"""The processes of a worker, seen by the first of them: started, waited for, told to stop."""

import ctypes
import errno
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

STOPS = frozenset({signal.SIGTERM, signal.SIGINT})
WAKE = signal.SIGUSR1
"""What a thread sends to its own process, so that the main thread looks."""

SPARED = frozenset(
    {
        *("mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi", "orterun", "orted"),
        *("prterun", "prte", "prted", "mpiexec.hydra", "hydra_pmi_proxy"),
    }
)
"""Not told to stop: mpirun and its daemons would kill the training soon after; they end with it."""

_PR_SET_CHILD_SUBREAPER = 36
_SIGNAL_BASE = 128


@dataclass
class Child:
    """A process that was started."""

    pid: int
    code: int | None = None
    """Its exit code once it has ended; 128+n after signal n."""
    ended: SimpleQueue[int] = field(default_factory=SimpleQueue)


class Children:
    """All processes below this one, also those whose parents have ended.

    Make it in the main thread, before any other thread: signals are taken by `next_signal` alone.
    """

    def __init__(self) -> None:
        self._signals = {signal.SIGCHLD, WAKE, *STOPS}
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        # The first process of a container gets orphans anyway; elsewhere this asks for them.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._lock = threading.Lock()
        self._children: dict[int, Child] = {}
        self._takes_more = True

    def start(self, *command: str) -> Child:
        """Start a command; none after a stop, which it would not hear of. Raises OSError."""
        with self._lock:
            if not self._takes_more:
                raise OSError(errno.ECANCELED, "a stop was asked for")
            pid = os.posix_spawnp(
                command[0],
                command,
                os.environ,
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )
            child = Child(pid=pid)
            self._children[pid] = child
        return child

    def next_signal(self) -> int:
        """Wait for one: a process has ended, somebody wants a stop, or a thread has news."""
        return signal.sigwait(self._signals)

    def reap(self) -> None:
        """Note which processes have ended."""
        while True:
            with self._lock:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return
                child = self._children.pop(pid, None)
            if pid == 0:
                return
            if child is not None:
                code = os.waitstatus_to_exitcode(status)
                child.code = code if code >= 0 else _SIGNAL_BASE - code
                child.ended.put(child.code)

    def ask_to_stop(self, *, spares: frozenset[int] = frozenset()) -> None:
        """Tell every process to stop but those of MPI itself, and those named here."""
        with self._lock:
            self._takes_more = False
        for pid, name in _descendants():
            if name not in SPARED and pid not in spares:
                try:
                    os.kill(pid, signal.SIGTERM)
                except ProcessLookupError:
                    continue

    def are_gone(self) -> bool:
        """Whether no process is left."""
        return not any(True for _ in _descendants())

    def pids(self) -> frozenset[int]:
        """Those that were started here and have not ended."""
        with self._lock:
            return frozenset(self._children)


def _descendants() -> Iterator[tuple[int, str]]:
    """Living processes below this one, with their names."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue  # It has ended meanwhile.
        pid, (head, _, rest) = int(entry.name), stat.rpartition(")")
        state, parent = rest.split()[:2]
        if state != "Z":
            parents[pid], names[pid] = int(parent), head.partition("(")[2]
    for pid in sorted(parents):
        above = parents[pid]
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            yield pid, names[pid]
