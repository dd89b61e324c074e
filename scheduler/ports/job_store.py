"""The store: where jobs, attempts, reservations, nodes and events live. A write is one unit."""

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Several
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from scheduler.domain.communication import ModelProfile
from scheduler.domain.copying import quickly_made
from scheduler.domain.cordon import Cordon
from scheduler.domain.event import Event
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import JobId, JobName, NodeName, ProjectName, QueueName, Sequence
from scheduler.domain.job import Attempt, Job, JobPhase
from scheduler.domain.knob_sheet import KnobSheet
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.progress import Progress
from scheduler.domain.queue import Project, Queue
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.step_times import LearnedStepTimes
from scheduler.domain.stray import Stray
from scheduler.domain.topology import Level, Node
from scheduler.domain.waits import JobEnd, WaitObservation
from scheduler.ports.unit import Answer, RecordCycle, Unit

REMAINING_MAX = 10_000
"""A page counts the jobs after it up to this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Which jobs to list, in the order of (submitted_at, id)."""

    projects: tuple[ProjectName, ...] | None = None
    """None for all."""
    queue: QueueName | None = None
    phases: tuple[JobPhase, ...] = ()
    """Empty for all."""
    labels: tuple[tuple[str, str], ...] = ()
    """Equalities that must all hold."""
    limit: int = 100
    is_newest_first: bool = False
    """The same order from its other end."""
    after: tuple[int, JobId] | None = None
    """(submitted_at, id) of the last job of the page before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """One page of a list."""

    jobs: tuple[Job, ...]
    remaining: int
    """Jobs after this page, counted up to REMAINING_MAX."""
    sequence: Sequence
    """The store's sequence the page was read at: later changes are found after it."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """Jobs that are not terminal or still hold something, with attempts that have not ended.

    As a change set (`after` given): every job written since then, terminal and deleted ones too, so
    that a reader who applies it to what it had holds the same as a full read.
    """

    sequence: Sequence
    jobs: tuple[Job, ...]
    attempts: tuple[Attempt, ...]
    """The attempts of `jobs` that are not Ended."""
    reservations: tuple[Reservation, ...]
    """All reservations of `jobs`."""
    deleted: tuple[JobId, ...] = ()
    stuck: tuple[JobId, ...] = ()
    """Jobs that can not be read by now: forget what was held of them, and leave them alone."""
    held_by_stuck: tuple[Reservation, ...] = ()
    """What all jobs hold that can not be read, also in a change set: those GPUs are not free."""
    is_whole: bool = False
    """A full read: forget what was held before. Also when `after` lies before the horizon."""


class ChangeCursor(NamedTuple):
    """A place in the order of job changes: by sequence, inside one sequence by job."""

    sequence: Sequence
    job_id: JobId = JobId("")
    """Changes of that sequence up to this job are behind the cursor; empty: none of them is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """The last change of one job, for watches."""

    sequence: Sequence
    job_id: JobId
    project: ProjectName
    name: JobName
    job: Job | None
    """None if it was deleted."""

    @property
    def cursor(self) -> ChangeCursor:
        """The place behind this change."""
        return ChangeCursor(self.sequence, self.job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Which events to list, oldest first, by sequence."""

    projects: tuple[ProjectName, ...] | None = None
    job_id: JobId | None = None
    after: Sequence | None = None
    limit: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckRow:
    """A stored row that this version can not read; it is left out of every list, never deleted."""

    table: str
    key: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStepTimes:
    """What was learned of a job's step times, as stored."""

    times: LearnedStepTimes = field(default_factory=LearnedStepTimes)
    revision: int = 0
    """0: nothing is stored."""


class JobStore(Protocol):
    """Durable state. All methods may be called from several threads.

    Every method raises StoreUnavailableError when the database does not answer.
    """

    def write(self, unit: Unit) -> Sequence:
        """Write a unit; when it returns, the unit is on disk. Returns the unit's sequence.

        Raises what the unit's changes say (NameTakenError, ConflictError, NotFoundError) and
        StaleEpochError; then nothing of it was written.
        """
        ...

    def job(self, project: ProjectName, name: JobName) -> Job:
        """The job of that name that is not deleted. Raises as `job_by_id`."""
        ...

    def job_by_id(self, job_id: JobId) -> Job:
        """The job. Raises NotFoundError, and UnreadableRowError if its row is broken."""
        ...

    def job_source(self, job_id: JobId) -> str:
        """The job file it was made from. Raises NotFoundError."""
        ...

    def jobs(self, query: JobQuery) -> JobPage:
        """One page of jobs."""
        ...

    def live(self, after: Sequence | None = None) -> LiveState:
        """The live state, whole or as changes since `after`."""
        ...

    def job_changes(self, after: ChangeCursor, *, limit: int) -> tuple[JobChange, ...]:
        """The first changes after the cursor, in order; every job once, with its last change.

        A change of an attempt or a reservation counts as one of its job. Raises HistoryGoneError if
        deletions after the cursor may have been forgotten.
        """
        ...

    def attempts(self, job_id: JobId) -> tuple[Attempt, ...]:
        """All attempts of a job, oldest first."""
        ...

    def reservations(self) -> tuple[Reservation, ...]:
        """Every reservation there is."""
        ...

    def progress(self, job_id: JobId) -> tuple[tuple[AttemptKey, Progress], ...]:
        """All step reports of a job, oldest first."""
        ...

    def step_times(self, job_ids: Several[JobId]) -> Mapping[JobId, StoredStepTimes]:
        """What was learned of the step times of those of the jobs that reported any, by job."""
        ...

    def live_step_times(self, after: Sequence | None = None) -> Mapping[JobId, LearnedStepTimes]:
        """What was learned of the step times of jobs that are not over; or what was written since
        `after`, of whatever job."""
        ...

    def events(self, query: EventQuery) -> tuple[Event, ...]:
        """Events."""
        ...

    def answer(self, job_id: JobId) -> Answer | None:
        """Why the job waits, as last said; None if no cycle has looked at it."""
        ...

    def past_waits(self, after: Sequence | None = None) -> tuple[WaitObservation, ...]:
        """What is kept of past waits, or what was written since `after`; by sequence, then key."""
        ...

    def ended_jobs(self, after: Sequence | None = None) -> tuple[JobEnd, ...]:
        """What is kept of ended jobs, or what was written since `after`; by sequence, then job."""
        ...

    def last_cycle(self) -> RecordCycle | None:
        """The last decision cycle; None before the first."""
        ...

    def topology(self) -> tuple[tuple[Level, ...], tuple[Node, ...]]:
        """Levels (closest first) and nodes as last observed."""
        ...

    def strays(self) -> tuple[Stray, ...]:
        """Gangs that the cluster has and the store does not know, as last told; by attempt."""
        ...

    def latest_job_id(self) -> JobId | None:
        """The largest id of a job, deleted ones too for as long as that is known: with ids that
        begin with the time, the last one submitted."""
        ...

    def cordons(self) -> tuple[Cordon, ...]:
        """What admins say of nodes, by node."""
        ...

    def exclusions(self) -> Mapping[NodeName, Exclusion]:
        """Why nodes are or were left alone, by node."""
        ...

    def projects(self) -> tuple[Project, ...]:
        """All projects, by name."""
        ...

    def profiles(self, project: ProjectName) -> tuple[ModelProfile, ...]:
        """A project's own model profiles, by name."""
        ...

    def queues(self) -> tuple[Queue, ...]:
        """All queues, by name."""
        ...

    def knobs(self) -> PolicyKnobs:
        """The cluster's policy knobs."""
        ...

    def knob_sheet(self) -> KnobSheet:
        """What was said of them, and by whom."""
        ...

    def sequence(self) -> Sequence:
        """The sequence of the last unit written."""
        ...

    def horizon(self) -> Sequence:
        """Events and deletions before it may be forgotten: who stands there reads all anew."""
        ...

    def stuck_rows(self) -> tuple[StuckRow, ...]:
        """Rows that reads have stumbled over and that still can not be read."""
        ...

    def on_change(
        self, callback: Callable[[], None], *, requests_only: bool = False
    ) -> Callable[[], None]:
        """Have `callback` called soon after a unit was written; call the result to end that.

        A hint from a thread of the store: it may come late, twice or not at all, so poll as well.
        With `requests_only` just the units a decision should follow: not the leader's own (those
        with an epoch), not mere bookkeeping (progress, profiles, tokens, replies, audit rows).
        """
        ...

    def check(self) -> None:
        """Raise StoreUnavailableError unless the store can read and write with the right schema."""
        ...
