"""Watches of jobs: every change of the jobs a filter selects, from a version on."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from anyio import to_thread
from starlette.requests import Request

from api.callers import Caller
from api.dependencies import Services
from api.errors import RequestError, problem_of
from api.jobs.listing import JobFilters
from api.jobs.news import JobNews, added, after_sequence, bookmark, failed, read_version
from api.streams.feed import Follower
from api.streams.responses import (
    NDJSON,
    SSE,
    StreamResponse,
    life_s,
    sse_heartbeat,
    sse_prelude,
    stream_form,
)
from scheduler.domain.ids import JobId
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.ports.job_store import ChangeCursor, JobQuery, JobStore

_PAGE = 500

JobFollower = Follower[JobNews, ChangeCursor]


def watch_jobs(
    services: Services, request: Request, caller: Caller, filters: JobFilters, version: str
) -> StreamResponse:
    """The open answer to a watch. Raises RequestError."""
    form = stream_form(request, offered=(SSE, NDJSON))
    watch = _Watch(
        services=services,
        request=request,
        filters=filters,
        is_sse=form == SSE,
        opened_at=services.clock.now(),
    )
    cursor = _start(services, request.headers.get("last-event-id", version))
    return StreamResponse(
        watch.run(cursor), form=form, permits=services.permits, token_id=caller.token_id
    )


def _start(services: Services, version: str) -> ChangeCursor | None:
    if not version:
        return None
    cursor = read_version(version)
    if cursor is None:
        raise RequestError("InvalidParameter", f"{version[:80]!r} is not a resourceVersion")
    if cursor.sequence > services.store.sequence() + 1:
        raise RequestError("Gone", f"the version {version[:80]!r} is newer than the store")
    return cursor


@dataclass(slots=True, kw_only=True)
class _Watch:
    """One client's view of the changes."""

    services: Services
    request: Request
    filters: JobFilters
    is_sse: bool
    opened_at: Instant
    told: dict[JobId, int] = field(default_factory=dict)
    """Revision last told of each job that is in the selection."""

    async def run(self, cursor: ChangeCursor | None) -> AsyncIterator[bytes]:
        """The lines of the watch."""
        if self.is_sse:
            yield sse_prelude()
        if cursor is None:
            cursor = after_sequence(await to_thread.run_sync(self.services.store.sequence))
            async for job in _all_jobs(self.services.store, self.filters):
                self.told[job.id] = job.revision
                yield added(job, cursor, is_sse=self.is_sse)
            yield bookmark(cursor, is_sse=self.is_sse)
        follower: JobFollower = Follower(asyncio.get_running_loop(), cursor)
        self.services.broadcaster.jobs.join(follower)
        self.services.broadcaster.start()
        try:
            async for line in self._follow(follower, cursor):
                yield line
        finally:
            self.services.broadcaster.jobs.leave(follower)

    async def _follow(self, follower: JobFollower, cursor: ChangeCursor) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + life_s(self.services.limits.stream_life_min_s)
        while loop.time() < ends_at:
            news = await follower.mailbox.take(self.services.limits.stream_heartbeat_s)
            if news is None:
                if follower.gone or follower.is_too_slow:
                    yield self._error(follower, cursor)
                return
            if not news:
                yield sse_heartbeat() if self.is_sse else bookmark(cursor, is_sse=False)
            for piece in news:
                cursor = piece.cursor
                line = self._line(piece)
                if line:
                    yield line

    def _line(self, news: JobNews) -> bytes:
        """The line about a change; empty if it does not concern this watch."""
        change = news.change
        job, known = change.job, self.told.get(change.job_id)
        if job is None:
            self.told.pop(change.job_id, None)
            is_ours = self.filters.may_match(change.project, change.name)
            return news.line("DELETED", is_sse=self.is_sse) if is_ours else b""
        if not self.filters.matches(job):
            # It may have been in the selection before: as far as its phase decides, that is so.
            self.told.pop(change.job_id, None)
            was_ours = known is not None or self.filters.matches_but_for_phase(job)
            return news.line("DELETED", is_sse=self.is_sse) if was_ours else b""
        if known == job.revision:
            return b""
        self.told[change.job_id] = job.revision
        is_new = known is None and (job.revision == 0 or job.submitted_at >= self.opened_at)
        return news.line("ADDED" if is_new else "MODIFIED", is_sse=self.is_sse)

    def _error(self, follower: JobFollower, cursor: ChangeCursor) -> bytes:
        if follower.gone:
            problem = problem_of(self.request, "Gone", str(follower.gone))
        else:
            detail = "the client takes too little; watch again from its last version"
            problem = problem_of(self.request, "WatchTooSlow", detail)
        return failed(problem, cursor, is_sse=self.is_sse)


async def _all_jobs(store: JobStore, filters: JobFilters) -> AsyncIterator[Job]:
    """Every job of the selection, page by page; each page is read in a worker thread."""
    if filters.projects == ():
        return
    query = JobQuery(
        projects=filters.projects,
        queue=filters.queue,
        phases=filters.phases,
        labels=filters.labels,
        limit=_PAGE,
    )
    while True:
        page = await to_thread.run_sync(store.jobs, query)
        for job in page.jobs:
            if filters.matches(job):
                yield job
        if not page.remaining:
            return
        last = page.jobs[-1]
        query = replace(query, after=(last.submitted_at, last.id))
