"""A connection without a whole head is ended, one being answered is not; no request, a problem."""

import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from threading import Event, Thread

import pytest
import uvicorn
from anyio import to_thread
from starlette.types import Receive, Scope, Send

from api.errors import PROBLEM_TYPE
from api.problems import Problem
from server.patience import PatientProtocol
from tests.polling import wait_until

WAIT_S = 20.0
HEAD = b"GET / HTTP/1.1\r\nHost: dally\r\n"


class Impatient(PatientProtocol):
    """The protocol with a deadline that a test can wait for."""

    head_s_max = 0.1


class Slow:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = Event()
        self.may_answer = Event()

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        self.asked.set()
        await to_thread.run_sync(self.may_answer.wait, WAIT_S)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


@pytest.fixture
def served() -> Iterator[tuple[Slow, int]]:
    app = Slow()
    server = uvicorn.Server(
        uvicorn.Config(app, http=Impatient, lifespan="off", log_level="error", access_log=False)
    )
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_until(lambda: server.started, "the server has started")
        yield app, listener.getsockname()[1]
        app.may_answer.set()
        server.should_exit = True
        thread.join(WAIT_S)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "sent", [pytest.param(b"", id="nothing"), pytest.param(HEAD, id="half a head")]
)
def test_who_does_not_ask_is_sent_away_and_who_waits_is_answered(
    served: tuple[Slow, int], sent: bytes
) -> None:
    app, port = served
    with (
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as patient,
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as idle,
    ):
        patient.sendall(HEAD + b"\r\n")
        assert app.asked.wait(WAIT_S)
        idle.sendall(sent)
        assert idle.recv(100) == b"", "the deadline of both has passed"
        app.may_answer.set()
        assert patient.recv(100).startswith(b"HTTP/1.1 204")


def test_a_second_head_on_the_same_connection_has_a_deadline_too(served: tuple[Slow, int]) -> None:
    app, port = served
    app.may_answer.set()
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 204")
        connection.sendall(HEAD)
        assert connection.recv(100) == b""


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"hello\r\n\r\n", id="no request line"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no host"),
        pytest.param(HEAD + b"a b: c\r\n\r\n", id="a header with a blank in its name"),
        pytest.param(HEAD + b"Content-Length: -1\r\n\r\n", id="a negative length"),
        pytest.param(b"\x16\x03\x01\x02\x00\r\n\r\n", id="TLS"),
    ],
)
def test_what_is_no_request_is_answered_with_a_problem(
    served: tuple[Slow, int], sent: bytes
) -> None:
    _, port = served
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        connection.sendall(sent)
        answer = HTTPResponse(connection)
        answer.begin()
        assert (answer.status, answer.getheader("Content-Type")) == (400, PROBLEM_TYPE)
        problem = Problem.model_validate_json(answer.read())
    assert (problem.reason, problem.status) == ("MalformedRequest", 400)
