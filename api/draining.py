"""The rest of a body that is refused: taken off the connection before the answer is given.

A client sends its whole body before it looks for an answer. If the connection ended with bytes
that nobody has read, the system would reset it, and the answer could be lost on its way.
"""

from anyio import move_on_after
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

DRAINED_BYTES_MAX = 16 * 1024 * 1024
DRAINED_FOR_S_MAX = 5.0
"""Whoever sends more, or for longer, has to live with a reset."""


class Incoming:
    """The body of one request on its way in."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        self._receive = receive
        self._is_over = not length and "transfer-encoding" not in headers
        self._is_hopeless = length.isdecimal() and int(length[:20]) > DRAINED_BYTES_MAX
        # Such a client sends nothing before it is told to go on, which reading would do.
        self._is_waiting = headers.get("expect", "").lower() == "100-continue"

    async def receive(self) -> Message:
        """The next part."""
        self._is_waiting = False
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._is_over = True
        return message

    async def drain(self) -> None:
        """Take what is left, within bounds, and forget it."""
        if self._is_hopeless or self._is_waiting:
            return
        taken = 0
        with move_on_after(DRAINED_FOR_S_MAX):
            while not self._is_over and taken <= DRAINED_BYTES_MAX:
                taken += len((await self.receive()).get("body", b""))
