"""Pages of jobs, changes and events: keyset paging where every step is a search in an index.

A page of jobs is merged from branches, one a project and phase, each read in order off an index.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    exists,
    false,
    func,
    literal_column,
    select,
    true,
    tuple_,
    union_all,
)

from scheduler.adapters.sql.mapping import to_event
from scheduler.adapters.sql.rows import AnyRow, chunks
from scheduler.adapters.sql.single_queries import horizon, jobs_by_id, sequence
from scheduler.adapters.sql.stuck_rows import StuckRows
from scheduler.adapters.sql.tables import deleted_jobs, events, job_labels, jobs
from scheduler.domain.errors import HistoryGoneError
from scheduler.domain.event import Event
from scheduler.domain.ids import JobId
from scheduler.domain.job import Job, JobPhase
from scheduler.ports.job_store import (
    REMAINING_MAX,
    ChangeCursor,
    EventQuery,
    JobChange,
    JobPage,
    JobQuery,
)

_Select: TypeAlias = Select[*tuple[Any, ...]]

_BRANCHES_AT_ONCE = 50
"""Fewer than SQLite allows in one compound statement."""


_OLDEST_FIRST: tuple[ColumnElement[Any], ...] = (
    literal_column("submitted_at"),
    literal_column("id"),
)
_NEWEST_FIRST = tuple(column.desc() for column in _OLDEST_FIRST)
"""Databases read an index from either end."""


class _Place(NamedTuple):
    """Where a job stands in every list."""

    submitted_at: int
    job_id: JobId


def job_page(connection: Connection, query: JobQuery, stuck: StuckRows) -> JobPage:
    """One page of jobs. A row that can not be read does not make it shorter."""
    # Read first: what changes while the page is read is found again after this sequence.
    read_at = sequence(connection)
    found: list[Job] = []
    after = None if query.after is None else _Place(*query.after)
    while len(found) < query.limit:
        wanted = query.limit - len(found)
        places = _places(connection, query, after, limit=wanted)
        by_id = {
            job.id: job for job in jobs_by_id(connection, [place.job_id for place in places], stuck)
        }
        found += [by_id[place.job_id] for place in places if place.job_id in by_id]
        if len(places) < wanted:
            return JobPage(jobs=tuple(found), remaining=0, sequence=read_at)
        after = places[-1]
    remaining = _count(connection, query, after)
    return JobPage(jobs=tuple(found), remaining=remaining, sequence=read_at)


def _places(
    connection: Connection, query: JobQuery, after: _Place | None, *, limit: int
) -> list[_Place]:
    found: list[_Place] = []
    order = _NEWEST_FIRST if query.is_newest_first else _OLDEST_FIRST
    for branches in chunks(_branches(query, after), _BRANCHES_AT_ONCE):
        parts = [select(branch.order_by(*order).limit(limit).subquery()) for branch in branches]
        merged = union_all(*parts).order_by(*order).limit(limit)
        found += [_Place(row.submitted_at, row.id) for row in connection.execute(merged)]
    return sorted(found, reverse=query.is_newest_first)[:limit]


def _count(connection: Connection, query: JobQuery, after: _Place | None) -> int:
    """Jobs after that place, up to the number that a page tells."""
    count = 0
    for branches in chunks(_branches(query, after), _BRANCHES_AT_ONCE):
        parts = [
            select(func.count()).select_from(branch.limit(REMAINING_MAX).subquery())
            for branch in branches
        ]
        count += sum(connection.scalars(union_all(*parts)))
    return min(count, REMAINING_MAX)


def _branches(query: JobQuery, after: _Place | None) -> list[_Select]:
    """What the lists to merge have in common with the query, without their order."""
    if query.labels:
        return [_labelled(query, after)]
    branches = [
        select(jobs.c.submitted_at, jobs.c.id).where(jobs.c.phase == phase.value)
        for phase in query.phases or tuple(JobPhase)
    ]
    if query.queue is not None:
        branches = [branch.where(jobs.c.queue == query.queue) for branch in branches]
        if query.projects is not None:
            # The index of queues has the project at its end.
            branches = [branch.where(jobs.c.project.in_(query.projects)) for branch in branches]
    elif query.projects is not None:
        branches = [
            branch.where(jobs.c.project == project)
            for branch in branches
            for project in dict.fromkeys(query.projects)
        ]
    if after is not None:
        comes_after = _comes_after(query, jobs.c.submitted_at, jobs.c.id, after)
        branches = [branch.where(comes_after) for branch in branches]
    return branches


def _labelled(query: JobQuery, after: _Place | None) -> _Select:
    """Jobs off the index of their first label; the rest is looked up for each."""
    (key, value), *others = query.labels
    branch = (
        select(job_labels.c.submitted_at, job_labels.c.job_id.label("id"))
        .join(jobs, jobs.c.id == job_labels.c.job_id)
        .where(job_labels.c.key == key, job_labels.c.value == value)
    )
    if query.projects is not None:
        branch = branch.where(jobs.c.project.in_(query.projects))
    if query.queue is not None:
        branch = branch.where(jobs.c.queue == query.queue)
    if query.phases:
        branch = branch.where(jobs.c.phase.in_([phase.value for phase in query.phases]))
    for other_key, other_value in others:
        other = job_labels.alias()
        branch = branch.where(
            exists().where(
                other.c.key == other_key, other.c.value == other_value, other.c.job_id == jobs.c.id
            )
        )
    if after is not None:
        branch = branch.where(
            _comes_after(query, job_labels.c.submitted_at, job_labels.c.job_id, after)
        )
    return branch


def _comes_after(
    query: JobQuery, submitted_at: ColumnElement[Any], job_id: ColumnElement[Any], after: _Place
) -> ColumnElement[bool]:
    place = tuple_(submitted_at, job_id)
    return place < after if query.is_newest_first else place > after


def changed_jobs(
    connection: Connection, after: ChangeCursor, stuck: StuckRows, *, limit: int
) -> tuple[JobChange, ...]:
    """The first changes after the cursor. A row that can not be read does not hide the next."""
    forgotten = horizon(connection)
    if after.sequence <= forgotten:
        raise HistoryGoneError(asked=after.sequence, horizon=forgotten)
    found: list[JobChange] = []
    while len(found) < limit:
        wanted = limit - len(found)
        rows = _changed_rows(connection, after, limit=wanted)
        living = [row.id for row in rows if not row.is_deleted]
        by_id = {job.id: job for job in jobs_by_id(connection, living, stuck)}
        found += [
            JobChange(
                sequence=row.sequence,
                job_id=row.id,
                project=row.project,
                name=row.name,
                job=by_id.get(row.id),
            )
            for row in rows
            if row.is_deleted or row.id in by_id
        ]
        if len(rows) < wanted:
            break
        after = ChangeCursor(rows[-1].sequence, rows[-1].id)
    return tuple(found)


def _changed_rows(connection: Connection, after: ChangeCursor, *, limit: int) -> Sequence[AnyRow]:
    changed = select(
        jobs.c.changed.label("sequence"),
        jobs.c.id,
        jobs.c.project,
        jobs.c.name,
        false().label("is_deleted"),
    ).where(tuple_(jobs.c.changed, jobs.c.id) > after)
    deleted = select(
        deleted_jobs.c.sequence,
        deleted_jobs.c.job_id.label("id"),
        deleted_jobs.c.project,
        deleted_jobs.c.name,
        true().label("is_deleted"),
    ).where(tuple_(deleted_jobs.c.sequence, deleted_jobs.c.job_id) > after)
    parts = [
        select(branch.order_by("sequence", "id").limit(limit).subquery())
        for branch in (changed, deleted)
    ]
    return connection.execute(union_all(*parts).order_by("sequence", "id").limit(limit)).all()


def event_page(connection: Connection, query: EventQuery, stuck: StuckRows) -> tuple[Event, ...]:
    """Events, oldest first. A row that can not be read does not make the page shorter."""
    found: list[Event] = []
    after = query.after
    while len(found) < query.limit:
        wanted = query.limit - len(found)
        parts = [
            select(branch.order_by(events.c.sequence).limit(wanted).subquery())
            for branch in _event_branches(query, after)
        ]
        if not parts:
            break
        rows = connection.execute(union_all(*parts).order_by("sequence").limit(wanted)).all()
        found += stuck.readable(rows, to_event)
        if len(rows) < wanted:
            break
        after = rows[-1].sequence
    return tuple(found)


def _event_branches(query: EventQuery, after: int | None) -> Sequence[_Select]:
    every = select(events)
    if after is not None:
        every = every.where(events.c.sequence > after)
    if query.job_id is not None:
        of_job = every.where(events.c.job_id == query.job_id)
        is_any = query.projects is None
        return [of_job if is_any else of_job.where(events.c.project.in_(query.projects or ()))]
    if query.projects is None:
        return [every]
    return [every.where(events.c.project == name) for name in dict.fromkeys(query.projects)]
