"""The files through which servers and supervisors tell each other what is wanted and what is so.

In the folder of a worker:

    spec      what to run                         written by the server
    wake      a FIFO: look at the files again     written by the server
    ../release, ../stop                           written by the server
    lock      held for the supervisor's whole life: if it is free, the supervisor is dead
    claim     it exists                           worker is MADE
    run       the command was started             worker is RUNNING
    end       how it ended                        worker is ENDED or REFUSED
    log.N     the output from byte N on
    times.N   when it was read
"""

import os
import time
from collections.abc import Mapping

SPEC, WAKE, LOCK, CLAIM, RUN, END = "spec", "wake", "lock", "claim", "run", "end"
LOG_PREFIX, TIMES_PREFIX = "log.", "times."
RELEASE, STOP = "release", "stop"
EVENTS = "events"
"""FIFO of the whole executor: supervisors write the name of a folder whose state has changed."""

TIME_BYTES = 16
"""Size of one entry of a `times` file: an offset and a microsecond."""


class Spec:
    """What to run, as the server wrote it: records `key=value`, each ended by a NUL."""

    def __init__(self, text: str) -> None:
        self.command: list[str] = []
        self.environ: dict[str, str] = {}
        self.folder = "/"
        self.holds_until = ""
        """A folder of a worker: run nothing, end when that one has ended."""
        self.spared: set[str] = set()
        """Names of programs that are not signalled at a stop: they end when what they run ends."""
        self.log_bytes_max = 64 << 20
        for record in text.split("\0")[:-1]:
            key, value = record.split("=", 1)
            if key == "arg":
                self.command.append(value)
            elif key == "env":
                name, content = value.split("=", 1)
                self.environ[name] = content
            elif key == "folder":
                self.folder = value
            elif key == "holds_until":
                self.holds_until = value
            elif key == "spared":
                self.spared.add(value)
            elif key == "log_bytes_max":
                self.log_bytes_max = int(value)

    def refusal(self) -> str:
        """Why this can not be run here; empty if it can, as far as one can see beforehand."""
        if self.holds_until:
            return ""
        if not os.path.isdir(self.folder):
            return f"no such working folder: {self.folder}"
        name = self.command[0]
        if os.sep in name:
            where = [os.path.join(self.folder, name)]
        else:
            search = self.environ.get("PATH", os.defpath).split(os.pathsep)
            where = [os.path.join(self.folder, entry, name) for entry in search]
        if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in where):
            return ""
        if any(os.path.exists(path) for path in where):
            return f"not an executable file: {name}"
        return f"no such command: {name}"


def write_record(path: str, facts: Mapping[str, int | str], *, durable: bool = False) -> None:
    """Write facts as lines `key=value`: all of them or none."""
    text = "".join(f"{key}={' '.join(str(value).split())}\n" for key, value in facts.items())
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.rename(new, path)
    if durable:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def read_record(path: str) -> dict[str, str]:
    """The facts of a record; empty if there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split("=", 1) for line in lines)


def tell(name: str) -> None:
    """Tell a server, if there is one, that the state of this worker has changed."""
    try:
        with open(f"../../../{EVENTS}", "ab", buffering=0, opener=open_nonblocking) as events:
            events.write(f"{name}\n".encode())
    except OSError:
        return  # No server, or it is busy: it looks at the files by itself as well.


def open_nonblocking(path: str, _flags: int) -> int:
    """Open a FIFO to write; an error instead of a wait if nobody reads."""
    return os.open(path, os.O_WRONLY | os.O_NONBLOCK)


def microseconds() -> int:
    """The wall clock."""
    return time.time_ns() // 1000
