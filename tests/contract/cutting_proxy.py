"""A proxy in front of PostgreSQL that can lose the connection around a COMMIT."""

import socket
from contextlib import suppress
from enum import Enum
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from sqlalchemy.engine import make_url

_COMMIT = b"COMMIT\x00"


class Cut(Enum):
    """Where the next connection that commits is cut."""

    BEFORE = "before"
    """The server never hears of the COMMIT."""
    AFTER = "after"
    """The server has committed and its answer is lost."""


class CuttingProxy:
    """Listens on a local port; everything goes through until a cut is ordered."""

    def __init__(self, database_url: str) -> None:
        self._upstream = make_url(database_url)
        self._next_cut: Cut | None = None
        self._lock = Lock()
        self._sockets: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads = [Thread(target=self._accept, daemon=True)]
        self.cuts = 0

    @property
    def url(self) -> str:
        """The database as seen through the proxy."""
        host, port = self._listening.getsockname()
        through = self._upstream.set(host=host, port=port, query={})
        return through.render_as_string(hide_password=False)

    def cut_next(self, cut: Cut) -> None:
        """Cut the next connection that commits."""
        with self._lock:
            self._next_cut = cut

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close everything."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self._sockets:
            _close(one)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = self._connect()
            self._sockets += [client, server]
            pair = _Pair(client, server)
            for work in (self._to_server, _to_client):
                thread = Thread(target=work, args=(pair,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _connect(self) -> socket.socket:
        folder = self._upstream.query.get("host")
        if isinstance(folder, str):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{folder}/.s.PGSQL.{self._upstream.port or 5432}")
            return server
        return socket.create_connection(
            (self._upstream.host or "127.0.0.1", self._upstream.port or 5432)
        )

    def _to_server(self, pair: "_Pair") -> None:
        while data := _receive(pair.client):
            cut = self._take_cut() if _COMMIT in data else None
            if cut is Cut.BEFORE:
                pair.cut()
                return
            pair.is_deaf = cut is Cut.AFTER
            _send(pair.server, data)
        _close(pair.server)

    def _take_cut(self) -> Cut | None:
        with self._lock:
            cut, self._next_cut = self._next_cut, None
            self.cuts += cut is not None
            return cut


class _Pair:
    """The two ends of one connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.is_deaf = False

    def cut(self) -> None:
        """Lose the connection on both sides."""
        _close(self.client)
        _close(self.server)


def _to_client(pair: _Pair) -> None:
    while data := _receive(pair.server):
        if pair.is_deaf:
            # What arrives is the answer to the COMMIT: it is done.
            pair.cut()
            return
        _send(pair.client, data)
    _close(pair.client)


def _receive(one: socket.socket) -> bytes:
    try:
        return one.recv(65536)
    except OSError:
        return b""


def _send(one: socket.socket, data: bytes) -> None:
    try:
        one.sendall(data)
    except OSError:
        _close(one)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
