"""A unit of work: changes and events that are written together or not at all."""

from dataclasses import dataclass, field, replace

from scheduler.domain.communication import ModelProfile
from scheduler.domain.copying import quickly_made
from scheduler.domain.cordon import Cordon
from scheduler.domain.event import Event
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import Epoch, JobId, NodeName, ProjectName, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Attempt, Job
from scheduler.domain.knob_sheet import KnobSheet, KnobTexts, knob_texts
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import Blocked
from scheduler.domain.progress import Progress
from scheduler.domain.queue import Project, Queue
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.step_times import LearnedStepTimes
from scheduler.domain.stray import Stray, StrayOrder
from scheduler.domain.topology import Level, Node
from scheduler.domain.waits import JobEnd, WaitObservation


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class InsertJob:
    """A new job.

    NameTakenError if its name is used in its project by a job not deleted; ConflictError if its id
    is; NotFoundError if its project or its queue does not exist.
    """

    job: Job
    source: str = ""
    """The job file as the user wrote it (canonical JSON), shown by `get -o yaml`."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class SaveJob:
    """A changed job. ConflictError unless the stored revision is `expected_revision`.

    The stored revision becomes `expected_revision + 1`, whatever `job.revision` says. Id, project,
    name, spec and what is said of the submission stay as they were inserted. A terminal job keeps
    its phase: InvalidTransitionError otherwise.
    """

    job: Job
    expected_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Removes a terminal job with its attempts, events, answers and progress, freeing its name.

    ConflictError as with SaveJob; InvalidTransitionError if the job is not terminal or still holds
    reservations.
    """

    job_id: JobId
    expected_revision: int
    at: Instant
    """When: readers of changes are told of the deletion until it expires."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class SaveAttempt:
    """An attempt, new or changed (by key). NotFoundError if its job does not exist."""

    attempt: Attempt


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """New reservations of one attempt.

    NotFoundError if the attempt does not exist; ConflictError if a rank has one already.
    """

    reservations: tuple[Reservation, ...]


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class FreeReservations:
    """Ends the reservations of these ranks of an attempt; of all its ranks when `ranks` is None.

    What is not reserved is passed over: freeing twice is harmless.
    """

    attempt: AttemptKey
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveNodes:
    """The nodes and levels as observed; nodes not named are removed."""

    levels: tuple[Level, ...]
    nodes: tuple[Node, ...]
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCordon:
    """What an admin says of a node, instead of all that was said of it; None: nothing any more."""

    node: NodeName
    cordon: Cordon | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeExclusion:
    """Why a node is left alone, instead of what was stored of it; None: nothing any more."""

    node: NodeName
    exclusion: Exclusion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why a pending job waits, as of one cycle."""

    job_id: JobId
    blocked: Blocked
    at: Instant
    """When a cycle first gave this answer."""
    position: int
    """Place in its queue, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveAnswers:
    """Answers that are new or changed; each replaces the job's former one.

    Those of jobs that have been deleted meanwhile are dropped.
    """

    answers: tuple[Answer, ...]


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCycle:
    """When the last decision cycle ended: how fresh every answer is."""

    cycle: int
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordProgress:
    """A report of rank 0; written by the API, not by the leader.

    NotFoundError if the attempt does not exist.
    """

    attempt: AttemptKey
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveStepTimes:
    """What was learned of a job's step times; written by whoever takes a report in, with it.

    NotFoundError if the job does not exist; ConflictError of kind "step times" unless the stored
    revision is `expected_revision`, 0 where nothing is stored. It becomes one more.
    """

    job_id: JobId
    times: LearnedStepTimes
    expected_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveProfile:
    """A model profile of a project, new or changed (by name). NotFoundError without the project."""

    project: ProjectName
    profile: ModelProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteProfile:
    """Removes a model profile of a project. NotFoundError if there is none of that name."""

    project: ProjectName
    name: str


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWaits:
    """What waiting jobs have taught the tuner; written with the claim or the end of the wait.

    Of each demand bucket and level the newest WAITS_KEPT stay, none WAITS_KEPT_FOR older than what
    is written here. One of the same job, level and instant is replaced.
    """

    waits: tuple[WaitObservation, ...]


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEnd:
    """The service of a job that has ended; written with its end.

    Of each queue the newest ENDS_KEPT stay, none ENDS_KEPT_FOR older than this one.
    """

    end: JobEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveProject:
    """A project, new or changed."""

    project: Project


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveQueue:
    """A queue, new or changed."""

    queue: Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveKnobs:
    """Every policy knob of the cluster, as if each was set live."""

    knobs: PolicyKnobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedKnobs:
    """What dallyd.yaml says of the knobs, instead of all that it said before.

    NotFoundError if the queue does not exist.
    """

    seeded: KnobTexts
    queue: QueueName | None = None
    """None: of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeKnobs:
    """Knobs set live, and others that are left to the file again.

    NotFoundError if the queue does not exist.
    """

    changed: KnobTexts = field(default_factory=dict)
    reset: tuple[str, ...] = ()
    queue: QueueName | None = None
    """None: of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An API token; only the hash of its secret is kept."""

    id: str
    name: str
    """Who it stands for."""
    secret_sha256: str
    is_admin: bool = False
    projects: tuple[ProjectName, ...] = ()
    """Projects it may act in; an admin may in all."""
    created_at: Instant
    expires_at: Instant | None = None
    is_revoked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveToken:
    """A token, new or changed (by id). ConflictError if another token has its secret."""

    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberReply:
    """The reply given under an idempotency key.

    Written in one unit with the job it made. ConflictError of kind "idempotency key" if it exists.
    """

    principal: str
    route: str
    key: str
    body_sha256: str
    status: int
    reply: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """Who did what through which token; append-only."""

    at: Instant
    principal: str
    verb: str
    target: str
    outcome: int
    """HTTP status."""
    request_id: str
    token_id: str = ""
    source: str = ""
    """Address the request came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAudit:
    """One more audit row."""

    row: AuditRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveStrays:
    """The gangs the cluster has and the store does not know; those not named are forgotten.

    The order of one that is kept stays as it is stored.
    """

    strays: tuple[Stray, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStray:
    """What is to become of a stray; the leader carries it out. NotFoundError if there is none."""

    attempt: AttemptKey
    order: StrayOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Forgets what has been kept long enough, a bounded number of rows of each kind at a time."""

    events_before: Instant
    """Events last seen before it, and what readers of changes are told of deleted jobs."""
    replies_before: Instant
    audit_before: Instant
    logs_before: Instant = Instant(0)
    """Logs of workers that the cluster has no more."""
    rows_max: int = 1_000
    """Oldest first; repeat until nothing is left, each time in a unit of its own."""


Change = (
    InsertJob
    | SaveJob
    | DeleteJob
    | SaveAttempt
    | Reserve
    | FreeReservations
    | SaveNodes
    | ChangeCordon
    | ChangeExclusion
    | SaveAnswers
    | RecordCycle
    | RecordProgress
    | SaveStepTimes
    | SaveProfile
    | DeleteProfile
    | RecordWaits
    | RecordEnd
    | SaveProject
    | SaveQueue
    | SaveKnobs
    | SeedKnobs
    | ChangeKnobs
    | SaveToken
    | RememberReply
    | RecordAudit
    | SaveStrays
    | OrderStray
    | Expire
)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is written together or not at all, in order; the first change that fails is the error.

    So that of many requests with one idempotency key all losers learn the same, RememberReply goes
    first in a unit.
    """

    changes: tuple[Change, ...]
    events: tuple[Event, ...] = ()
    epoch: Epoch | None = field(default=None)
    """For the leader's writes: StaleEpochError unless it is the store's current epoch."""


_APPENDED = frozenset({RecordProgress, RecordAudit})


def numbers_of(unit: Unit) -> int:
    """How many sequence numbers a unit takes: one a row that is only ever appended, and its own.

    So the leader knows whether anybody has written between two units of its own.
    """
    numbers = len(unit.events) + 1
    for change in unit.changes:
        if type(change) in _APPENDED:
            numbers += 1
    return numbers


_BOOKKEEPING = (
    RecordProgress,
    SaveStepTimes,
    SaveProfile,
    DeleteProfile,
    RecordWaits,
    RecordEnd,
    SaveToken,
    RememberReply,
    RecordAudit,
    Expire,
)


def asks_for_a_decision(unit: Unit) -> bool:
    """Whether a decision should follow it: more than bookkeeping, by others than the leader."""
    return unit.epoch is None and any(
        not isinstance(change, _BOOKKEEPING) for change in unit.changes
    )


def changed_sheet(sheet: KnobSheet, change: SaveKnobs | SeedKnobs | ChangeKnobs) -> KnobSheet:
    """What a change makes of a sheet."""
    match change:
        case SaveKnobs(knobs=knobs):
            return replace(sheet, changed=knob_texts(knobs))
        case SeedKnobs(seeded=seeded):
            return replace(sheet, seeded=seeded)
        case ChangeKnobs():
            return sheet.with_changes(change.changed, change.reset)
