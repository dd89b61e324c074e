"""The client of `bench.submit`."""

import socket

import pytest

from bench.submit import Client

ANSWER = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


def test_the_end_of_a_connection_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        client = Client(near)
        client.send(b"POST", since_s=0.0)
        assert far.recv(99) == b"POST"
        far.sendall(ANSWER)
        assert client.answered() is not None

        far.close()
        with pytest.raises(AssertionError, match="the server has ended the connection"):
            client.answered()
