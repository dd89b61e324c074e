"""The supervisor of one worker: a small process of its own that outlives the server.

    python -I -S supervisor.py WORKER_FOLDER

It claims the folder, waits at the barrier, runs the command and writes down how that ended. All it
is told and all it tells are files in the folder (by atomic rename), so that any server, started
before or after it, sees the same:

    spec      what to run                         written by the server
    wake      a FIFO: look at the files again     written by the server
    ../release, ../stop                           written by the server
    lock      held for the supervisor's whole life: if it is free, the supervisor is dead
    claim     it exists                           worker is MADE
    run       the command was started             worker is RUNNING
    end       how it ended                        worker is ENDED or REFUSED
    log.N     the output from byte N on
    times.N   when it was read

A folder is claimed once in its life: a second supervisor, however it came to be, leaves at once.
So no worker is ever doubled. Standard library only, and little of it: 64 of these start at once.
"""

import errno
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping

SPEC, WAKE, LOCK, CLAIM, RUN, END = "spec", "wake", "lock", "claim", "run", "end"
LOG_PREFIX, TIMES_PREFIX = "log.", "times."
RELEASE, STOP = "release", "stop"
EVENTS = "events"
"""FIFO of the whole executor: supervisors write the name of a folder whose state has changed."""

SEGMENTS_KEPT = 8
TIME_BYTES = 16
TIME_STEP = 10_000
"""Output of so many microseconds may share one time."""
IDLE_LOOK_MS = 5_000
"""How often the files are looked at although nobody rang; a server that died may have forgotten."""
HOLDER_LOOK_MS = 200
GROUP_LOOK_MS = 50
READ_BYTES = 1 << 16
READS_MAX = 64
"""Reads before other things are looked after; together more than a pipe holds."""

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes that shells give when a command can not be started."""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


class Spec:
    """What to run, as the server wrote it: records `key=value`, each ended by a NUL."""

    def __init__(self, text: str) -> None:
        self.command: list[str] = []
        self.environ: dict[str, str] = {}
        self.folder = "/"
        self.holds_until = ""
        """A folder of a worker: run nothing, end when that one has ended."""
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


class Log:
    """Output in segments named by the offset of their first byte; old segments are dropped.

    Beside each lies a file of times: pairs of an offset and the microsecond at which the bytes from
    there on were read, eight bytes each. Both count for the size.
    """

    def __init__(self, bytes_max: int) -> None:
        self._segment_bytes = max(TIME_BYTES + 1, bytes_max // SEGMENTS_KEPT)
        self._starts: list[int] = []
        self._end = 0
        self._left = 0
        """Bytes the segment may still take."""
        self._output = self._times = -1
        self._last_time = 0

    def write(self, data: bytes) -> None:
        """Append `data`; what the disk does not take is dropped, for the worker must go on."""
        try:
            while data:
                if self._left <= 0:
                    self._open_segment()
                self._note_time()
                written = os.write(self._output, data[: max(1, self._left)])
                self._end += written
                self._left -= written
                data = data[written:]
        except OSError:
            return

    def sync(self) -> None:
        """Have what was written on disk, if the disk can."""
        try:
            if self._output >= 0:
                os.fdatasync(self._output)
        except OSError:
            return

    def _note_time(self) -> None:
        """Before the bytes themselves, so that a reader who sees them sees their time."""
        now = microseconds()
        if now - self._last_time >= TIME_STEP:
            pair = self._end.to_bytes(8, "little") + now.to_bytes(8, "little")
            os.write(self._times, pair)
            self._last_time = now
            self._left -= TIME_BYTES

    def _open_segment(self) -> None:
        times = open_new(f"{TIMES_PREFIX}{self._end}")  # Who sees a segment finds its times.
        output = open_new(f"{LOG_PREFIX}{self._end}")
        if self._output >= 0:
            os.close(self._output)
            os.close(self._times)
        self._output, self._times = output, times
        self._left = self._segment_bytes
        self._last_time = 0
        self._starts.append(self._end)
        while len(self._starts) > SEGMENTS_KEPT:
            dropped = self._starts.pop(0)
            os.unlink(f"{LOG_PREFIX}{dropped}")
            os.unlink(f"{TIMES_PREFIX}{dropped}")


class Supervisor:
    """One worker's life, from the claim to the end. The working folder is the worker's."""

    def __init__(self, name: str, spec: Spec) -> None:
        self._name = name
        self._spec = spec
        self._wake = os.open(WAKE, os.O_RDWR | os.O_NONBLOCK)
        self._signals, signals = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(signals, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note_signal)
        self._got_signal = False
        self._has_told = False
        self._kill_at: float | None = None
        """On the machine's monotonic clock; None while nobody asked for a stop."""
        self._main = 0
        self._output = -1
        self._log = Log(self._spec.log_bytes_max)

    def live(self) -> None:
        """From the barrier to the end."""
        if not self._wait_for_release():
            self._end({"exit_code": 128 + signal.SIGTERM, "message": "stopped before it ran"})
        elif self._spec.holds_until:
            self._hold()
        else:
            self._run()

    def _wait_for_release(self) -> bool:
        while True:
            self._look_for_stop()
            if self._kill_at is not None or self._got_signal:
                return False
            if os.path.exists(f"../{RELEASE}"):
                return True
            self._wait(IDLE_LOOK_MS)

    def _hold(self) -> None:
        write_record(RUN, {"started_at": microseconds()})
        tell(self._name)
        while not os.path.exists(f"{self._spec.holds_until}/{END}"):
            self._look_for_stop()
            if self._kill_at is not None or self._got_signal:
                self._end({"exit_code": 128 + signal.SIGTERM})
                return
            self._wait(HOLDER_LOOK_MS)
        self._end({"exit_code": 0})

    def _run(self) -> None:
        failure = self._start()
        if failure:
            code = NOT_FOUND if failure == errno.ENOENT else NOT_EXECUTABLE
            why = f"{self._spec.command[0]}: {os.strerror(failure)}"
            self._end({"exit_code": code, "launch_failed": 1, "message": why})
            return
        process: dict[str, int | str] = {"pid": self._main, "ticks": start_ticks(self._main)}
        write_record(RUN, {**process, "started_at": microseconds()})
        tell(self._name)
        status = self._wait_for_main()
        ended_at = microseconds()
        self._wait_for_group()
        end_children()
        self._pump()
        code = os.waitstatus_to_exitcode(status)
        self._log.sync()
        self._end({"exit_code": 128 - code if code < 0 else code, "ended_at": ended_at})

    def _start(self) -> int:
        """Start the command; returns the errno of the failure, 0 if it runs."""
        prctl = load_prctl()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._output, output = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._output, False)
        failure, report_failure = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        self._main = os.fork()
        if self._main == 0:
            try:
                os.setpgid(0, 0)
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == parent:
                    become(self._spec, output=output, report_failure=report_failure)
            finally:
                os._exit(NOT_EXECUTABLE)
        os.close(output)
        os.close(report_failure)
        with open(failure, "rb") as told:
            text = told.read()
        if text:
            os.waitpid(self._main, 0)
        return int(text or b"0")

    def _wait_for_main(self) -> int:
        """Pump the log, pass on a stop, kill at its end; returns the wait status of the command."""
        is_killed = False
        while True:
            self._pump()
            status = reap(self._main)
            if status is not None:
                return status
            self._look_for_stop()
            self._pass_on_stop()
            left_ms = IDLE_LOOK_MS
            if self._kill_at is not None and not is_killed:
                left_ms = max(0, int((self._kill_at - time.monotonic()) * 1000) + 1)
                if self._kill_at <= time.monotonic():
                    is_killed = True
                    signal_group(self._main, signal.SIGKILL)
            self._wait(min(left_ms, IDLE_LOOK_MS), self._output)

    def _wait_for_group(self) -> None:
        """After a stop, what the command has started itself gets the rest of the grace."""
        while self._has_told and signal_group(self._main, 0):
            if self._kill_at is None or self._kill_at <= time.monotonic():
                return
            self._pump()
            reap(0)
            self._look_for_stop()
            self._wait(GROUP_LOOK_MS, self._output)

    def _pass_on_stop(self) -> None:
        if (self._kill_at is not None or self._got_signal) and not self._has_told:
            self._has_told = True
            signal_group(self._main, signal.SIGTERM)
            signal_group(
                self._main, signal.SIGCONT
            )  # One that was suspended has to wake up for it.

    def _pump(self) -> None:
        """Move what the worker has written into its log; a part of it, if it writes without end."""
        for _ in range(READS_MAX):
            if self._output < 0:
                return
            try:
                data = os.read(self._output, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                os.close(self._output)
                self._output = -1
            self._log.write(data)

    def _look_for_stop(self) -> None:
        facts = read_record(f"../{STOP}")
        if facts:
            self._kill_at = int(facts["kill_at"]) / 1_000_000

    def _wait(self, milliseconds: int, *others: int) -> None:
        """Until something happens, at most so long."""
        poll = select.poll()
        for fd in (self._wake, self._signals, *(fd for fd in others if fd >= 0)):
            poll.register(fd, select.POLLIN)
        poll.poll(milliseconds)
        for fd in (self._wake, self._signals):
            try:
                os.read(fd, READ_BYTES)
            except BlockingIOError:
                continue

    def _note_signal(self, _number: int, _frame: object) -> None:
        self._got_signal = True

    def _end(self, facts: Mapping[str, int | str]) -> None:
        """Write the end down, however long the disk needs, and tell the server."""
        while True:
            try:
                write_record(END, {"ended_at": microseconds(), **facts}, durable=True)
                break
            except OSError:
                time.sleep(1)
        tell(self._name)


def become(spec: Spec, *, output: int, report_failure: int) -> None:
    """In the forked child: turn into the command; returns only if that failed."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        os.chdir(spec.folder)
        os.execvpe(spec.command[0], spec.command, spec.environ)  # noqa: S606 - no shell wanted
    except OSError as error:
        os.write(report_failure, str(error.errno).encode())


def claim(spec: Spec) -> bool:
    """Take the folder for this process; False if it was taken before or can not be run."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    if os.path.exists(CLAIM) or os.path.exists(END):
        return False
    refusal = spec.refusal()
    if refusal:
        write_record(END, {"refused": 1, "message": refusal, "ended_at": microseconds()})
        return False
    write_record(CLAIM, {"pid": os.getpid(), "ticks": start_ticks(os.getpid()), "boot": boot_id()})
    return True


def tell(name: str) -> None:
    """Tell a server, if there is one, that the state of this worker has changed."""
    try:
        with open(f"../../../{EVENTS}", "ab", buffering=0, opener=open_nonblocking) as events:
            events.write(f"{name}\n".encode())
    except OSError:
        return  # No server, or it is busy: it looks at the files by itself as well.


def open_new(path: str) -> int:
    """Open a file to append to it."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def open_nonblocking(path: str, _flags: int) -> int:
    """Open a FIFO to write; an error instead of a wait if nobody reads."""
    return os.open(path, os.O_WRONLY | os.O_NONBLOCK)


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


def reap(main: int) -> int | None:
    """Collect children that have ended; the wait status of `main` if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == main:
            found = status


def end_children() -> None:
    """End what the command has left behind; orphans come to us, however far down they were."""
    pause = 0.001
    while True:
        for pid in children():
            signal_process(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(pause)
        pause = min(0.1, pause * 2)


def children() -> list[int]:
    """Processes whose parent is this one."""
    me = str(os.getpid())
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields and fields[1] == me:
                found.append(int(name))
    return found


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def start_ticks(pid: int) -> str:
    """When a process was started, in ticks since boot: tells it from a later one of its id."""
    fields = stat_fields(pid)
    return fields[19] if fields else ""


def boot_id() -> str:
    """Names this run of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def signal_group(group: int, number: int) -> bool:
    """Signal a process group; False if it does not exist any more."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def signal_process(pid: int, number: int) -> None:
    """Signal a process, if it still exists."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def microseconds() -> int:
    """The wall clock."""
    return time.time_ns() // 1000


def load_prctl() -> Callable[[int, int], int]:
    """The system call; loaded late because a worker at the barrier does not need it."""
    import ctypes  # noqa: PLC0415 - loading it takes a third of the start-up time

    prctl: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    return prctl


def main() -> None:
    """Entry point."""
    folder = sys.argv[1]
    os.chdir(folder)
    name = "/".join(folder.split("/")[-2:])
    with open(SPEC, encoding="utf-8", errors="surrogateescape", newline="") as file:
        spec = Spec(file.read())
    is_mine = claim(spec)
    tell(name)
    if is_mine:
        Supervisor(name, spec).live()


if __name__ == "__main__":
    main()
