"""What the client meets outside itself: proxies, servers of other versions, no terminal."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cli.app import run
from cli.release import version_of_client


class Answering(BaseHTTPRequestHandler):
    """Answers every GET with a version, and remembers what was asked for."""

    asked: list[str]
    version: str

    def do_GET(self) -> None:
        """The version."""
        self.asked.append(self.path)
        text = json.dumps({"version": self.version}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


class Outside:
    """Somebody who answers on a port."""

    def __init__(self, port: int, handler: type[Answering]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.handler = handler


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    handler = type("Handler", (Answering,), {"asked": [], "version": version_of_client()})
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("DALLY_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("DALLY_TOKEN", "x")
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        yield Outside(http.server_port, handler)
        http.shutdown()
        thread.join()


def test_a_proxy_named_by_a_variable_is_used(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", outside.url)
    assert run(["version", "--server", "http://dally.invalid:8470"]) == 0
    assert outside.handler.asked == ["http://dally.invalid:8470/version"]


def test_a_server_more_than_a_minor_version_away_is_warned_of(
    outside: Outside, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["version", "--server", outside.url]) == 0
    assert capsys.readouterr().err == ""
    outside.handler.version = "7.0.0"
    assert run(["version", "--server", outside.url]) == 0
    shown = capsys.readouterr()
    assert "warning: " in shown.err
    assert "are more than one minor version apart" in shown.err
    assert shown.out.splitlines() == [f"client {version_of_client()}", "server 7.0.0"]


def test_without_a_terminal_nothing_is_coloured(
    outside: Outside, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["--help"],
        ["--version"],
        ["version", "--server", outside.url],
        ["nonsense"],
    ):
        run(arguments)
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
