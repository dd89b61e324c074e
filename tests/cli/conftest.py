"""A real server for the client's tests, and the client as a user meets it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from cli.app import run
from tests.servers import TERMINAL, Server

CONFIGURATION = """
topology:
  levels: [{name: rack}]
  racks:
    - {name: r1, nodes: 2, gpus: 4}
    - {name: r2, nodes: 2, gpus: 4}
policy: {restartBackoff: 1ms}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of stdout."""
        return self.out.splitlines()


Dally = Callable[..., Answer]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of the client; each test has jobs of its own names."""
    folder = tmp_path_factory.mktemp("cli-server")
    (folder / "dallyd.yaml").write_text(CONFIGURATION)
    env = {"DALLYD_CONFIG": str(folder / "dallyd.yaml")}
    with Server(folder, env=env) as started:
        started.start()
        yield started


@pytest.fixture
def environment(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, str]:
    """Variables that lead to the server, set for this test; its folder is the working folder."""
    variables = {
        "DALLY_CONFIG": str(tmp_path / "config.yaml"),
        "DALLY_SERVER": server.url,
        "DALLY_TOKEN": server.token,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return variables


@pytest.fixture(autouse=True)
def no_live_jobs(server: Server) -> Iterator[None]:
    """Whatever a test leaves running ends with it."""
    yield
    live = [job for job in server.jobs() if job["status"]["phase"] not in TERMINAL]
    for job in live:
        server.cancel(job["metadata"]["name"], now=True)
    if live:
        server.wait_for_all()


@pytest.fixture
def dally(
    environment: Mapping[str, str],  # noqa: ARG001 - the client reads the variables
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Dally:
    """Runs `dally` with arguments (one text, split at blanks, or a list)."""

    def run_command(*arguments: str, stdin: str | bytes = "") -> Answer:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(data)))
        capsys.readouterr()
        code = run(list(arguments))
        said = capsys.readouterr()
        return Answer(code=code, out=said.out, err=said.err)

    return run_command


def job_text(name: str, **spec: Any) -> str:
    """A job file in YAML's flow style."""
    whole = {"command": ["true"], "gpusPerWorker": 1, **spec}
    return f"kind: Job\nmetadata: {{name: {name}}}\nspec: {json.dumps(whole)}\n"
