"""One change of a job as the lines that watches tell; each line is made once for all followers."""

from dataclasses import dataclass, field
from typing import Literal

from api.jobs.mapping import to_object
from api.jobs.schemas import WatchEvent
from api.problems import Problem
from api.streams.responses import sse
from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.job import Job
from scheduler.ports.job_store import ChangeCursor, JobChange

Kind = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(slots=True)
class JobNews:
    """A change, shared by every follower of the feed."""

    change: JobChange
    _lines: dict[tuple[Kind, bool], bytes] = field(default_factory=dict)

    @property
    def cursor(self) -> ChangeCursor:
        """The place behind this change."""
        return self.change.cursor

    def line(self, kind: Kind, *, is_sse: bool) -> bytes:
        """The change in one form of stream."""
        key = (kind, is_sse)
        if key not in self._lines:
            event = WatchEvent(
                type=kind,
                resource_version=version_of(self.cursor),
                uid=self.change.job_id,
                project=self.change.project,
                name=self.change.name,
                object=to_object(self.change.job) if self.change.job else None,
            )
            self._lines[key] = encoded(event, is_sse=is_sse)
        return self._lines[key]


def added(job: Job, cursor: ChangeCursor, *, is_sse: bool) -> bytes:
    """The line about a job that was there when the watch began."""
    event = WatchEvent(
        type="ADDED",
        resource_version=version_of(cursor),
        uid=job.id,
        project=job.project,
        name=job.name,
        object=to_object(job),
    )
    return encoded(event, is_sse=is_sse)


def bookmark(cursor: ChangeCursor, *, is_sse: bool) -> bytes:
    """The line that says: everything up to here has been told."""
    event = WatchEvent(type="BOOKMARK", resource_version=version_of(cursor))
    return encoded(event, is_sse=is_sse)


def failed(problem: Problem, cursor: ChangeCursor, *, is_sse: bool) -> bytes:
    """The last line of a watch that can not go on."""
    event = WatchEvent(type="ERROR", resource_version=version_of(cursor), problem=problem)
    return encoded(event, is_sse=is_sse)


def encoded(event: WatchEvent, *, is_sse: bool) -> bytes:
    """One line, or one server-sent event."""
    text = event.model_dump_json(by_alias=True, exclude_none=True)
    if is_sse:
        return sse(text, event=event.type, key=event.resource_version)
    return text.encode() + b"\n"


def after_sequence(sequence: Sequence) -> ChangeCursor:
    """The place behind everything of `sequence`."""
    return ChangeCursor(Sequence(sequence + 1))


def version_of(cursor: ChangeCursor) -> str:
    """A place as resourceVersion."""
    return f"{cursor.sequence}:{cursor.job_id}" if cursor.job_id else str(cursor.sequence - 1)


def read_version(text: str) -> ChangeCursor | None:
    """The place that a resourceVersion names; None if it is none of ours."""
    sequence, colon, job_id = text.partition(":")
    if not (sequence.isascii() and sequence.isdecimal()) or len(sequence) > 18:  # noqa: PLR2004 - 64 bits
        return None
    if not colon:
        return after_sequence(Sequence(int(sequence)))
    return ChangeCursor(Sequence(int(sequence)), JobId(job_id)) if job_id else None
