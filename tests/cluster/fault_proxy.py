"""Stands between the adapter and a real API server and does what networks and servers do to it.

A rule picks requests and says what becomes of them; each counts how often it struck.
"""

import json
import re
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

import urllib3

ALWAYS = 1_000_000

Body = bytes
Line = bytes


@dataclass(eq=False, kw_only=True)
class Fault:
    """One rule. What is not set does not happen."""

    method: str = "GET"
    path: str = ""
    """Regular expression that the path with its query must hold."""
    is_watch: bool = False
    times: int = 1
    is_dropped: bool = False
    """The connection is closed; with `is_done` after the server has done it."""
    is_done: bool = False
    is_doubled: bool = False
    delay_s: float = 0.0
    answer: tuple[int, bytes] | None = None
    """Status and body instead of the server's."""
    headers: dict[str, str] = field(default_factory=dict)
    rewrite: Callable[[Body], Body] | None = None
    """Changes the server's answer."""
    is_silent: bool = False
    """A watch is opened and says nothing, for ever."""
    each_line: Callable[[Line], Line] | None = None
    """Changes each event of a watch; empty: it is left out."""
    lines_max: int | None = None
    """A watch is cut off in the middle of the event behind so many."""
    hits: int = 0


class FaultProxy:
    """An HTTP server in front of an API server."""

    def __init__(self, url: str, *, token: str, ca: Path) -> None:
        self.upstream = urllib3.PoolManager(
            ssl_context=ssl.create_default_context(cafile=str(ca)), maxsize=64, retries=False
        )
        self.upstream_url = url
        self.token = token
        self.token_wanted: str | None = None
        """Set: another token of a client is refused with 401."""
        self.faults: list[Fault] = []
        self.counts: Counter[str] = Counter()
        """Requests by method and kind of object, as they came."""
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self.upstream.clear()

    def add(self, fault: Fault) -> Fault:
        """Have a rule in force."""
        with self.lock:
            self.faults.append(fault)
        return fault

    def clear(self) -> None:
        """No rule is in force any more."""
        with self.lock:
            self.faults.clear()

    def strike(self, method: str, path: str) -> Fault | None:
        """The first rule that applies to a request."""
        is_watch = "watch=1" in path
        with self.lock:
            for fault in self.faults:
                is_meant = fault.method == method and fault.is_watch == is_watch
                if is_meant and fault.hits < fault.times and re.search(fault.path, path):
                    fault.hits += 1
                    return fault
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, proxy: FaultProxy) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves, or a connection that is cut on purpose, is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Tests have no use for it."""

    def do_GET(self) -> None:
        """Any method."""
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with proxy.lock:
            proxy.counts[f"{self.command} {_kind_of(self.path)}"] += 1
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if proxy.token_wanted not in (None, given):
            self._send(401, b'{"kind":"Status","message":"Unauthorized"}', {})
            return
        fault = proxy.strike(self.command, self.path)
        try:
            self._pass(body, fault or Fault())
        except (OSError, urllib3.exceptions.HTTPError):
            self.close_connection = True

    def do_POST(self) -> None:
        """As any other."""
        self.do_GET()

    def do_PATCH(self) -> None:
        """As any other."""
        self.do_GET()

    def do_DELETE(self) -> None:
        """As any other."""
        self.do_GET()

    def _pass(self, body: bytes, fault: Fault) -> None:
        if fault.delay_s:
            self.server.proxy.closing.wait(fault.delay_s)
        if fault.is_dropped and not fault.is_done:
            self._cut()
            return
        if fault.answer is not None:
            self._send(*fault.answer, fault.headers)
            return
        if fault.is_silent:
            self._say_nothing()
            return
        if "watch=1" in self.path or "follow=true" in self.path:
            self._pass_stream(fault)
            return
        answer = self._ask(body)
        if fault.is_doubled:
            answer = self._ask(body)
        if fault.is_dropped:
            self._cut()
            return
        data = answer.data if fault.rewrite is None else fault.rewrite(answer.data)
        self._send(answer.status, data, {})

    def _ask(self, body: bytes, *, is_stream: bool = False) -> urllib3.BaseHTTPResponse:
        proxy = self.server.proxy
        headers = {"Authorization": f"Bearer {proxy.token}"}
        for name in ("Content-Type", "Accept"):
            if name in self.headers:
                headers[name] = self.headers[name]
        return proxy.upstream.request(
            self.command,
            proxy.upstream_url + self.path,
            body=body or None,
            headers=headers,
            preload_content=not is_stream,
            timeout=urllib3.Timeout(total=None),
        )

    def _pass_stream(self, fault: Fault) -> None:
        answer = self._ask(b"", is_stream=True)
        try:
            if answer.status != 200:
                self._send(answer.status, answer.data, {})
                return
            self._begin_stream()
            for number, line in enumerate(self._lines(answer)):
                if number == fault.lines_max:
                    self._chunk(line[: len(line) // 2])
                    self._cut()
                    return
                told = line if fault.each_line is None else fault.each_line(line)
                if told:
                    self._chunk(told)
            self.wfile.write(b"0\r\n\r\n")
        finally:
            answer.close()

    def _lines(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        rest = b""
        for chunk in answer.stream(1 << 16):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line + b"\n" for line in whole)
        if rest:
            yield rest

    def _say_nothing(self) -> None:
        self._begin_stream()
        self.server.proxy.closing.wait(60.0)
        self.close_connection = True

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()


def _kind_of(path: str) -> str:
    """`pods`, `configmaps`, ...: the plural in a path."""
    parts = path.partition("?")[0].strip("/").split("/")
    return parts[4] if parts[2:3] == ["namespaces"] and len(parts) > 4 else parts[2]


def status(code: int, reason: str, message: str) -> tuple[int, bytes]:
    """An answer of an API server that refuses."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return code, json.dumps({**body, "message": message}).encode()


def expired_event() -> tuple[int, bytes]:
    """A watch that tells that its version is too old."""
    fault = json.loads(status(410, "Expired", "too old resource version")[1])
    return 200, json.dumps({"type": "ERROR", "object": fault}).encode() + b"\n"


def emptied(body: bytes) -> bytes:
    """A list with nothing in it."""
    found = json.loads(body)
    if "items" in found:
        found["items"] = []
        found["metadata"].pop("remainingItemCount", None)
        found["metadata"].pop("continue", None)
    return json.dumps(found).encode()


def halved(body: bytes) -> bytes:
    """An answer that ends in the middle."""
    return body[: len(body) // 2]


def without(kind: str) -> Callable[[bytes], bytes]:
    """Leaves out the events of a kind."""

    def told(line: bytes) -> bytes:
        return b"" if json.loads(line)["type"] == kind else line

    return told
