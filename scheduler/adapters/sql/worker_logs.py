"""The last output of workers, compressed, and which attempts are over for good."""

import json
import zlib

from sqlalchemy import Connection, select

from scheduler.adapters.sql.rows import Values
from scheduler.adapters.sql.tables import worker_logs
from scheduler.adapters.sql.upserts import put
from scheduler.adapters.sql.writer import Transaction
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.log_archive import KeptLog
from scheduler.ports.log_source import LogTime

_CLOSED = Rank(-1)
_NOTHING = KeptLog(data=b"")


def keep(
    transaction: Transaction, *, attempt: AttemptKey, rank: Rank, log: KeptLog, at: Instant
) -> None:
    """Keep a log in the place of what was kept before."""
    row: Values = {
        "job_id": attempt.job_id,
        "attempt": attempt.number,
        "rank": rank,
        "offset": log.offset,
        "data": zlib.compress(log.data),
        "times": json.dumps([[time.offset, time.at] for time in log.times]),
        "at": at,
    }
    put(transaction.connection, worker_logs, [row])


def kept(connection: Connection, attempt: AttemptKey, rank: Rank) -> KeptLog | None:
    """The log of a worker."""
    row = connection.execute(
        select(worker_logs.c.offset, worker_logs.c.data, worker_logs.c.times).where(
            worker_logs.c.job_id == attempt.job_id,
            worker_logs.c.attempt == attempt.number,
            worker_logs.c.rank == rank,
        )
    ).one_or_none()
    if row is None:
        return None
    times = tuple(LogTime(offset=offset, at=Instant(at)) for offset, at in json.loads(row.times))
    return KeptLog(data=zlib.decompress(row.data), offset=row.offset, times=times)


def close(transaction: Transaction, *, attempt: AttemptKey, at: Instant) -> None:
    """Note that an attempt is over for good."""
    keep(transaction, attempt=attempt, rank=_CLOSED, log=_NOTHING, at=at)


def is_closed(connection: Connection, attempt: AttemptKey) -> bool:
    """Whether that was noted."""
    return kept(connection, attempt, _CLOSED) is not None
