"""The store in memory: for the simulator and for tests. It promises what the SQL store promises,
but durability."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Several
from dataclasses import replace
from itertools import takewhile
from threading import RLock

from scheduler.adapters.memory.changes import carry_out
from scheduler.adapters.memory.tables import ReplyKey, Tables
from scheduler.domain.communication import ModelProfile
from scheduler.domain.cordon import Cordon
from scheduler.domain.errors import HistoryGoneError, NotFoundError
from scheduler.domain.event import Event
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import Epoch, JobId, JobName, NodeName, ProjectName, Sequence
from scheduler.domain.job import Attempt, AttemptPhase, Job
from scheduler.domain.knob_sheet import KnobSheet
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.lease import LeaseRow
from scheduler.domain.progress import Progress
from scheduler.domain.queue import Project, Queue
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.step_times import LearnedStepTimes
from scheduler.domain.stray import Stray
from scheduler.domain.topology import Level, Node
from scheduler.domain.waits import JobEnd, WaitObservation
from scheduler.ports.job_store import (
    REMAINING_MAX,
    ChangeCursor,
    EventQuery,
    JobChange,
    JobPage,
    JobQuery,
    LiveState,
    StoredStepTimes,
    StuckRow,
)
from scheduler.ports.unit import (
    Answer,
    AuditRow,
    RecordCycle,
    RememberReply,
    Token,
    Unit,
    asks_for_a_decision,
)


class MemoryStore:
    """A JobStore and AccountStore; it begins with the project and the queue `default`."""

    def __init__(self, *, keeps_events: bool = True) -> None:
        """`keeps_events`: else they take their numbers, and nobody can read them."""
        self._tables = Tables(keeps_events=keeps_events)
        self._lock = RLock()
        self._callbacks: dict[int, tuple[Callable[[], None], bool]] = {}
        self._callbacks_made = 0

    # Writing.

    def write(self, unit: Unit) -> Sequence:
        """Write a unit or nothing of it."""
        with self._lock:
            sequence = carry_out(unit, self._tables)
            callbacks = tuple(self._callbacks.values()) if self._callbacks else ()
        for callback, requests_only in callbacks:
            if not requests_only or asks_for_a_decision(unit):
                callback()
        return sequence

    def on_change(
        self, callback: Callable[[], None], *, requests_only: bool = False
    ) -> Callable[[], None]:
        """Call `callback` in the thread of the writer, after each unit."""
        with self._lock:
            self._callbacks_made += 1
            number = self._callbacks_made
            self._callbacks[number] = (callback, requests_only)

        def end() -> None:
            with self._lock:
                self._callbacks.pop(number, None)

        return end

    # Jobs.

    def job(self, project: ProjectName, name: JobName) -> Job:
        """The job of that name."""
        with self._lock:
            job_id = self._tables.job_ids.get((project, name))
            if job_id is None:
                raise NotFoundError("job", name)
            return self._tables.jobs[job_id]

    def job_by_id(self, job_id: JobId) -> Job:
        """The job of that id."""
        with self._lock:
            job = self._tables.jobs.get(job_id)
        if job is None:
            raise NotFoundError("job", job_id)
        return job

    def job_source(self, job_id: JobId) -> str:
        """The job file it was made from."""
        with self._lock:
            source = self._tables.sources.get(job_id)
        if source is None:
            raise NotFoundError("job", job_id)
        return source

    def jobs(self, query: JobQuery) -> JobPage:
        """One page of jobs."""
        with self._lock:
            found = [job for job in self._tables.jobs.values() if _matches(job, query)]
            sequence = self._tables.sequence
        found.sort(key=_list_order, reverse=query.is_newest_first)
        rest = found if query.after is None else [j for j in found if _comes_after(j, query)]
        remaining = len(rest) - query.limit
        return JobPage(
            jobs=tuple(rest[: query.limit]),
            remaining=min(max(0, remaining), REMAINING_MAX),
            sequence=sequence,
        )

    def live(self, after: Sequence | None = None) -> LiveState:
        """The live state, whole or as changes since `after`."""
        with self._lock:
            tables = self._tables
            is_whole = after is None or after < tables.singles.horizon
            deleted: list[JobId] = []
            if after is None or is_whole:
                holding = (job_id for job_id, held in tables.reservations.items() if held)
                jobs = [tables.jobs[job_id] for job_id in {**tables.live, **dict.fromkeys(holding)}]
            else:
                jobs = [tables.jobs[job_id] for job_id in _changed_since(tables, after)]
                deleted = list(_deleted_since(tables, after))
            jobs.sort(key=_list_order)
            attempts = [a for job in jobs for a in tables.attempts.get(job.id, ())]
            reservations = [r for job in jobs for r in tables.reservations.get(job.id, ())]
            reservations.sort(key=_reservation_order)
            return LiveState(
                sequence=tables.sequence,
                jobs=tuple(jobs),
                attempts=tuple([a for a in attempts if a.phase is not AttemptPhase.ENDED]),
                reservations=tuple(reservations),
                deleted=tuple(sorted(deleted)),
                is_whole=is_whole,
            )

    def job_changes(self, after: ChangeCursor, *, limit: int) -> tuple[JobChange, ...]:
        """The first changes after the cursor."""
        with self._lock:
            tables = self._tables
            if after.sequence <= tables.singles.horizon:
                raise HistoryGoneError(asked=after.sequence, horizon=tables.singles.horizon)
            since = Sequence(after.sequence - 1)
            changed = [_job_change(tables, job_id) for job_id in _changed_since(tables, since)]
            deleted = [_removal(tables, job_id) for job_id in _deleted_since(tables, since)]
        later = [change for change in (*changed, *deleted) if change.cursor > after]
        return tuple(sorted(later, key=lambda change: change.cursor)[:limit])

    # What belongs to a job.

    def attempts(self, job_id: JobId) -> tuple[Attempt, ...]:
        """All attempts of a job, oldest first."""
        with self._lock:
            return self._tables.attempts.get(job_id, ())

    def reservations(self) -> tuple[Reservation, ...]:
        """Every reservation there is."""
        with self._lock:
            held = [r for of_job in self._tables.reservations.values() for r in of_job]
        return tuple(sorted(held, key=_reservation_order))

    def progress(self, job_id: JobId) -> tuple[tuple[AttemptKey, Progress], ...]:
        """All step reports of a job, oldest first."""
        with self._lock:
            return tuple(self._tables.progress.get(job_id, ()))

    def step_times(self, job_ids: Several[JobId]) -> Mapping[JobId, StoredStepTimes]:
        """What was learned of the step times of these jobs."""
        with self._lock:
            known = self._tables.step_times
            return {job_id: known[job_id] for job_id in job_ids if job_id in known}

    def live_step_times(self, after: Sequence | None = None) -> Mapping[JobId, LearnedStepTimes]:
        """What was learned of jobs that are not over, or written since `after`."""
        with self._lock:
            tables = self._tables
            return {
                job_id: tables.step_times[job_id].times
                for job_id, written in tables.step_times_written.items()
                if (job_id in tables.live if after is None else written > after)
            }

    def events(self, query: EventQuery) -> tuple[Event, ...]:
        """Events, oldest first."""
        found: list[Event] = []
        with self._lock:
            for event in reversed(self._tables.events.values()):
                if query.after is not None and _sequence(event) <= query.after:
                    break
                if _tells_of(event, query):
                    found.append(event)
        return tuple(found[::-1][: query.limit])

    def answer(self, job_id: JobId) -> Answer | None:
        """Why the job waits, as last said."""
        with self._lock:
            return self._tables.answers.get(job_id)

    # What past jobs teach.

    def past_waits(self, after: Sequence | None = None) -> tuple[WaitObservation, ...]:
        """Past waits, by sequence."""
        with self._lock:
            return self._tables.waits.since(after)

    def ended_jobs(self, after: Sequence | None = None) -> tuple[JobEnd, ...]:
        """Ended jobs, by sequence."""
        with self._lock:
            return self._tables.ends.since(after)

    # The cluster and the store itself.

    def last_cycle(self) -> RecordCycle | None:
        """The last decision cycle."""
        return self._tables.singles.cycle

    def topology(self) -> tuple[tuple[Level, ...], tuple[Node, ...]]:
        """Levels and nodes as last observed."""
        singles = self._tables.singles
        return singles.levels, singles.nodes

    def strays(self) -> tuple[Stray, ...]:
        """Strays, by attempt."""
        with self._lock:
            return tuple(stray for _, stray in sorted(self._tables.strays.items()))

    def latest_job_id(self) -> JobId | None:
        """The largest id of a job, deleted or not."""
        with self._lock:
            return max((*self._tables.jobs, *self._tables.tombstones), default=None)

    def projects(self) -> tuple[Project, ...]:
        """All projects, by name."""
        with self._lock:
            return tuple(project for _, project in sorted(self._tables.projects.items()))

    def cordons(self) -> tuple[Cordon, ...]:
        """What admins say of nodes, by node."""
        with self._lock:
            cordons = self._tables.cordons
            return tuple(cordon for _, cordon in sorted(cordons.items())) if cordons else ()

    def exclusions(self) -> Mapping[NodeName, Exclusion]:
        """Why nodes are or were left alone, by node."""
        with self._lock:
            return dict(sorted(self._tables.exclusions.items()))

    def profiles(self, project: ProjectName) -> tuple[ModelProfile, ...]:
        """A project's own model profiles, by name."""
        with self._lock:
            own = sorted(self._tables.profiles.items(), key=lambda item: item[0])
        return tuple(profile for (owner, _), profile in own if owner == project)

    def queues(self) -> tuple[Queue, ...]:
        """All queues, by name."""
        with self._lock:
            return tuple(queue for _, queue in sorted(self._tables.queues.items()))

    def knobs(self) -> PolicyKnobs:
        """The cluster's policy knobs."""
        return self._tables.singles.knobs

    def knob_sheet(self) -> KnobSheet:
        """What was said of them, and by whom."""
        return self._tables.singles.knob_sheet

    def sequence(self) -> Sequence:
        """The sequence of the last unit written."""
        return self._tables.sequence

    def horizon(self) -> Sequence:
        """Where forgotten events and deletions begin."""
        return self._tables.singles.horizon

    def stuck_rows(self) -> tuple[StuckRow, ...]:
        """None: nothing here is ever encoded."""
        return ()

    def check(self) -> None:
        """Memory always answers."""

    # Accounts.

    def token_by_secret(self, secret_sha256: str) -> Token | None:
        """The token with that secret hash."""
        with self._lock:
            tokens = self._tables.tokens.values()
            return next((t for t in tokens if t.secret_sha256 == secret_sha256), None)

    def tokens(self) -> tuple[Token, ...]:
        """All tokens, by creation."""
        with self._lock:
            return tuple(sorted(self._tables.tokens.values(), key=lambda t: (t.created_at, t.id)))

    def reply(self, *, principal: str, route: str, key: str) -> RememberReply | None:
        """The reply remembered under an idempotency key."""
        with self._lock:
            return self._tables.replies.get(ReplyKey(principal, route, key))

    def audit(self, *, limit: int) -> tuple[AuditRow, ...]:
        """The newest audit rows, newest first."""
        with self._lock:
            return tuple(self._tables.audit[: -limit - 1 : -1])

    def instance_id(self) -> str:
        """The id of this store, made on first use."""
        return self.server_secret("instance-id")[:8].hex()

    def server_secret(self, name: str) -> bytes:
        """Random bytes kept under that name."""
        with self._lock:
            return self._tables.secrets.setdefault(name, secrets.token_bytes(32))

    # The lease, for MemoryLeadership.

    def lease(self) -> LeaseRow:
        """The lease of the leader."""
        return self._tables.lease

    def take_lease(self, *, seen: LeaseRow, holder: str) -> Epoch | None:
        """Begin a new epoch, if the lease is still as `seen`."""
        with self._lock:
            if self._tables.lease != seen:
                return None
            epoch = Epoch(seen.epoch + 1)
            self._tables.lease = LeaseRow(holder=holder, epoch=epoch, renewals=0)
            return epoch

    def renew_lease(self, epoch: Epoch) -> int | None:
        """Count a renewal."""
        with self._lock:
            lease = self._tables.lease
            if lease.epoch != epoch:
                return None
            self._tables.lease = replace(lease, renewals=lease.renewals + 1)
            return self._tables.lease.renewals

    def leave_lease(self, epoch: Epoch) -> None:
        """Say that nobody holds the lease."""
        with self._lock:
            if self._tables.lease.epoch == epoch:
                self._tables.lease = replace(self._tables.lease, holder="")


def _matches(job: Job, query: JobQuery) -> bool:
    labels = job.spec.labels
    return (
        (query.projects is None or job.project in query.projects)
        and (query.queue is None or job.spec.queue == query.queue)
        and (not query.phases or job.phase in query.phases)
        and all(labels.get(key) == value for key, value in query.labels)
    )


def _comes_after(job: Job, query: JobQuery) -> bool:
    assert query.after is not None
    place = _list_order(job)
    return place < query.after if query.is_newest_first else place > query.after


def _list_order(job: Job) -> tuple[int, JobId]:
    return job.submitted_at, job.id


def _reservation_order(reservation: Reservation) -> tuple[AttemptKey, int]:
    return reservation.attempt, reservation.rank


def _changed_since(tables: Tables, after: Sequence) -> Iterator[JobId]:
    items = reversed(tables.changed.items())
    return (job_id for job_id, _ in takewhile(lambda item: item[1] > after, items))


def _deleted_since(tables: Tables, after: Sequence) -> Iterator[JobId]:
    items = reversed(tables.tombstones.items())
    return (job_id for job_id, _ in takewhile(lambda item: item[1].sequence > after, items))


def _job_change(tables: Tables, job_id: JobId) -> JobChange:
    job = tables.jobs[job_id]
    return JobChange(
        sequence=tables.changed[job_id],
        job_id=job_id,
        project=job.project,
        name=job.name,
        job=job,
    )


def _removal(tables: Tables, job_id: JobId) -> JobChange:
    stone = tables.tombstones[job_id]
    return JobChange(
        sequence=stone.sequence,
        job_id=job_id,
        project=stone.project,
        name=stone.name,
        job=None,
    )


def _tells_of(event: Event, query: EventQuery) -> bool:
    return (query.projects is None or event.project in query.projects) and (
        query.job_id is None or event.job_id == query.job_id
    )


def _sequence(event: Event) -> Sequence:
    assert event.sequence is not None
    return event.sequence
