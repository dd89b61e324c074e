"""Events: what happened to a job, a node or the service, for people to read."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import JobId, JobName, NodeName, ProjectName, Sequence
from scheduler.domain.instants import Instant


class EventKind(StrEnum):
    """Whether someone should look."""

    NORMAL = "Normal"
    WARNING = "Warning"


class FoldKey(NamedTuple):
    """What happened to what: equal keys are repeats of one thing."""

    project: ProjectName | None
    job_id: JobId | None
    attempt: int | None
    node: NodeName | None
    kind: EventKind
    reason: str
    message: str


@quickly_made
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
    """How often it happened: a repeat (same `fold_key`) is folded into one event by the store."""
    first_at: Instant | None = None
    """When it happened first; None while count is 1."""
    sequence: Sequence | None = None
    """Given by the store; a folded event moves to the end, so that a follower sees it again."""

    @property
    def fold_key(self) -> FoldKey:
        """What two events have in common when the later one is a repeat of the earlier."""
        return FoldKey(
            project=self.project,
            job_id=self.job_id,
            attempt=self.attempt,
            node=self.node,
            kind=self.kind,
            reason=self.reason,
            message=self.message,
        )
