"""Processes of a cluster: started with a log file each, ended together."""

import os
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

TERM_S_MAX = 10.0


class Processes:
    """Children of this process; leaving the context ends them, the youngest first."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        """None is running yet."""
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all at once: what they keep is thrown away."""
        for name in reversed(list(self._running)):
            self.end(name, signal.SIGKILL)

    def start(self, name: str, *command: str | Path, env: dict[str, str] | None = None) -> None:
        """Start a program in a session of its own, so that a Ctrl-C reaches only the tests.

        It dies with this process, however that ends.
        """
        bound = ("setpriv", "--pdeathsig", "KILL", "--")
        with (self._logs / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - the tests' own commands
                [*bound, *(str(word) for word in command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    def end(self, name: str, with_signal: signal.Signals) -> None:
        """End one and wait for it; one that does not heed SIGTERM is killed."""
        process = self._running.pop(name)
        process.send_signal(with_signal)
        try:
            process.wait(TERM_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def pause(self, name: str) -> None:
        """Stop one in its tracks."""
        self._running[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let it go on."""
        self._running[name].send_signal(signal.SIGCONT)

    def check(self) -> None:
        """Fail with the last lines of its log if one has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise AssertionError(f"{name} ended with {process.returncode}: {self.tail(name)}")

    def tail(self, name: str) -> str:
        """The last lines of a log."""
        lines = (self._logs / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-5:])


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
