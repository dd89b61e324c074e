"""The port of the API, taken before the server is loaded: a second server fails at once."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.config_file import ConfigError
from scheduler.settings import Settings, flag_of
from scheduler.topology_file import FileProblem

BACKLOG = 2048


@contextmanager
def listening_socket(settings: Settings) -> Iterator[socket.socket]:
    """The port; who comes before all is built waits a moment and is not turned away."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named: asyncio sets TCP_NODELAY only on sockets that say that they are TCP.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((settings.host, settings.port))
            listening.listen(BACKLOG)
        except OSError as error:
            detail = f"can not listen on {settings.host} port {settings.port}: {error.strerror}"
            problem = FileProblem(place=flag_of("port"), detail=detail)
            raise ConfigError("the configuration of dallyd", [problem]) from error
        yield listening
