"""Every example runs through a real server as its job file stands, and trains."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.examples.frameworks import ALL, EXAMPLES, Example
from tests.polling import wait_until
from tests.servers import TERMINAL, Server

RUN_S_MAX = 300.0
"""The machine may be busy; alone, each takes a few seconds."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with 8 slots."""
    with Server(tmp_path_factory.mktemp("examples")) as made:
        made.start()
        yield made


def submit(server: Server, path: Path) -> httpx2.Response:
    """Send a job file as it is."""
    return httpx2.post(
        f"{server.url}/api/v1/projects/default/jobs",
        content=path.read_bytes(),
        headers={
            "Authorization": f"Bearer {server.token}",
            "Content-Type": "application/yaml",
        },
        timeout=30,
        trust_env=False,
    )


def log_of(server: Server, name: str) -> str:
    """What rank 0 has written."""
    return server.request("GET", f"/api/v1/projects/default/jobs/{name}/logs").text


def last_report(server: Server, name: str) -> dict[str, float]:
    """What rank 0 said last of where its training stands."""
    path = f"/api/v1/projects/default/jobs/{name}/attempts"
    report: dict[str, float] = server.request("GET", path).json()["items"][-1]["progress"]
    return report


@pytest.mark.slow
@pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
def test_an_example_trains_as_its_job_file_stands(server: Server, example: Example) -> None:
    example.require()
    assert submit(server, example.path).status_code == 201
    wait_until(
        lambda: server.phase(example.name) in TERMINAL,
        f"{example.name} has ended",
        deadline_s=RUN_S_MAX,
    )
    job = server.job(example.name)
    log = log_of(server, example.name)
    assert job["status"]["phase"] == "Succeeded", (job["status"], log)
    assert f"{example.workers} workers hold equal weights" in log
    progress = last_report(server, example.name)
    assert (progress["step"], progress["stepsTotal"]) == (example.steps, example.steps)
    assert progress["accuracy"] > 0.9
    assert 0 < progress["loss"] < 0.5
    assert progress["stepSeconds"] > 0


def test_no_job_file_is_left_out() -> None:
    files = {f"{path.parent.name}/{path.name}" for path in EXAMPLES.glob("*/*.yaml")}
    jobs = {file for file in files if not file.startswith(("topologies/", "kubernetes/"))}
    assert jobs == {example.file for example in ALL}


def test_the_shortest_job_file_has_at_most_twelve_lines() -> None:
    assert len((EXAMPLES / "numpy-ddp" / "minimal.yaml").read_text().splitlines()) <= 12
