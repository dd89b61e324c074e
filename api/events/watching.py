"""Watches of events: everything that happens, from a sequence on."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import Request

from api.callers import Caller
from api.dependencies import Services
from api.errors import RequestError
from api.events.mapping import to_event
from api.streams.broadcaster import EventCursor
from api.streams.feed import Follower
from api.streams.responses import (
    NDJSON,
    SSE,
    StreamResponse,
    life_s,
    sse,
    sse_heartbeat,
    sse_prelude,
    stream_form,
)
from scheduler.domain.event import Event
from scheduler.domain.ids import JobId, ProjectName, Sequence

EventFollower = Follower[Event, EventCursor]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events a watch is about."""

    projects: tuple[ProjectName, ...] | None
    """None for all, those of no project too."""
    job_id: JobId | None = None
    kind: str | None = None

    def matches(self, event: Event) -> bool:
        """Whether the event belongs to the watch."""
        return (
            (self.projects is None or event.project in self.projects)
            and self.job_id in (None, event.job_id)
            and self.kind in (None, event.kind.value)
        )


def watch_events(
    services: Services, request: Request, caller: Caller, chosen: EventFilter, version: str
) -> StreamResponse:
    """The open answer to a watch; without a version it tells what happens from now on."""
    form = stream_form(request, offered=(SSE, NDJSON))
    version = request.headers.get("last-event-id", version)
    cursor = EventCursor(services.store.sequence())
    if version:
        if not (version.isascii() and version.isdecimal()) or len(version) > 18:  # noqa: PLR2004 - 64 bits
            raise RequestError("InvalidParameter", f"{version[:80]!r} is not a resourceVersion")
        cursor = EventCursor(Sequence(int(version)))
    return StreamResponse(
        _lines(services, chosen, cursor, is_sse=form == SSE),
        form=form,
        permits=services.permits,
        token_id=caller.token_id,
    )


async def _lines(
    services: Services, chosen: EventFilter, cursor: EventCursor, *, is_sse: bool
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    follower: EventFollower = Follower(loop, cursor)
    services.broadcaster.events.join(follower)
    services.broadcaster.start()
    ends_at = loop.time() + life_s(services.limits.stream_life_min_s)
    try:
        yield sse_prelude() if is_sse else b"\n"
        while loop.time() < ends_at:
            events = await follower.mailbox.take(services.limits.stream_heartbeat_s)
            if events is None:
                return
            if not events:
                yield sse_heartbeat() if is_sse else b"\n"
            for event in events:
                if chosen.matches(event):
                    yield _line(event, is_sse=is_sse)
    finally:
        services.broadcaster.events.leave(follower)


def _line(event: Event, *, is_sse: bool) -> bytes:
    text = to_event(event).model_dump_json(by_alias=True, exclude_none=True)
    if is_sse:
        return sse(text, event="Event", key=str(event.sequence))
    return text.encode() + b"\n"
