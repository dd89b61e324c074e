"""What whole nodes leave on a machine when they end, gracefully or not, and how it is removed."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.node_programs import SYSTEM_PATHS
from tests.cluster.tools import cache
from tests.polling import wait_until

ADDRESSES = tuple(f"10.250.0.{number}" for number in range(1, 17))
"""Of the nodes, on the loopback device: nobody outside reaches them."""
BRIDGES = tuple(f"dally{number}" for number in range(len(ADDRESSES)))
_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))


def remove_remains(folder: Path) -> None:
    """End what runs from this folder with all its children, unmount, delete addresses and links."""
    wait_until(lambda: _all_killed(folder), "processes of the nodes have ended")
    for mount in mounts_below(folder):
        _quietly("umount", "-l", mount)
    for family, table in _TABLES:
        _quietly("nft", "delete", "table", family, table)
    for bridge in BRIDGES:
        _quietly("ip", "link", "delete", bridge)
    for address in ADDRESSES:
        _quietly("ip", "address", "delete", f"{address}/32", "dev", "lo")
    for group in Path("/sys/fs/cgroup").glob("*/k8s.io/*"):
        # One that holds processes is somebody else's, and stays.
        _quietly("rmdir", str(group))


def remains(folder: Path) -> list[str]:
    """What is still there, in words."""
    told = subprocess.run(
        ["ip", "-brief", "address"],  # noqa: S607 - the system's
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [
        *(f"process {pid}" for pid in processes_of(folder)),
        *(f"mount {mount}" for mount in mounts_below(folder)),
        *(f"address {address}" for address in ADDRESSES if f"{address}/32" in told),
        *(f"link {bridge}" for bridge in BRIDGES if f"{bridge} " in told),
    ]


def processes_of(folder: Path) -> Iterator[int]:
    """What was started with a path in this folder, and all their children: containers."""
    parents = dict(_parents())
    roots = {pid for pid in parents if _names(pid, folder)}
    for pid in parents:
        if any(each in roots for each in _ancestry(pid, parents)):
            yield pid


def words_of(pid: int) -> list[str]:
    """What a process was started with; nothing if it is gone."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return line.decode(errors="replace").rstrip("\0").split("\0")


def kill_tree(pids: Iterator[int]) -> None:
    """SIGKILL to all of them."""
    for pid in pids:
        _kill(pid)


def mounts_below(folder: Path) -> list[str]:
    """Mount points at and in the folder, the innermost first."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [point for point in reversed(points) if f"{point}/".startswith(f"{folder}/")]


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                yield int(entry.name), int(parent)


def _ancestry(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid > 1:
        yield pid
        pid = parents.get(pid, 0)


def _names(pid: int, folder: Path) -> bool:
    """Whether it is one of our programs, started with a path in the folder."""
    try:
        program = Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return False
    return program.is_relative_to(cache()) and any(f"{folder}/" in word for word in words_of(pid))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _all_killed(folder: Path) -> bool:
    running = set(processes_of(folder))
    kill_tree(iter(running))
    return not running


def _quietly(*command: str) -> None:
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{SYSTEM_PATHS}"}
    subprocess.run(command, env=environment, capture_output=True, check=False)  # noqa: S603 - our own words
