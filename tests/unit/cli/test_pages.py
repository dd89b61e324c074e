"""Commands over many jobs read every page of the list, from a server that has two."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from api.job_files.schemas import JobRequest
from api.jobs.schemas import JobObject, JobStatus
from api.lists import ObjectMetadata
from cli.app import run

NEXT = "second"


def a_job_object(name: str) -> JobObject:
    return JobObject(
        metadata=ObjectMetadata(
            name=name,
            uid=name,
            project="default",
            resource_version="1",
            create_time="2026-11-30T12:00:00Z",
        ),
        spec=JobRequest(),
        status=JobStatus(
            phase="Stopping",
            phase_since="2026-11-30T12:00:00Z",
            priority=0,
            workers=1,
            gpus=1,
        ),
    )


class TwoPages(BaseHTTPRequestHandler):
    """Lists one job a page; says of which phases it was asked; takes every order."""

    queries: list[dict[str, list[str]]]
    ordered: list[str]
    said: object = None
    """The answer to every question, in place of a page."""

    def do_GET(self) -> None:
        """A page."""
        if self.said is not None:
            self._answer(self.said)
            return
        query = parse_qs(urlsplit(self.path).query)
        self.queries.append(query)
        is_last = query.get("continue") == [NEXT]
        metadata = (
            {"resourceVersion": "1"} if is_last else {"resourceVersion": "1", "continue": NEXT}
        )
        job = a_job_object("b" if is_last else "a")
        self._answer({"metadata": metadata, "items": [job.model_dump(mode="json", by_alias=True)]})

    def do_POST(self) -> None:
        """An order."""
        self.rfile.read(int(self.headers["Content-Length"]))
        name = self.path.split("/")[-2]
        self.ordered.append(name)
        self._answer(a_job_object(name).model_dump(mode="json", by_alias=True))

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""

    def _answer(self, content: object) -> None:
        text = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[TwoPages]]:
    handler = type("Pages", (TwoPages,), {"queries": [], "ordered": []})
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        monkeypatch.setenv("DALLY_SERVER", f"http://127.0.0.1:{http.server_port}")
        monkeypatch.setenv("DALLY_TOKEN", "x")
        monkeypatch.setenv("DALLY_CONFIG", str(tmp_path / "config.yaml"))
        yield handler
        http.shutdown()
        thread.join()


def test_cancel_all_reaches_the_jobs_of_every_page_and_asks_for_live_ones(
    server: type[TwoPages],
) -> None:
    assert run(["cancel", "--all", "--yes"]) == 0
    assert server.ordered == ["a", "b"]
    assert {query["phase"][0] for query in server.queries} == {
        "Pending,Held,Starting,Running,Stopping"
    }


def test_a_selector_reaches_the_jobs_of_every_page_whatever_their_phase(
    server: type[TwoPages],
) -> None:
    assert run(["cancel", "-l", "team=vision", "--yes"]) == 0
    assert server.ordered == ["a", "b"]
    assert all("phase" not in query for query in server.queries)


@pytest.mark.parametrize(
    ("command", "said", "reason"),
    [
        pytest.param("get jobs", {"items": 3}, "NotADallyServer", id="items that are no list"),
        pytest.param("get nodes", [], "NotADallyServer", id="a list in place of an object"),
        pytest.param("get jobs", {"items": [3]}, "NotADallyServer", id="a job that is a number"),
        pytest.param("get jobs", {"metadata": 3}, "UnreadableAnswer", id="metadata that are none"),
        pytest.param("get nodes", {"items": [{}]}, "UnreadableAnswer", id="a node without a name"),
        pytest.param("describe job a", {}, "UnreadableAnswer", id="a job without anything"),
        pytest.param("describe node a", {}, "NotFound", id="no node"),
        pytest.param("why a", {"items": []}, "UnreadableAnswer", id="a reason that is none"),
        pytest.param("wait a", {"spec": 1}, "UnreadableAnswer", id="a job to wait for"),
        pytest.param("plan a", {"kind": "JobPlan"}, "UnreadableAnswer", id="a plan of nothing"),
        pytest.param("get strays", {"items": "x"}, "NotADallyServer", id="strays that are a text"),
    ],
)
def test_an_answer_that_is_not_dallys_ends_in_one_line(
    server: type[TwoPages],
    capsys: pytest.CaptureFixture[str],
    command: str,
    said: object,
    reason: str,
) -> None:
    server.said = said
    assert run(command.split()) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith(f"error: {reason}: ")
    assert len(told) == 2
    assert told[1].startswith("  try: ")
