"""CSV traces that simulators replay: Tiresias and its kin, Microsoft ITP, Muri.

Tiresias (`job_id,num_gpu,submit_time,duration,...`): seconds. ElasticFlow's file (`ddl`: absolute
deadline, s) and Chronus's (`user`: virtual cluster, `expect_time_list`: deadline since submission,
s) have the same columns. Dropped: `NoGpus` (205 rows of Chronus ask for none), `NoRunTime`.

Microsoft ITP (`job_id,submission_time,duration,num_gpu`): seconds since collection start.

Muri (Tiresias's columns and `iteration_time`, `resource_time_0`): MILLISECONDS.
"""

from collections.abc import Iterator
from typing import TextIO

from scheduler.domain.instants import SECOND, Duration, Instant
from simulator.traces.job import Dropped, Parsed, TraceJob
from simulator.traces.source import Fields, Head, rows_with_header

TIRESIAS_COLUMNS = ("job_id", "num_gpu", "submit_time", "duration")
MURI_COLUMNS = (*TIRESIAS_COLUMNS, "iteration_time", "resource_time_0")
ITP_COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")
MILLISECOND = Duration(SECOND // 1000)


def recognises_muri(head: Head) -> bool:
    """Whether this is a Muri trace."""
    return head.has_columns(*MURI_COLUMNS)


def recognises_tiresias(head: Head) -> bool:
    """Whether this has the columns of Tiresias (and is no Muri trace, whose unit differs)."""
    return head.has_columns(*TIRESIAS_COLUMNS) and not recognises_muri(head)


def recognises_itp(head: Head) -> bool:
    """Whether this is a cluster of the Microsoft ITP traces."""
    return head.has_columns(*ITP_COLUMNS)


def parse_tiresias(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of Tiresias, ElasticFlow and Chronus."""
    for row in rows_with_header(stream, source, required=TIRESIAS_COLUMNS):
        yield _job(row, submitted="submit_time", unit=SECOND)


def parse_muri(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of Muri."""
    for row in rows_with_header(stream, source, required=MURI_COLUMNS):
        yield _job(row, submitted="submit_time", unit=MILLISECOND)


def parse_itp(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of one Microsoft ITP cluster."""
    for row in rows_with_header(stream, source, required=ITP_COLUMNS):
        yield _job(row, submitted="submission_time", unit=SECOND)


def _job(row: Fields, *, submitted: str, unit: Duration) -> Parsed:
    gpus = row.count("num_gpu")
    duration = row.time("duration", unit=unit)
    arrival = Instant(row.time(submitted, unit=unit))
    if gpus == 0:
        return Dropped(row=row.line, reason="NoGpus")
    if duration == 0:
        return Dropped(row=row.line, reason="NoRunTime")
    return TraceJob(
        row=row.line,
        name=row.text("job_id"),
        arrival=arrival,
        duration=duration,
        gpus=gpus,
        model=row.text("model_name", default=""),
        user=row.text("user", default=""),
        queue=row.text("user", default=""),
        iterations=None if row.is_empty("iterations") else row.count("iterations"),
        deadline=_deadline(row, arrival),
    )


def _deadline(row: Fields, arrival: Instant) -> Duration | None:
    if not row.is_empty("ddl"):
        return Duration(max(0, row.time("ddl") - arrival))
    if not row.is_empty("expect_time_list"):
        return row.time("expect_time_list")
    return None
