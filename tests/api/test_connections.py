"""Requests byte by byte: what a client on a real connection gets whose body is refused."""

import json
import logging
import socket
from collections.abc import Iterable, Iterator

import pytest

from api.errors import INSTANCE_LENGTH_MAX
from api.lists import REMAINING_COUNT_MAX
from scheduler.ports.job_store import REMAINING_MAX
from tests.api.front_door import JOBS, FrontDoor, a_file, a_problem
from tests.api.live_server import WAIT_S, LiveServer, serving

MIB = 1024 * 1024
PART = b" " * 65_536
CHUNK = b"10000\r\n" + PART + b"\r\n"


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with serving(FrontDoor()) as server:
        yield server


def exchange(live: LiveServer, head: str, parts: Iterable[bytes] = ()) -> str:
    """What comes back after everything was sent; the connection must end without a reset."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S) as connection:
        connection.sendall(f"{head}\r\nHost: dally\r\n\r\n".encode())
        for part in parts:
            connection.sendall(part)
        answer = b""
        while not answer.endswith(b"}"):
            received = connection.recv(65_536)
            assert received, "the answer is whole before the connection ends"
            answer += received
    return answer.decode()


def a_post(live: LiveServer, *headers: str, token: bool = True) -> str:
    lines = [f"POST {JOBS} HTTP/1.1", "Content-Type: application/json", *headers]
    if token:
        lines.append(f"Authorization: Bearer {live.door.admin_token}")
    return "\r\n".join(lines)


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        pytest.param(f"Content-Length: {10 * MIB}", PART, id="10 MiB, told"),
        pytest.param("Transfer-Encoding: chunked", CHUNK, id="10 MiB, in chunks"),
    ],
)
@pytest.mark.parametrize("token", [True, False], ids=["known", "unknown"])
def test_the_answer_to_a_large_body_reaches_who_sends_all_of_it(
    live: LiveServer,
    headers: str,
    part: bytes,
    token: bool,  # noqa: FBT001 - a column of the table
) -> None:
    parts = [part] * 160 + ([b"0\r\n\r\n"] if part is CHUNK else [])
    answer = exchange(live, a_post(live, headers, token=token), parts)
    told = headers.startswith("Content-Length")
    assert answer.startswith("HTTP/1.1 413" if token or told else "HTTP/1.1 401"), answer


def test_who_waits_for_leave_to_send_is_refused_without_it(live: LiveServer) -> None:
    head = a_post(live, "Expect: 100-continue", f"Content-Length: {10 * MIB}")
    answer = exchange(live, head)
    assert answer.startswith("HTTP/1.1 413"), answer


@pytest.mark.parametrize("token", [True, False], ids=["known", "unknown"])
def test_a_body_whose_length_is_told_in_two_ways_is_refused(
    live: LiveServer,
    token: bool,  # noqa: FBT001 - a column of the table
    caplog: pytest.LogCaptureFixture,
) -> None:
    head = a_post(live, "Content-Length: 5", "Transfer-Encoding: chunked", token=token)
    with caplog.at_level(logging.WARNING):
        answer = exchange(live, head, [b"5\r\nhello\r\n0\r\n\r\n"])
    assert answer.startswith("HTTP/1.1 400"), answer
    assert "both a Content-Length and a Transfer-Encoding" in answer
    assert "connection: close" in answer.lower()
    assert caplog.records == []


def test_a_body_that_does_not_come_is_given_up() -> None:
    door = FrontDoor()
    door.limit(body_seconds_max=0.1)
    with serving(door) as live:
        answer = exchange(live, a_post(live, "Content-Length: 100"), [b"{"])
    assert answer.startswith("HTTP/1.1 408"), answer
    assert "the body was not whole after 0.1 s" in answer


def test_a_body_may_begin_with_a_byte_order_mark(live: LiveServer) -> None:
    with live.client() as client:
        body = b"\xef\xbb\xbf" + json.dumps(a_file("marked")).encode()
        made = client.post(JOBS, content=body, headers={"Content-Type": "application/json"})
        assert made.status_code == 201
        mark_alone = client.post(
            JOBS, content=b"\xef\xbb\xbf", headers={"Content-Type": "application/json"}
        )
    a_problem(mark_alone, 400, "MalformedBody")


def test_a_problem_repeats_no_more_than_the_beginning_of_a_long_path(live: LiveServer) -> None:
    with live.client() as client:
        problem = a_problem(client.get("/api/v1/" + "a" * 50_000), 404, "NoSuchRoute")
    assert len(problem.instance) == INSTANCE_LENGTH_MAX
    assert len(problem.detail) < INSTANCE_LENGTH_MAX


def test_the_wire_says_up_to_which_number_a_page_counts_what_follows() -> None:
    assert REMAINING_COUNT_MAX == REMAINING_MAX
