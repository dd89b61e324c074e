"""The life of a worker's supervisor, from the claim to the end."""

import errno
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping

from scheduler.adapters.local.supervisor.output_log import OutputLog
from scheduler.adapters.local.supervisor.process_table import (
    boot_id,
    children,
    descendants,
    end_children,
    process_name,
    reap,
    signal_group,
    signal_process,
    start_ticks,
)
from scheduler.adapters.local.supervisor.records import (
    CLAIM,
    END,
    LOCK,
    RELEASE,
    RUN,
    SPEC,
    STOP,
    WAKE,
    Spec,
    microseconds,
    read_record,
    tell,
    write_record,
)

IDLE_LOOK_MS = 5_000
"""How often the files are looked at although nobody rang; a server that died may have forgotten."""
HOLDER_LOOK_MS = 200
REST_LOOK_MS = 50
READ_BYTES = 1 << 16
READS_MAX = 64
"""Reads before other things are looked after; together more than a pipe holds."""

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes that shells give when a command can not be started."""

RESET_SIGNALS = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)
"""Signals that this process, or whoever started the server, may treat in a way of its own."""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


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
        self._log = OutputLog(self._spec.log_bytes_max)

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
        self._wait_for_the_rest()
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

    def _wait_for_the_rest(self) -> None:
        """After a stop, what the command has started itself gets the rest of the grace."""
        while self._has_told and self._kill_at is not None and children():
            if self._kill_at <= time.monotonic():
                return
            self._pump()
            reap(0)
            self._look_for_stop()
            self._wait(REST_LOOK_MS, self._output)

    def _pass_on_stop(self) -> None:
        if (self._kill_at is not None or self._got_signal) and not self._has_told:
            self._has_told = True
            # All of them, for some put what they start into groups of their own.
            tree = descendants()
            spared = [pid for pid in tree if process_name(pid) in self._spec.spared]
            for pid in tree if len(spared) == len(tree) else set(tree).difference(spared):
                signal_process(pid, signal.SIGTERM)
                signal_process(pid, signal.SIGCONT)  # A suspended one has to wake up for it.

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
        elif not os.path.exists(CLAIM):
            # Somebody removed the folder: nobody could stop the worker any more.
            self._kill_at = 0.0

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
                if not os.path.exists(CLAIM):
                    return
                time.sleep(1)
        tell(self._name)


def become(spec: Spec, *, output: int, report_failure: int) -> None:
    """In the forked child: turn into the command; returns only if that failed."""
    for number in RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        os.chdir(spec.folder)
        os.execvpe(spec.command[0], spec.command, spec.environ)  # noqa: S606 - no shell wanted
    except OSError as error:
        os.write(report_failure, str(error.errno).encode())


def close_strange_files() -> None:
    """Close what the server, or whoever started it, left open: no worker may hold on to it."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:  # noqa: PLR2004 - the three standard streams
            try:
                os.close(int(name))
            except OSError:
                continue  # The folder that was just read.


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


def load_prctl() -> Callable[[int, int], int]:
    """The system call; loaded late because a worker at the barrier does not need it."""
    import ctypes  # noqa: PLC0415 - loading it takes a third of the start-up time

    prctl: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    return prctl


def main() -> None:
    """Entry point."""
    close_strange_files()
    folder = sys.argv[1]
    os.chdir(folder)
    name = "/".join(folder.split("/")[-2:])
    with open(SPEC, encoding="utf-8", errors="surrogateescape", newline="") as file:
        spec = Spec(file.read())
    is_mine = claim(spec)
    tell(name)
    if is_mine:
        Supervisor(name, spec).live()
