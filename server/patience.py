"""How long the server waits for the head of a request: a connection that never asks is ended.

uvicorn ends connections that are idle between two requests, and no others: whoever opened many and
sent half a line on each would hold as many file descriptors for ever.
"""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

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
