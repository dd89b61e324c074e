"""The server's HTTP/1.1: patient for so long, and in problem bodies even about what is no request.

uvicorn ends connections that are idle between two requests, and no others: whoever opened many and
sent half a line on each would hold as many file descriptors for ever.
"""

import asyncio
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.errors import PROBLEM_TYPE, unreadable_request

HEAD_S_MAX = 10.0


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for each head, counted from its first byte or the connection's."""

    head_s_max = HEAD_S_MAX
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base's
        """The clock runs from the start."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Data may complete the head, or begin another one."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._end_watch()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what can not be read as a request, and end the connection."""
        body = unreadable_request(msg).model_dump_json(by_alias=True).encode()
        headers = [
            ("Content-Type", PROBLEM_TYPE),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ]
        response = h11.Response(status_code=HTTPStatus.BAD_REQUEST, headers=headers)
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch_head(self) -> None:
        # A request being answered has a whole head; its body has a deadline of its own.
        is_waiting = self.cycle is None or self.cycle.response_complete
        if not is_waiting:
            self._end_watch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.head_s_max, self.transport.close)

    def _end_watch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
