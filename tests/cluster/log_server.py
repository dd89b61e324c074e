"""Serves the output of pods where the API server looks for it: a kubelet's port, over HTTPS."""

import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.not_run import not_run

_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of output, with its newline if it had one."""

    at: datetime
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The output of a pod so far."""

    lines: list[Line]
    is_over: bool
    is_removed: bool = False
    """Whoever asks from now on finds no container any more."""


Lookup = Callable[[str, str], LogView | None]


class _Server(ThreadingHTTPServer):
    """Serves what `lookup` finds."""

    daemon_threads = True

    def __init__(self, lookup: Lookup, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lookup = lookup
        self.socket = context.wrap_socket(self.socket, server_side=True)


class LogServer:
    """Answers /containerLogs/NAMESPACE/POD/CONTAINER, also for those who follow."""

    def __init__(self, folder: Path, lookup: Lookup) -> None:
        self._server = _Server(lookup, _tls(folder))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Tests have no use for it."""

    def do_GET(self) -> None:
        """One log."""
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        _, kind, namespace, pod, *_ = parts.path.split("/")
        view = self.server.lookup(namespace, pod) if kind == "containerLogs" else None
        self.send_response(404 if view is None else 200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        if view is None:
            return
        if view.is_removed:
            self.wfile.write(b"unable to retrieve container logs for containerd://gone")
            return
        try:
            for line in self._lines(namespace, pod, query):
                self.wfile.write(line)
                self.wfile.flush()
        except OSError:
            return  # The follower has left.

    def _lines(self, namespace: str, pod: str, query: dict[str, str]) -> Iterator[bytes]:
        since = query.get("sinceTime", "")
        sent = -1
        while True:
            view = self.server.lookup(namespace, pod)
            if view is None:
                return
            lines = [line for line in view.lines if stamp(line.at) >= since]
            if sent < 0:
                sent = max(0, len(lines) - int(query.get("tailLines", len(lines))))
            for line in lines[sent:]:
                prefix = f"{stamp(line.at)} ".encode() if query.get("timestamps") == "true" else b""
                yield prefix + line.text
            sent = len(lines)
            if view.is_over or query.get("follow") != "true":
                return
            time.sleep(_PAUSE_S)


def stamp(at: datetime) -> str:
    """A point in time as log lines carry it: nanoseconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def _tls(folder: Path) -> ssl.SSLContext:
    folder.mkdir(parents=True, exist_ok=True)
    key, certificate = folder / "kubelet.key", folder / "kubelet.crt"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = ["openssl", "req", "-x509", *curve, "-nodes", "-days", "2"]
    try:
        subprocess.run(  # noqa: S603 - fixed words
            [*command, "-subj", "/CN=kubelet", "-keyout", str(key), "-out", str(certificate)],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        not_run("no openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
