"""A server that is restarted under a follower: it goes on where it was, and nothing is doubled."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from api.jobs.schemas import AttemptList, AttemptView
from api.problems import Problem
from cli.app import run
from cli.failures import ExitCode
from tests.unit.cli.test_pages import a_job_object

AWAY = Problem(
    type="/errors/NotReady",
    title="Not ready",
    status=503,
    detail="not yet",
    instance="/",
    reason="NotReady",
    remedy="wait",
    request_id="1",
)
LOOKS = 4
"""At the log: one that breaks off, two while the server is away, one more."""
LOG = b"first\nsecond\nthird\n"


class Breaking(BaseHTTPRequestHandler):
    """A log breaks off in the middle of its second line; then the server is away for a moment."""

    queries: list[dict[str, list[str]]]
    away: int
    """So many requests more are answered by 503."""

    def do_GET(self) -> None:
        """The job, its attempts or its log."""
        place = urlsplit(self.path)
        if place.path.endswith("/logs"):
            self.queries.append(parse_qs(place.query))
            if len(self.queries) == 1:
                type(self).away = 2
                self._answer(LOG[:9], whole=len(LOG))
                return
        if self.away and self.queries:
            type(self).away -= 1
            self._answer(AWAY.model_dump_json(by_alias=True).encode(), status=503)
        elif place.path.endswith("/logs"):
            self._answer(b"" if "tail" in self.queries[-1] else LOG)
        elif place.path.endswith("/attempts"):
            self._answer(AttemptList(items=[an_attempt()]).model_dump_json(by_alias=True).encode())
        else:
            self._answer(self._job())

    def _job(self) -> bytes:
        job = a_job_object("train")
        phase = "Succeeded" if len(self.queries) > 1 else "Running"
        status = job.status.model_copy(update={"phase": phase, "attempts": 1})
        return job.model_copy(update={"status": status}).model_dump_json(by_alias=True).encode()

    def _answer(self, content: bytes, *, status: int = 200, whole: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if whole is None else whole))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


def an_attempt() -> AttemptView:
    return AttemptView.model_validate(
        {
            "number": 0,
            "phase": "Running",
            "phaseSince": "2026-11-30T12:00:00Z",
            "tier": "node",
            "placement": [],
            "workers": [{"rank": 0, "role": "worker", "node": "n0"}],
            "createTime": "2026-11-30T12:00:00Z",
            "runningSince": "2026-11-30T12:00:00Z",
        }
    )


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Breaking]]:
    handler = type("Handler", (Breaking,), {"queries": [], "away": 0})
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        monkeypatch.setenv("DALLY_SERVER", f"http://127.0.0.1:{http.server_port}")
        monkeypatch.setenv("DALLY_TOKEN", "x")
        monkeypatch.setenv("DALLY_CONFIG", str(tmp_path / "config.yaml"))
        yield handler
        http.shutdown()
        thread.join()


@pytest.mark.parametrize("command", ["logs -f train", "logs -f train --attempt 0"])
def test_a_log_goes_on_where_it_broke_off(
    server: type[Breaking], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(command.split()) == ExitCode.OK
    assert capsys.readouterr().out == LOG.decode()
    assert len(server.queries) == LOOKS


def test_the_logs_of_all_ranks_go_on_too(
    server: type[Breaking], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logs", "-f", "train", "--all-ranks"]) == ExitCode.OK
    assert capsys.readouterr().out == "[0] first\n[0] second\n[0] third\n"
    assert len(server.queries) == LOOKS


def test_of_a_part_of_a_log_what_is_new_is_asked_for_and_the_gap_is_told(
    server: type[Breaking], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logs", "-f", "train", "--tail", "5"]) == ExitCode.OK
    assert [query["tail"] for query in server.queries] == [["5"], *[["0"]] * (LOOKS - 1)]
    assert capsys.readouterr().err.count("left out") == 1


def test_a_server_that_never_answered_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DALLY_CONFIG", str(tmp_path / "config.yaml"))
    assert run(["logs", "-f", "train", "--server", "http://127.0.0.1:9"]) == ExitCode.UNREACHABLE
