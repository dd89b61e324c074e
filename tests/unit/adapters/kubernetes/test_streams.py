"""An answer that goes on is read line by line, and never kept whole."""

from io import BytesIO

import pytest
import urllib3

from scheduler.adapters.kubernetes import client
from scheduler.adapters.kubernetes.client import Stream


def lines_of(body: bytes) -> list[bytes]:
    response = urllib3.HTTPResponse(body=BytesIO(body), status=200, preload_content=False)
    return list(Stream(response).lines())


def test_lines_come_with_their_ends_and_the_last_as_it_is() -> None:
    assert lines_of(b"one\ntwo\nthr") == [b"one\n", b"two\n", b"thr"]


def test_a_line_without_an_end_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LINE_BYTES_MAX", 100_000)
    body = b"x" * 1_000_000
    pieces = lines_of(body + b"\nend\n")
    assert b"".join(pieces) == body + b"\nend\n"
    assert max(len(piece) for piece in pieces) <= 100_000 + (1 << 16)
