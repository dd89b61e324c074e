"""The route of logs: the output of one rank of one attempt, whole, its tail, or as it comes."""

import asyncio
import json
import re
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from api.dependencies import CallerOf, Services, ServicesOf
from api.errors import RequestError
from api.jobs.finding import NamePath, ProjectPath, find_job
from api.logs.following import CHUNK_BYTES, LogFollower, LogPiece
from api.logs.lines import StampedLines
from api.streams.responses import (
    NDJSON,
    SSE,
    TEXT,
    Node,
    StreamResponse,
    sse,
    sse_heartbeat,
    sse_prelude,
    sse_schema,
    stream_form,
)
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import AttemptNumber, Rank
from scheduler.domain.instants import Instant, seconds
from scheduler.domain.job import Job
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.log_source import LogChunk, LogSource

router = APIRouter(prefix="/api/v1", tags=["logs"])

_SINCE_MAX_S = 10 * 365 * 86_400
_OFFSET_MAX = 2**62
_EVENT_ID = re.compile(r"([0-9]{1,6}):([0-9]{1,18})", re.ASCII)
"""Of an event of this stream: attempt and byte to go on from."""

_PIECE: Node = {
    "type": "object",
    "properties": {
        "attempt": {"type": "integer"},
        "rank": {"type": "integer"},
        "nextOffset": {"type": "integer"},
        "text": {"type": "string"},
    },
    "required": ["attempt", "rank", "nextOffset", "text"],
}
"""One piece of a log that is not sent as plain text."""


@dataclass(frozen=True, slots=True)
class LogParameters:
    """Which part of which log."""

    rank: Annotated[int, Query(ge=0, le=1_000_000)] = 0
    attempt: Annotated[int | None, Query(ge=0, le=1_000_000)] = None
    """Default: the latest; a followed log goes on with later ones."""
    tail: Annotated[int | None, Query(ge=0)] = None
    """Lines from the end; at most 10,000. Default: all that is kept."""
    since_seconds: Annotated[float | None, Query(alias="sinceSeconds", ge=0, le=_SINCE_MAX_S)] = (
        None
    )
    offset: Annotated[int | None, Query(ge=0, le=_OFFSET_MAX)] = None
    """Byte to go on from."""
    timestamps: Annotated[bool, Query()] = False
    follow: Annotated[bool, Query()] = False


@router.get(
    "/projects/{project}/jobs/{name}/logs",
    operation_id="getLogs",
    response_class=Response,
    responses={
        200: {
            "description": "The log, as it is",
            "content": {
                TEXT: {"schema": {"type": "string"}},
                SSE: {"itemSchema": sse_schema(_PIECE)},
                NDJSON: {"itemSchema": _PIECE},
            },
        }
    },
)
def get_logs(
    *,
    project: ProjectPath,
    name: NamePath,
    request: Request,
    services: ServicesOf,
    caller: CallerOf,
    parameters: Annotated[LogParameters, Depends()],
) -> Response:
    """Output of one rank; `follow=true` keeps the answer open until the attempt or job ends."""
    form = stream_form(request, offered=(TEXT, SSE, NDJSON))
    job = find_job(services, caller, project, name)
    if services.given.logs is None:
        raise RequestError("LogsUnavailable", "this server can not read logs")
    start = _start(services, services.given.logs, job, parameters)
    last_event = request.headers.get("last-event-id")
    if last_event is not None:
        start = _resumed(start, last_event)
    sender = _Sender(form=form, rank=parameters.rank, is_stamped=parameters.timestamps)
    lines = (
        _followed(services, start, sender)
        if parameters.follow
        else _kept(services.given.logs, start, sender)
    )
    return StreamResponse(lines, form=form, permits=services.permits, token_id=caller.token_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """Where reading begins."""

    job: Job
    rank: Rank
    attempt: AttemptNumber | None
    """None: the job has no attempt yet, and its first one is waited for."""
    offset: int
    is_pinned: bool


def _resumed(start: _Start, last_event: str) -> _Start:
    """Where a client that comes back after a broken connection goes on."""
    match = _EVENT_ID.fullmatch(last_event)
    if match is None:
        raise RequestError("InvalidParameter", "Last-Event-ID is none of this stream")
    return replace(start, attempt=AttemptNumber(int(match[1])), offset=int(match[2]))


def _start(services: Services, logs: LogSource, job: Job, asked: LogParameters) -> _Start:
    if asked.tail is not None and asked.tail > services.limits.log_lines_max:
        detail = f"tail is at most {services.limits.log_lines_max}"
        raise RequestError("InvalidParameter", detail)
    if asked.rank >= job.spec.workers:
        raise NotFoundError("rank", str(asked.rank))
    attempt = asked.attempt
    if attempt is None and job.attempts:
        attempt = job.attempts - 1
    elif attempt is not None and attempt >= job.attempts:
        raise NotFoundError("attempt", str(attempt))
    if attempt is None and not asked.follow:
        raise NotFoundError("attempt", "0")
    number = None if attempt is None else AttemptNumber(attempt)
    offset = asked.offset or 0
    if number is not None:
        key = AttemptKey(job.id, number)
        offset = _offset(logs, key, asked, now=services.clock.now())
    return _Start(
        job=job,
        rank=Rank(asked.rank),
        attempt=number,
        offset=offset,
        is_pinned=asked.attempt is not None,
    )


def _offset(logs: LogSource, key: AttemptKey, asked: LogParameters, *, now: Instant) -> int:
    rank = Rank(asked.rank)
    offsets = [asked.offset or 0]
    try:
        if asked.tail is not None:
            offsets.append(logs.tail_offset(key, rank, lines=asked.tail))
        if asked.since_seconds is not None:
            since = Instant(max(0, now - seconds(asked.since_seconds)))
            offsets.append(logs.offset_since(key, rank, since=since))
        if not asked.follow:
            logs.read(key, rank, offset=0, bytes_max=1)
    except NotFoundError:
        if not asked.follow:
            raise
    return max(offsets)


class _Sender:
    """Log pieces in one form of stream."""

    def __init__(self, *, form: str, rank: int, is_stamped: bool) -> None:
        self._form = form
        self._rank = rank
        self._stamped = StampedLines() if is_stamped else None
        # Pieces may end inside a character.
        self._text = getincrementaldecoder("utf-8")("replace")

    def prelude(self) -> bytes:
        """What the stream begins with."""
        return sse_prelude() if self._form == SSE else b""

    def heartbeat(self) -> bytes:
        """What says that the stream still lives; plain text has nothing for it."""
        return {SSE: sse_heartbeat(), NDJSON: b"\n"}.get(self._form, b"")

    def piece(self, piece: LogPiece) -> bytes:
        """One piece of a log."""
        data = piece.chunk.data if self._stamped is None else self._stamped.feed(piece.chunk)
        return self._encoded(data, piece.attempt, piece.chunk.next_offset)

    def finish(self, attempt: int, offset: int) -> bytes:
        """What was kept back."""
        return self._encoded(self._stamped.finish(), attempt, offset) if self._stamped else b""

    def _encoded(self, data: bytes, attempt: int, offset: int) -> bytes:
        if self._form == TEXT or not data:
            return data
        text = json.dumps(
            {
                "attempt": attempt,
                "rank": self._rank,
                "nextOffset": offset,
                "text": self._text.decode(data),
            }
        )
        if self._form == SSE:
            return sse(text, event="log", key=f"{attempt}:{offset}")
        return text.encode() + b"\n"


async def _kept(logs: LogSource, start: _Start, sender: _Sender) -> AsyncIterator[bytes]:
    """What is there now, chunk by chunk; no thread is held while the client takes one."""
    assert start.attempt is not None
    key, offset = AttemptKey(start.job.id, start.attempt), start.offset
    yield sender.prelude()
    while True:
        chunk = await to_thread.run_sync(_read, logs, key, start.rank, offset)
        offset = chunk.next_offset
        yield sender.piece(LogPiece(start.attempt, chunk))
        if chunk.is_end or not chunk.data:
            break
    yield sender.finish(start.attempt, offset)


def _read(logs: LogSource, key: AttemptKey, rank: Rank, offset: int) -> LogChunk:
    return logs.read(key, rank, offset=offset, bytes_max=CHUNK_BYTES)


async def _followed(services: Services, start: _Start, sender: _Sender) -> AsyncIterator[bytes]:
    """What is there and what comes, until the attempt or the job has ended."""
    assert services.log_pump is not None
    follower = LogFollower(
        asyncio.get_running_loop(),
        job_id=start.job.id,
        rank=start.rank,
        attempt=start.attempt,
        offset=start.offset,
        is_pinned=start.is_pinned,
    )
    services.log_pump.join(follower)
    attempt, offset = start.attempt or 0, start.offset
    try:
        yield sender.prelude()
        while (
            pieces := await follower.mailbox.take(services.limits.stream_heartbeat_s)
        ) is not None:
            for piece in pieces:
                if piece.attempt != attempt:
                    yield sender.finish(attempt, offset)
                attempt, offset = piece.attempt, piece.chunk.next_offset
                yield sender.piece(piece)
            if not pieces:
                yield sender.heartbeat()
        yield sender.finish(attempt, offset)
    finally:
        services.log_pump.leave(follower)
