"""The tables of the memory store, and the undo log that makes a unit all or nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeVar

from scheduler.domain.communication import ModelProfile
from scheduler.domain.cordon import Cordon
from scheduler.domain.event import Event, FoldKey
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import JobId, JobName, NodeName, ProjectName, QueueName, Sequence
from scheduler.domain.instants import Instant
from scheduler.domain.job import Attempt, Job
from scheduler.domain.knob_sheet import NOTHING_SAID, KnobSheet
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.lease import NOBODY, LeaseRow
from scheduler.domain.lessons import Lessons, ended_jobs, past_waits
from scheduler.domain.progress import Progress
from scheduler.domain.queue import DEFAULT_PROJECT, DEFAULT_QUEUE, Project, Queue
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.stray import Stray
from scheduler.domain.topology import Level, Node
from scheduler.domain.waits import JobEnd, WaitObservation
from scheduler.ports.job_store import StoredStepTimes
from scheduler.ports.unit import Answer, AuditRow, RecordCycle, RememberReply, Token

K = TypeVar("K")
V = TypeVar("V")


class ReplyKey(NamedTuple):
    """Under what a reply is remembered."""

    principal: str
    route: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """What is left of a deleted job."""

    sequence: Sequence
    project: ProjectName
    name: JobName
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Singles:
    """What there is one of."""

    horizon: Sequence = Sequence(0)
    cycle: RecordCycle | None = None
    knob_sheet: KnobSheet = NOTHING_SAID
    knobs: PolicyKnobs = PolicyKnobs()
    """What the sheet comes to."""
    levels: tuple[Level, ...] = ()
    nodes: tuple[Node, ...] = ()
    """By name."""


@dataclass(slots=True)
class Tables:
    """Everything the store holds."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    sources: dict[JobId, str] = field(default_factory=dict)
    job_ids: dict[tuple[ProjectName, JobName], JobId] = field(default_factory=dict)
    live: dict[JobId, None] = field(default_factory=dict)
    changed: dict[JobId, Sequence] = field(default_factory=dict)
    """By sequence: a job that changes goes to the end."""
    tombstones: dict[JobId, Tombstone] = field(default_factory=dict)
    """By sequence."""
    attempts: dict[JobId, tuple[Attempt, ...]] = field(default_factory=dict)
    reservations: dict[JobId, tuple[Reservation, ...]] = field(default_factory=dict)
    progress: dict[JobId, list[tuple[AttemptKey, Progress]]] = field(default_factory=dict)
    step_times: dict[JobId, StoredStepTimes] = field(default_factory=dict)
    step_times_written: dict[JobId, Sequence] = field(default_factory=dict)
    """By which unit each was last."""
    profiles: dict[tuple[ProjectName, str], ModelProfile] = field(default_factory=dict)
    answers: dict[JobId, Answer] = field(default_factory=dict)
    strays: dict[AttemptKey, Stray] = field(default_factory=dict)
    waits: Lessons[WaitObservation] = field(default_factory=past_waits)
    ends: Lessons[JobEnd] = field(default_factory=ended_jobs)
    events: dict[FoldKey, Event] = field(default_factory=dict)
    """By sequence: an event that is folded goes to the end."""
    projects: dict[ProjectName, Project] = field(
        default_factory=lambda: {DEFAULT_PROJECT: Project(name=DEFAULT_PROJECT)}
    )
    queues: dict[QueueName, Queue] = field(
        default_factory=lambda: {DEFAULT_QUEUE: Queue(name=DEFAULT_QUEUE)}
    )
    cordons: dict[NodeName, Cordon] = field(default_factory=dict)
    exclusions: dict[NodeName, Exclusion] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    replies: dict[ReplyKey, RememberReply] = field(default_factory=dict)
    audit: list[AuditRow] = field(default_factory=list)
    secrets: dict[str, bytes] = field(default_factory=dict)
    singles: Singles = field(default_factory=Singles)
    sequence: Sequence = Sequence(0)
    """The last number given."""
    keeps_events: bool = True
    lease: LeaseRow = NOBODY

    def restore_order(self) -> None:
        """Put what is kept by sequence back into that order: undoing a removal appends."""
        _sort(self.changed, key=lambda item: item[1])
        _sort(self.tombstones, key=lambda item: item[1].sequence)
        _sort(self.events, key=lambda item: item[1].sequence or 0)


def _sort(table: dict[K, V], *, key: Callable[[tuple[K, V]], int]) -> None:
    ordered = sorted(table.items(), key=key)
    table.clear()
    table.update(ordered)


_Step = tuple[Callable[..., object], tuple[object, ...]]


class UndoLog(list[_Step]):
    """Remembers how to take back each step of a unit."""

    __slots__ = ()

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """Set `table[key]`."""
        self.append((_put_back, (table, key, table.get(key, _ABSENT))))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """Remove `table[key]` if it is there."""
        if key in table:
            self.append((_put_back, (table, key, table.pop(key))))

    def on_undo(self, step: Callable[[], object]) -> None:
        """Have `step` called if the unit is taken back."""
        self.append((step, ()))

    def undo(self) -> None:
        """Take everything back, last step first."""
        for step, arguments in reversed(self):
            step(*arguments)
        self.clear()


class _Absent(Enum):
    """Stands for what was not there."""

    ABSENT = None


_ABSENT = _Absent.ABSENT


def _put_back(table: dict[K, V], key: K, former: V | _Absent) -> None:
    if isinstance(former, _Absent):
        del table[key]
    else:
        table[key] = former
