"""The one thread that writes: it takes what waits and commits it together.

callers ──submit──▶ waiting ──take all──▶ [ BEGIN, each in turn, COMMIT ] ──▶ the answers
                                                    │
                    one refuses: ROLLBACK, and again with a SAVEPOINT around each

Every write, in whatever process, first locks the row with the store's sequence. So sequence numbers
become visible in their order, checks before inserts do not race, and nothing can deadlock.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Condition, Thread
from typing import Generic, TypeAlias, TypeVar, cast
from uuid import uuid4

import structlog
from sqlalchemy import Connection, bindparam, exc, func, insert, select, update

from scheduler.adapters.sql.connecting import (
    Engines,
    first_line,
    is_lost_sync,
    is_transient,
    is_trouble,
    trouble_in_our_words,
)
from scheduler.adapters.sql.tables import THE_ONLY, instance, writers
from scheduler.domain import ids
from scheduler.domain.errors import SchedulerError, StoreUnavailableError
from scheduler.ports.kill_points import KillPoint, reach

T = TypeVar("T")

CHANNEL = "dally"
"""The PostgreSQL channel on which a writer tells other processes that it has written."""

_BATCH_MAX = 128
_TRIES_MAX = 5
_PAUSE_S_MAX = 0.2

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Transaction:
    """The transaction of a batch while it is open."""

    connection: Connection
    sequence: ids.Sequence
    """The last sequence number that was given away."""
    asks_for_a_decision: bool = False
    """Whether a unit in it should be followed by a decision."""
    has_units: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What listeners in this process learn of a commit."""

    asks_for_a_decision: bool


@dataclass(frozen=True, slots=True)
class _Task(Generic[T]):
    work: Callable[[Transaction], T]
    future: "Future[T]"

    def do(self, transaction: Transaction) -> "_Outcome":
        """Do the work. What it raises spoils the transaction."""
        try:
            value = self.work(transaction)
        except Exception as error:
            if _is_of_the_database(error):
                raise
            raise _RefusedError from error
        return partial(self.future.set_result, value)

    def attempt(self, transaction: Transaction) -> "_Outcome":
        """Do the work inside a savepoint; what it raises becomes its outcome."""
        connection, before = transaction.connection, transaction.sequence
        connection.exec_driver_sql("SAVEPOINT unit")
        try:
            value = self.work(transaction)
        except Exception as error:
            if _is_of_the_database(error):
                raise
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT unit")
            transaction.sequence = before
            return partial(self.future.set_exception, error)
        connection.exec_driver_sql("RELEASE SAVEPOINT unit")
        return partial(self.future.set_result, value)


_Outcome: TypeAlias = Callable[[], None]
"""Gives one caller its answer."""

_Way: TypeAlias = Callable[[_Task[object], Transaction], _Outcome]


def _is_of_the_database(error: Exception) -> bool:
    """Whether it is about the database as a whole and not about one piece of work."""
    return isinstance(error, exc.DBAPIError) and (is_trouble(error) or is_transient(error))


class _RefusedError(Exception):
    """One piece of work can not be done, so the others have to be kept apart from it."""


class _TryAgainError(Exception):
    """Nothing of the batch was committed and it may succeed when run again."""


class Writer:
    """Takes work from any thread, does it in its own."""

    def __init__(
        self,
        engines: Engines,
        *,
        on_written: Callable[[Written], None],
        on_retry: Callable[[], None],
    ) -> None:
        self.id = uuid4().hex
        """Told with each notification, so that a process knows its own."""
        self._engines = engines
        self._on_written = on_written
        self._on_retry = on_retry
        self._urgent: deque[_Task[object]] = deque()
        self._waiting: deque[_Task[object]] = deque()
        self._something_waits = Condition()
        self._is_closed = False
        self._has_lost_sync = False
        self._connection: Connection | None = None
        self._batch = 0
        self._batches_committed = 0
        self._thread = Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def batches_committed(self) -> int:
        """Commits so far, for benchmarks and metrics."""
        return self._batches_committed

    @property
    def waiting(self) -> int:
        """How much work waits for a commit to begin."""
        return len(self._urgent) + len(self._waiting)

    @property
    def has_lost_sync(self) -> bool:
        """Whether the disk failed to sync, after which nothing is written any more."""
        return self._has_lost_sync

    def submit(self, work: Callable[[Transaction], T], *, is_urgent: bool = False) -> "Future[T]":
        """Have `work` done and committed. It may be run more than once, committed at most once.

        Urgent work goes before what else waits, so that a flood of requests does not hold up the
        leader.
        """
        future: Future[T] = Future()
        with self._something_waits:
            if self._is_closed:
                raise StoreUnavailableError("the store is closed")
            line = self._urgent if is_urgent else self._waiting
            line.append(cast("_Task[object]", _Task(work, future)))
            self._something_waits.notify()
        return future

    def close(self) -> None:
        """Write what still waits, then end."""
        with self._something_waits:
            self._is_closed = True
            self._something_waits.notify()
        self._thread.join()

    def _run(self) -> None:
        while tasks := self._take():
            try:
                outcomes = self._write(tasks)
            except Exception as error:  # noqa: BLE001 - whatever it is, callers wait for an answer
                outcomes = [_failing(task, error) for task in tasks]
                outcomes.append(partial(_tell_failure, len(tasks), first_line(error)))
            for answer in outcomes:
                answer()
        self._drop_connection()

    def _take(self) -> list[_Task[object]]:
        """What waits, at most a batch; waits for the first. Empty at the end."""
        taken: list[_Task[object]] = []
        with self._something_waits:
            self._something_waits.wait_for(lambda: self._urgent or self._waiting or self._is_closed)
            for line in (self._urgent, self._waiting):
                while line and len(taken) < _BATCH_MAX:
                    task = line.popleft()
                    # A caller that has given up gets what it was told: nothing was written.
                    if task.future.set_running_or_notify_cancel():
                        taken.append(task)
        return taken

    def _write(self, tasks: Sequence[_Task[object]]) -> list[_Outcome]:
        if self._has_lost_sync:
            raise StoreUnavailableError("the disk failed to sync; restart on a healthy disk")
        for _ in range(_TRIES_MAX):
            try:
                with trouble_in_our_words():
                    return self._try(tasks)
            except _TryAgainError as error:
                problem = error.__cause__
                self._on_retry()
                _pause()
        raise StoreUnavailableError(f"given up after {_TRIES_MAX} tries: {first_line(problem)}")

    def _try(self, tasks: Sequence[_Task[object]]) -> list[_Outcome]:
        try:
            transaction, outcomes = self._fill_well(tasks)
        except Exception as error:
            self._drop_connection()
            if isinstance(error, exc.DBAPIError) and _may_try_again(error):
                raise _TryAgainError from error
            raise
        self._commit(transaction.connection)
        self._batches_committed += 1
        reach(KillPoint.STORE_AFTER_COMMIT)
        if transaction.has_units:
            # After the callers: they wait, the listeners only take a hint.
            outcomes.append(lambda: self._on_written(Written(transaction.asks_for_a_decision)))
        return outcomes

    def _fill_well(self, tasks: Sequence[_Task[object]]) -> tuple[Transaction, list[_Outcome]]:
        """Most batches hold nothing that is refused, and savepoints are a fifth of their cost."""
        try:
            return self._fill(tasks, _Task.do)
        except _RefusedError:
            self._connect().rollback()
            return self._fill(tasks, _Task.attempt)

    def _fill(
        self, tasks: Sequence[_Task[object]], way: _Way
    ) -> tuple[Transaction, list[_Outcome]]:
        connection = self._connect()
        connection.begin()
        started_at: ids.Sequence = connection.execute(_LOCK_SEQUENCE).scalar_one()
        transaction = Transaction(connection, started_at)
        outcomes = [way(task, transaction) for task in tasks]
        transaction.has_units = transaction.sequence > started_at
        if transaction.has_units:
            connection.execute(_SET_SEQUENCE, {"now": transaction.sequence})
        if not self._engines.is_sqlite:
            self._mark_batch(transaction)
        reach(KillPoint.STORE_BEFORE_COMMIT)
        return transaction, outcomes

    def _mark_batch(self, transaction: Transaction) -> None:
        self._batch += 1
        numbered = {"writer": self.id, "number": self._batch}
        transaction.connection.execute(_COUNT_BATCH, numbered)
        if transaction.has_units:
            kind = "request" if transaction.asks_for_a_decision else "other"
            transaction.connection.execute(_NOTIFY, {"payload": f"{self.id} {kind}"})

    def _commit(self, connection: Connection) -> None:
        try:
            connection.commit()
        except exc.DBAPIError as error:
            self._drop_connection()
            if self._engines.is_sqlite:
                self._has_lost_sync = is_lost_sync(error)
                raise
            if is_transient(error):
                raise _TryAgainError from error
            if not self._is_committed(self._batch):
                raise _TryAgainError from error

    def _is_committed(self, batch: int) -> bool:
        """What became of a commit whose answer was lost.

        Waits for the lock that the lost transaction holds on our row until it has ended.
        """
        for _ in range(_TRIES_MAX):
            try:
                connection = self._connect()
                number = connection.scalar(_BATCH_COMMITTED, {"writer": self.id})
                connection.rollback()
            except exc.DBAPIError:
                self._drop_connection()
                _pause()
            else:
                return number == batch
        raise StoreUnavailableError("the database went away in a commit; its outcome is unknown")

    def _connect(self) -> Connection:
        if self._connection is None:
            connection = self._engines.writer.connect()
            if not self._engines.is_sqlite:
                self._sign_in(connection)
            self._connection = connection
        return self._connection

    def _sign_in(self, connection: Connection) -> None:
        """Make sure that there is a row to count our batches in."""
        with connection.begin():
            if connection.scalar(_BATCH_COMMITTED, {"writer": self.id}) is None:
                connection.execute(insert(writers).values(id=self.id, batch=0))

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # Whatever state it is in, what was not committed is gone with it.
            connection.invalidate()
            connection.close()


_LOCK_SEQUENCE = select(instance.c.sequence).where(instance.c.name == THE_ONLY).with_for_update()
_SET_SEQUENCE = (
    update(instance).where(instance.c.name == THE_ONLY).values(sequence=bindparam("now"))
)
_COUNT_BATCH = (
    update(writers).where(writers.c.id == bindparam("writer")).values(batch=bindparam("number"))
)
_BATCH_COMMITTED = (
    select(writers.c.batch).where(writers.c.id == bindparam("writer")).with_for_update()
)
_NOTIFY = select(func.pg_notify(CHANNEL, bindparam("payload")))


def _tell_failure(tasks: int, problem: str) -> None:
    # The disk that fails may be the one that the log goes to: the writer outlives that.
    with suppress(OSError):
        _log.warning("batch_failed", tasks=tasks, problem=problem)


def _pause() -> None:
    # Of random length, so that two writers that got in each other's way do not do so again.
    time.sleep(random.uniform(0, _PAUSE_S_MAX))  # noqa: S311 - no secret hangs on it


def _may_try_again(error: exc.DBAPIError) -> bool:
    # A connection that broke before the commit has taken the transaction with it.
    return is_transient(error) or error.connection_invalidated


def _failing(task: _Task[object], error: Exception) -> _Outcome:
    # Each caller raises an exception of its own: a shared one would collect all their tracebacks.
    if isinstance(error, SchedulerError):
        error = StoreUnavailableError(str(error))
    return partial(task.future.set_exception, error)
