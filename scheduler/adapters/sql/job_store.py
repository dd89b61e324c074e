"""The store on SQLite and PostgreSQL: one writer thread, and readers on their own connections."""

import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Several
from concurrent.futures import TimeoutError as TooLateError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from sqlalchemy import Connection, exc

from scheduler.adapters.sql import (
    knowledge,
    lessons,
    list_queries,
    server_rows,
    single_queries,
    worker_logs,
)
from scheduler.adapters.sql.changes import carry_out
from scheduler.adapters.sql.connecting import (
    Engines,
    open_engines,
    postgres_conninfo,
    trouble_in_our_words,
)
from scheduler.adapters.sql.file_lock import FileLock, lock_file
from scheduler.adapters.sql.hints import Callbacks, Listener
from scheduler.adapters.sql.live_queries import LiveReader, all_reservations
from scheduler.adapters.sql.migrating import check_schema, expect_database
from scheduler.adapters.sql.observing import NobodyObserves, StoreObserver
from scheduler.adapters.sql.opened_file import OpenedFile
from scheduler.adapters.sql.stuck_rows import StuckRows
from scheduler.adapters.sql.writer import Transaction, Writer
from scheduler.domain import ids
from scheduler.domain.communication import ModelProfile
from scheduler.domain.cordon import Cordon
from scheduler.domain.errors import (
    NotFoundError,
    SchedulerError,
    StoreUnavailableError,
    UnreadableRowError,
)
from scheduler.domain.event import Event
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import Epoch, JobId, JobName, NodeName, ProjectName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Attempt, Job
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
    ChangeCursor,
    EventQuery,
    JobChange,
    JobPage,
    JobQuery,
    LiveState,
    StoredStepTimes,
    StuckRow,
)
from scheduler.ports.log_archive import KeptLog
from scheduler.ports.unit import (
    Answer,
    AuditRow,
    RecordAudit,
    RecordCycle,
    RememberReply,
    Token,
    Unit,
)

T = TypeVar("T")

_WRITE_S_MAX = 30.0


def open_store(
    database_url: str,
    *,
    is_server: bool = True,
    observer: StoreObserver | None = None,
) -> "SqlStore":
    """Open a migrated database.

    A server on SQLite holds the data folder alone: AlreadyServingError, with the other's process
    id, if one is there. An admin command that reads or writes beside it says `is_server=False`.
    Raises WrongSchemaError, and StoreUnavailableError if the database does not answer.
    """
    engines = open_engines(database_url)
    lock: FileLock | None = None
    try:
        if engines.path is not None:
            # Connecting would make an empty file.
            expect_database(engines.path)
            with trouble_in_our_words():
                lock = FileLock(lock_file(engines.path)) if is_server else None
        with trouble_in_our_words(), engines.readers.connect() as connection:
            check_schema(connection)
        conninfo = postgres_conninfo(database_url)
        return SqlStore(
            engines, lock=lock, conninfo=conninfo, observer=observer or NobodyObserves()
        )
    except BaseException:
        engines.dispose()
        if lock is not None:
            lock.release()
        raise


class SqlStore:
    """A JobStore, an AccountStore, a LeaseStore and a LogArchive; made by `open_store`."""

    def __init__(
        self,
        engines: Engines,
        *,
        lock: FileLock | None,
        conninfo: str | None,
        observer: StoreObserver,
    ) -> None:
        self._engines = engines
        self._observer = observer
        self._lock = lock
        self._file = OpenedFile(engines.path)
        self._stuck = StuckRows()
        self._live = LiveReader(self._stuck)
        self._callbacks = Callbacks()
        # Whoever held the lease of a SQLite file when we got its lock is dead.
        lease = self._read(server_rows.lease)
        self._dead_epoch = lease.epoch if lock is not None else None
        self._instance_id = self._read(server_rows.instance_id)
        self._secrets: dict[str, bytes] = {}
        self._writer = Writer(
            engines, on_written=self._callbacks.call, on_retry=observer.observe_retry
        )
        self._listener = (
            Listener(conninfo, own_writer=self._writer.id, on_written=self._callbacks.call)
            if conninfo is not None
            else None
        )

    def close(self) -> None:
        """Write what waits, end the threads, close every connection, give the lock back."""
        self._writer.close()
        if self._listener is not None:
            self._listener.close()
        self._engines.dispose()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    # Writing.

    def write(self, unit: Unit) -> ids.Sequence:
        """Write a unit; on disk when this returns."""
        # The leader's units overtake the requests that wait, or a flood would hold up the cluster.
        is_urgent = unit.epoch is not None
        sequence = self._change(partial(carry_out, unit), is_urgent=is_urgent)
        if audited := sum(isinstance(change, RecordAudit) for change in unit.changes):
            self._observer.observe_audit(audited)
        return sequence

    def on_change(
        self, callback: Callable[[], None], *, requests_only: bool = False
    ) -> Callable[[], None]:
        """Call `callback` in a thread of the store after a unit was written."""
        return self._callbacks.add(callback, requests_only=requests_only)

    @property
    def commits(self) -> int:
        """Commits by this process so far; with units counted elsewhere, units per commit."""
        return self._writer.batches_committed

    @property
    def waiting(self) -> int:
        """Writes that wait for their commit to begin."""
        return self._writer.waiting

    @property
    def must_restart(self) -> bool:
        """Whether the disk failed to sync: what it says of later syncs can not be believed."""
        return self._writer.has_lost_sync

    # Jobs.

    def job(self, project: ProjectName, name: JobName) -> Job:
        """The job of that name."""
        return self._read(lambda c: single_queries.job_by_name(c, project, name))

    def job_by_id(self, job_id: JobId) -> Job:
        """The job of that id."""
        return self._read(lambda c: single_queries.job_by_id(c, job_id))

    def job_source(self, job_id: JobId) -> str:
        """The job file it was made from."""
        return self._read(lambda c: single_queries.job_source(c, job_id))

    def jobs(self, query: JobQuery) -> JobPage:
        """One page of jobs."""
        return self._read(lambda c: list_queries.job_page(c, query, self._stuck))

    def live(self, after: ids.Sequence | None = None) -> LiveState:
        """The live state, whole or as changes since `after`."""
        return self._read(lambda c: self._live.read(c, after))

    def job_changes(self, after: ChangeCursor, *, limit: int) -> tuple[JobChange, ...]:
        """The first changes after the cursor."""
        return self._read(lambda c: list_queries.changed_jobs(c, after, self._stuck, limit=limit))

    # What belongs to a job.

    def attempts(self, job_id: JobId) -> tuple[Attempt, ...]:
        """All attempts of a job, oldest first."""
        return self._read(
            lambda c: tuple(single_queries.attempts_where(c, [job_id], self._stuck)[0])
        )

    def reservations(self) -> tuple[Reservation, ...]:
        """Every reservation there is."""
        return self._read(lambda c: all_reservations(c, self._stuck))

    def progress(self, job_id: JobId) -> tuple[tuple[AttemptKey, Progress], ...]:
        """All step reports of a job, oldest first."""
        return self._read(lambda c: single_queries.progress_of(c, job_id, self._stuck))

    def step_times(self, job_ids: Several[JobId]) -> Mapping[JobId, StoredStepTimes]:
        """What was learned of the step times of these jobs."""
        return self._read(lambda c: knowledge.step_times_of(c, job_ids, self._stuck))

    def live_step_times(
        self, after: ids.Sequence | None = None
    ) -> Mapping[JobId, LearnedStepTimes]:
        """What was learned of jobs that are not over, or written since `after`."""
        return self._read(lambda c: knowledge.live_step_times(c, after, self._stuck))

    def events(self, query: EventQuery) -> tuple[Event, ...]:
        """Events, oldest first."""
        return self._read(lambda c: list_queries.event_page(c, query, self._stuck))

    def answer(self, job_id: JobId) -> Answer | None:
        """Why the job waits, as last said."""
        return self._read(lambda c: single_queries.answer_of(c, job_id))

    # What past jobs teach.

    def past_waits(self, after: ids.Sequence | None = None) -> tuple[WaitObservation, ...]:
        """Past waits, by sequence."""
        return self._read(lambda c: lessons.waits_since(c, after, self._stuck))

    def ended_jobs(self, after: ids.Sequence | None = None) -> tuple[JobEnd, ...]:
        """Ended jobs, by sequence."""
        return self._read(lambda c: lessons.ends_since(c, after, self._stuck))

    # The cluster and the store itself.

    def last_cycle(self) -> RecordCycle | None:
        """The last decision cycle."""
        return self._read(single_queries.last_cycle)

    def topology(self) -> tuple[tuple[Level, ...], tuple[Node, ...]]:
        """Levels and nodes as last observed."""
        return self._read(lambda c: single_queries.topology(c, self._stuck))

    def strays(self) -> tuple[Stray, ...]:
        """Strays, by attempt."""
        return self._read(lambda c: single_queries.all_strays(c, self._stuck))

    def latest_job_id(self) -> JobId | None:
        """The largest id of a job, deleted or not."""
        return self._read(single_queries.latest_job_id)

    def projects(self) -> tuple[Project, ...]:
        """All projects, by name."""
        return self._read(lambda c: single_queries.all_projects(c, self._stuck))

    def cordons(self) -> tuple[Cordon, ...]:
        """What admins say of nodes, by node."""
        return self._read(lambda c: single_queries.all_cordons(c, self._stuck))

    def exclusions(self) -> Mapping[NodeName, Exclusion]:
        """Why nodes are or were left alone, by node."""
        return self._read(lambda c: single_queries.all_exclusions(c, self._stuck))

    def profiles(self, project: ProjectName) -> tuple[ModelProfile, ...]:
        """A project's own model profiles, by name."""
        return self._read(lambda c: knowledge.profiles_of(c, project, self._stuck))

    def queues(self) -> tuple[Queue, ...]:
        """All queues, by name."""
        return self._read(lambda c: single_queries.all_queues(c, self._stuck))

    def knobs(self) -> PolicyKnobs:
        """The cluster's policy knobs."""
        return self.knob_sheet().over(PolicyKnobs())

    def knob_sheet(self) -> KnobSheet:
        """What was said of them, and by whom."""
        return self._read(single_queries.knob_sheet)

    def sequence(self) -> ids.Sequence:
        """The sequence of the last unit written."""
        return self._read(single_queries.sequence)

    def horizon(self) -> ids.Sequence:
        """Where forgotten events and deletions begin."""
        return self._read(single_queries.horizon)

    def stuck_rows(self) -> tuple[StuckRow, ...]:
        """Rows that reads have stumbled over and that still can not be read."""
        for row in self._stuck.take_all():
            with suppress(UnreadableRowError):
                self._reread(row)
        return self._stuck.all()

    def _reread(self, row: StuckRow) -> None:
        """Read once more what contains the row; if it is still stuck it is noted again."""
        rereads: dict[str, Callable[[], object]] = {
            "jobs": lambda: self.job_by_id(JobId(row.key)),
            "attempts": lambda: self.attempts(JobId(row.key.partition("/")[0])),
            "reservations": self.reservations,
            "progress": lambda: self.progress(JobId(row.key.partition("/")[0])),
            "step_times": lambda: self.step_times([JobId(row.key)]),
            "profiles": lambda: self.profiles(ProjectName(row.key.partition("/")[0])),
            "events": lambda: self.events(
                EventQuery(after=ids.Sequence(int(row.key) - 1), limit=1)
            ),
            "answers": lambda: self.answer(JobId(row.key)),
            "waits": self.past_waits,
            "ends": self.ended_jobs,
            "strays": self.strays,
            "levels": self.topology,
            "nodes": self.topology,
            "cordons": self.cordons,
            "exclusions": self.exclusions,
            "projects": self.projects,
            "queues": self.queues,
            "policy_knobs": self.knobs,
            "tokens": self.tokens,
        }
        with suppress(NotFoundError):
            rereads[row.table]()

    def check(self) -> None:
        """Read and write, with the schema that this code needs."""
        self._read(check_schema)
        self._change(server_rows.prove_writable)

    # Accounts.

    def token_by_secret(self, secret_sha256: str) -> Token | None:
        """The token with that secret hash."""
        return self._read(lambda c: single_queries.token_by_secret(c, secret_sha256))

    def tokens(self) -> tuple[Token, ...]:
        """All tokens, by creation."""
        return self._read(lambda c: single_queries.all_tokens(c, self._stuck))

    def reply(self, *, principal: str, route: str, key: str) -> RememberReply | None:
        """The reply remembered under an idempotency key."""
        return self._read(
            lambda c: single_queries.reply(c, principal=principal, route=route, key=key)
        )

    def audit(self, *, limit: int) -> tuple[AuditRow, ...]:
        """The newest audit rows, newest first."""
        return self._read(lambda c: single_queries.newest_audit(c, limit=limit))

    def instance_id(self) -> str:
        """The id of this installation."""
        return self._instance_id

    def become(self, instance_id: str) -> None:
        """Be another installation: the one whose objects a cluster has."""
        self._change(partial(server_rows.become, new=instance_id))
        self._instance_id = instance_id

    def raise_epoch(self, epoch: Epoch) -> None:
        """Let every later leadership term be larger than this one."""
        self._change(partial(server_rows.raise_epoch, epoch=epoch))

    def server_secret(self, name: str) -> bytes:
        """Random bytes kept under that name."""
        if name not in self._secrets:
            found = self._read(lambda c: server_rows.secret(c, name))
            if found is None:
                found = self._change(partial(server_rows.make_secret, name=name))
            self._secrets[name] = found
        return self._secrets[name]

    # Logs of workers, for clusters that do not keep them.

    def keep_log(self, attempt: AttemptKey, rank: ids.Rank, log: KeptLog, *, at: Instant) -> None:
        """Keep a worker's log."""
        keeping = partial(worker_logs.keep, attempt=attempt, rank=rank, log=log, at=at)
        self._change(keeping)

    def kept_log(self, attempt: AttemptKey, rank: ids.Rank) -> KeptLog | None:
        """What is kept of a worker's log."""
        return self._read(lambda c: worker_logs.kept(c, attempt, rank))

    def close_attempt(self, attempt: AttemptKey, *, at: Instant) -> None:
        """The attempt is over for good."""
        self._change(partial(worker_logs.close, attempt=attempt, at=at))

    def is_attempt_closed(self, attempt: AttemptKey) -> bool:
        """Whether that was said of it."""
        return self._read(lambda c: worker_logs.is_closed(c, attempt))

    # The lease, for SqlLeadership.

    def lease(self) -> LeaseRow:
        """The lease; nobody's if its holder is known to be dead."""
        lease = self._read(server_rows.lease)
        return replace(lease, holder="") if lease.epoch == self._dead_epoch else lease

    def take_lease(self, *, seen: LeaseRow, holder: str) -> Epoch | None:
        """Begin a new epoch, if the lease is still as `seen`."""
        taking = partial(server_rows.take_lease, seen=seen, holder=holder)
        return self._change(taking, is_urgent=True)

    def renew_lease(self, epoch: Epoch) -> int | None:
        """Count a renewal. Raises StoreReplacedError."""
        self._file.check()
        return self._change(partial(server_rows.renew_lease, epoch=epoch), is_urgent=True)

    def leave_lease(self, epoch: Epoch) -> None:
        """Say that nobody holds the lease."""
        self._change(partial(server_rows.leave_lease, epoch=epoch), is_urgent=True)

    # How everything above is done.

    def _change(self, work: Callable[[Transaction], T], *, is_urgent: bool = False) -> T:
        began_s, failure = time.monotonic(), ""
        try:
            return self._changed(work, is_urgent=is_urgent)
        except SchedulerError as error:
            failure = error.code
            raise
        finally:
            self._observer.observe_write(seconds=time.monotonic() - began_s, failure=failure)

    def _changed(self, work: Callable[[Transaction], T], *, is_urgent: bool) -> T:
        future = self._writer.submit(work, is_urgent=is_urgent)
        try:
            return future.result(timeout=_WRITE_S_MAX)
        except TooLateError:
            if future.cancel():
                raise StoreUnavailableError("nothing was written: too much waits") from None
        # It is being written: the database ends that, one way or the other.
        return future.result()

    def _read(self, query: Callable[[Connection], T]) -> T:
        try:
            with trouble_in_our_words():
                return self._read_twice(query)
        except UnreadableRowError as error:
            self._stuck.note(error)
            raise

    def _read_twice(self, query: Callable[[Connection], T]) -> T:
        try:
            with self._engines.readers.connect() as connection, connection.begin():
                return query(connection)
        except exc.DBAPIError as error:
            if not error.connection_invalidated:
                raise
        # The server was restarted: idle connections are dead and say so only when used. By now
        # all of them have been thrown away.
        with self._engines.readers.connect() as connection, connection.begin():
            return query(connection)
