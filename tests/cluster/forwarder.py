"""Lets pods reach a server of this machine that listens on a socket file or on loopback only."""

import socket
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Self

from sqlalchemy.engine import URL, make_url

_CHUNK = 65_536
POSTGRES_PORT = 5432


class Forwarder:
    """Listens on an address and passes every connection on to a PostgreSQL server."""

    def __init__(self, address: str, database_url: str) -> None:
        self._upstream = make_url(database_url)
        self._listening = socket.create_server((address, 0))

    def __enter__(self) -> Self:
        """Begin to listen."""
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """No new connections; those that there are end with the server."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def url(self, database: str) -> str:
        """A database of the server as pods reach it."""
        host, port = self._listening.getsockname()
        through = self._upstream.set(host=host, port=port, database=database, query={})
        return through.set(drivername="postgresql").render_as_string(hide_password=False)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            Thread(target=_serve, args=(client, self._upstream), daemon=True).start()


def _connection(url: URL) -> socket.socket:
    folder = url.query.get("host") or url.host or "127.0.0.1"
    assert isinstance(folder, str)
    port = url.port or POSTGRES_PORT
    if folder.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(f"{folder}/.s.PGSQL.{port}")
        return connection
    return socket.create_connection((folder, port))


def _serve(client: socket.socket, upstream: URL) -> None:
    """One connection to its end, both ways."""
    with client, _connection(upstream) as server:
        back = Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
