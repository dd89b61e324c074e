"""Events: what happened to a job, a node or the service, for people to read."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.domain.ids import JobId, JobName, NodeName, ProjectName, Sequence
from scheduler.domain.instants import Instant


class EventKind(StrEnum):
    """Whether someone should look."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened; written in the same unit as the change it tells of."""

    reason: str
    """Unique CamelCase code, e.g. `GangStarted`."""
    message: str
    at: Instant
    kind: EventKind = EventKind.NORMAL
    actor: str = "scheduler"
    """Who did it: `scheduler`, `cluster` or the name of a token."""
    project: ProjectName | None = None
    job_id: JobId | None = None
    job_name: JobName | None = None
    attempt: int | None = None
    node: NodeName | None = None
    count: int = 1
    """How often it happened: an equal event (same job, reason and message) is folded into one."""
    first_at: Instant | None = None
    """When it happened first; None while count is 1."""
    sequence: Sequence | None = None
    """Given by the store."""
