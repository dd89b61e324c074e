"""The answer that stays open: its forms, its heartbeat, its end, and how many there may be."""

import secrets
from collections import Counter
from collections.abc import AsyncIterator
from threading import Lock

from fastapi.sse import format_sse_event
from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.errors import RequestError

RECONNECT_MS = 2_000
SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
TEXT = "text/plain"

_RETRY_AFTER_S = 10

Node = dict[str, JsonValue]


def watch_responses(model: str) -> dict[int | str, dict[str, JsonValue]]:
    """What the description of a list says of its watch, whose items are of that wire type."""
    item: Node = {"$ref": f"#/components/schemas/{model}"}
    return {
        200: {
            "description": "The list; with `watch=true` a stream of changes",
            "content": {
                SSE: {"itemSchema": sse_schema(item)},
                NDJSON: {"itemSchema": item},
            },
        }
    }


def sse_schema(data: Node) -> Node:
    """Schema of one server-sent event whose data is JSON of the schema `data`."""
    return {
        "type": "object",
        "properties": {
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": data,
            },
            "event": {"type": "string"},
            "id": {"type": "string"},
            "retry": {"type": "integer", "minimum": 0},
        },
    }


class StreamPermits:
    """Counts open streams, all together and by token."""

    def __init__(self, *, total_max: int, per_token: int) -> None:
        self._total_max = total_max
        self._per_token = per_token
        self._lock = Lock()
        self._open: Counter[str] = Counter()
        self._is_closed = False

    def take(self, token_id: str) -> None:
        """One more stream. Raises RequestError if there are too many."""
        retry = {"Retry-After": str(_RETRY_AFTER_S)}
        with self._lock:
            if self._is_closed:
                detail = "the server is shutting down"
                raise RequestError("StreamsUnavailable", detail, headers=retry)
            if self._open.total() >= self._total_max or self._open[token_id] >= self._per_token:
                detail = f"{self._open[token_id]} streams of this token are open"
                raise RequestError("TooManyStreams", detail, headers=retry)
            self._open[token_id] += 1

    def give_back(self, token_id: str) -> None:
        """One less."""
        with self._lock:
            self._open[token_id] -= 1
            if not self._open[token_id]:
                del self._open[token_id]

    @property
    def open(self) -> int:
        """Streams that are open now."""
        with self._lock:
            return self._open.total()

    def close(self) -> None:
        """No new ones from now on."""
        with self._lock:
            self._is_closed = True


class StreamResponse(StreamingResponse):
    """An open answer that holds a permit while it is sent; the client's leaving ends it."""

    def __init__(
        self,
        content: AsyncIterator[bytes],
        *,
        form: str,
        permits: StreamPermits,
        token_id: str,
    ) -> None:
        permits.take(token_id)
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(content, media_type=form, headers=headers)
        self._permits = permits
        self._token_id = token_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the content ends or the client is gone."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._permits.give_back(self._token_id)


def stream_form(request: Request, *, offered: tuple[str, ...]) -> str:
    """The first offered form that the header Accept allows. Raises RequestError if none is."""
    accept = request.headers.get("accept", "*/*")
    wanted = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    for form in offered:
        if form in wanted or "*/*" in wanted or f"{form.split('/')[0]}/*" in wanted:
            return form
    detail = f"this stream is sent as {' or '.join(offered)}"
    raise RequestError("NotAcceptable", detail)


def life_s(least: float) -> float:
    """How long a stream stays open: not all that began together shall come back together."""
    return least * (1 + secrets.randbelow(1000) / 1000)


def sse(data: str, *, event: str, key: str | None = None) -> bytes:
    """One server-sent event."""
    return format_sse_event(data_str=data, event=event, id=key)


def sse_prelude() -> bytes:
    """What an event stream begins with: when to come back after a broken connection."""
    return format_sse_event(retry=RECONNECT_MS)


def sse_heartbeat() -> bytes:
    """Keeps proxies from closing a silent stream."""
    return b": still here\n\n"
