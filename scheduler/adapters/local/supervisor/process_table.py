"""Processes of this machine as /proc shows them."""

import os
import signal
import time


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
    pause_s = 0.001
    while True:
        for pid in children():
            signal_process(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(pause_s)
        pause_s = min(0.1, pause_s * 2)


def children() -> list[int]:
    """Processes whose parent is this one."""
    return _children_by_parent().get(os.getpid(), [])


def descendants() -> list[int]:
    """Processes below this one, however far, whatever groups and sessions they made."""
    by_parent = _children_by_parent()
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = by_parent.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _children_by_parent() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields:
                found.setdefault(int(fields[1]), []).append(int(name))
    return found


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def process_name(pid: int) -> str:
    """The name of the program it runs, or its first 15 letters."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return ""


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
