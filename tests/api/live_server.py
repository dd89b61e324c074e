"""The API behind a real server on a loopback port, for what only a real connection shows."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

import httpx2
import uvicorn
from fastapi import FastAPI

from api.app import close_streams, create_app
from api.dependencies import Services
from tests.api.front_door import FrontDoor
from tests.polling import wait_until

WAIT_S = 20.0


@dataclass(frozen=True, slots=True)
class LiveServer:
    """A server that answers."""

    door: FrontDoor
    app: FastAPI
    port: int

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_streams(self) -> int:
        """Streams that hold a permit."""
        services: Services = self.app.state.services
        return services.permits.open

    def client(self, token: str | None = None) -> httpx2.Client:
        """A client over real connections; by default the admin's."""
        headers = {"Authorization": f"Bearer {token or self.door.admin_token}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=WAIT_S)

    def raw_get(self, path: str) -> socket.socket:
        """A connection on which a GET was sent and nothing was read."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        request = (
            f"GET {path} HTTP/1.1\r\nHost: dally\r\nAccept: */*\r\n"
            f"Authorization: Bearer {self.door.admin_token}\r\n\r\n"
        )
        connection.sendall(request.encode())
        return connection


@contextmanager
def serving(door: FrontDoor) -> Iterator[LiveServer]:
    """Serve until the block ends."""
    app = create_app(door.deps)
    config = uvicorn.Config(app, log_level="warning", lifespan="on", access_log=False)
    server = uvicorn.Server(config)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(512)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: server.started, "the server has started")
            yield LiveServer(door, app, listener.getsockname()[1])
        finally:
            close_streams(app)
            server.should_exit = True
            thread.join(WAIT_S)
            assert not thread.is_alive()
