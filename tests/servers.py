"""Real servers for tests: `dallyd serve` as a process of its own, killed or stopped by the test.

A process that has imported the server once (the fork server) makes them, because importing takes
longer than all the rest; one test runs the command itself.
"""

import json
import multiprocessing
import os
import signal
import ssl
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from tests.polling import wait_until

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "server.app",
        "server.serving",
        "server.kubernetes_home",
        "scheduler.adapters.kubernetes.cluster",
        "tests.servers",
    ]
)

_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Servers of tests speak plain HTTP: reading all certificates for each request takes long."""

START_S_MAX = 60.0
TERMINAL = ("Succeeded", "Failed", "Cancelled")


class Server:
    """One data folder (and database) with the servers that come and go on it."""

    def __init__(
        self, folder: Path, *, database_url: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.env = {
            "DALLYD_DATA_DIR": str(folder / "data"),
            "DALLYD_PORT": "0",
            "DALLYD_DATABASE_URL": database_url,
            "DALLYD_LEASE": "2s",
            **(env or {}),
        }
        self.token = ""
        self.url = ""
        self._starts = 0
        self._process: BaseProcess | None = None

    def __enter__(self) -> Self:
        """The server, not started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every job at once, then the server."""
        if not self.is_up():
            self.start()
        for job in self.jobs():
            if job["status"]["phase"] not in TERMINAL:
                self.cancel(job["metadata"]["name"], now=True)
        self.wait_for_all()
        self.stop()

    @property
    def pid(self) -> int:
        """The running process."""
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    @property
    def out(self) -> str:
        """What the latest server wrote to stdout."""
        return self._file("out").read_text() if self._file("out").exists() else ""

    @property
    def errors(self) -> str:
        """What the latest server wrote to stderr."""
        return self._file("err").read_text() if self._file("err").exists() else ""

    def launch(self, **env: str) -> None:
        """Start a server; it may die before it is up."""
        self._starts += 1
        self._process = _FORKS.Process(
            target=run_server,
            args=({**self.env, **env}, str(self._file("out")), str(self._file("err"))),
        )
        self._process.start()

    def start(self, **env: str) -> None:
        """Start a server and wait until it serves."""
        self.launch(**env)
        wait_until(
            lambda: self.is_serving() or not self.is_up(),
            "the server is up",
            deadline_s=START_S_MAX,
        )
        assert self.is_up(), f"exit code {self.exit_code}: {self.errors}"

    def is_serving(self) -> bool:
        """Whether it has said where it serves; reads the address and the first token."""
        lines = self.out.splitlines()
        if not lines or not lines[0].startswith("Dally serves on "):
            return False
        self.url = lines[0].split()[3]
        secrets = [line.strip() for line in lines if line.startswith("  dally_")]
        if "admin token was made" in self.out:
            if not secrets or not self.out.endswith("admin token\n"):
                return False
            self.token = secrets[0]
        return True

    def is_up(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """Of the process that ended; negative: the signal."""
        return None if self._process is None else self._process.exitcode

    def stop(self) -> None:
        """SIGTERM, and wait."""
        os.kill(self.pid, signal.SIGTERM)
        self.join()

    def kill(self) -> None:
        """SIGKILL, and wait."""
        os.kill(self.pid, signal.SIGKILL)
        self.join()

    def join(self) -> None:
        """Wait until the process has ended."""
        assert self._process is not None
        self._process.join(START_S_MAX)
        assert not self._process.is_alive(), self.errors

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """One request with the admin token."""
        return httpx2.request(
            method,
            self.url + path,
            json=body,
            headers={"Authorization": f"Bearer {self.token}", **(headers or {})},
            timeout=30,
            trust_env=False,
            verify=_NO_CERTIFICATES,
        )

    def submit(self, name: str, command: Sequence[str], **spec: object) -> httpx2.Response:
        """Submit a job of one worker with one GPU, or as `spec` says."""
        return self.request(
            "POST", "/api/v1/projects/default/jobs", body=job_file(name, command, spec)
        )

    def cancel(self, name: str, *, now: bool = False) -> httpx2.Response:
        """Cancel a job."""
        return self.request(
            "POST", f"/api/v1/projects/default/jobs/{name}/cancel", body={"now": now}
        )

    def job(self, name: str) -> Any:
        """A job as the API shows it."""
        return self.request("GET", f"/api/v1/projects/default/jobs/{name}").json()

    def phases(self) -> dict[str, str]:
        """Where every job is, by name."""
        return {job["metadata"]["name"]: job["status"]["phase"] for job in self.jobs()}

    def jobs(self) -> list[Any]:
        """Every job."""
        found: list[Any] = self.request("GET", "/api/v1/jobs?limit=500").json()["items"]
        return found

    def phase(self, name: str) -> str:
        """Where a job is."""
        phase: str = self.job(name)["status"]["phase"]
        return phase

    def wait_for(self, name: str, *phases: str) -> None:
        """Until the job is in one of the phases."""
        wait_until(lambda: self.phase(name) in phases, f"{name} is {' or '.join(phases)}")

    def wait_for_all(self) -> None:
        """Until every job has ended."""
        wait_until(
            lambda: all(job["status"]["phase"] in TERMINAL for job in self.jobs()),
            "every job has ended",
        )

    def _file(self, kind: str) -> Path:
        return self.folder / f"server-{self._starts}.{kind}"


def job_file(name: str, command: Sequence[str], spec: Mapping[str, object]) -> dict[str, object]:
    """A job file."""
    return {
        "apiVersion": "dally/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"workers": 1, "gpusPerWorker": 1, "command": list(command), **spec},
    }


def run_server(env: Mapping[str, str], out: str, errors: str) -> None:
    """In the forked process: become `dallyd serve` with these variables and these streams."""
    from server.app import main  # noqa: PLC0415 - only the fork server needs it

    os.setsid()
    for name in [name for name in os.environ if name.startswith("DALLYD_")]:
        del os.environ[name]
    os.environ.update({name: value for name, value in env.items() if value})
    for path, stream in ((out, sys.stdout), (errors, sys.stderr)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
    sys.argv = ["dallyd", "serve"]
    main()


def facts_of(errors: str) -> list[Any]:
    """The JSON lines of a server's log."""
    return [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
