"""SenseTime Helios (2020) and Shanghai AI Lab Acme (2023): job logs in Slurm's words.

Times are wall clock. Helios writes no zone: it is read as UTC, only differences matter. Acme writes
the offset (Seren +08:00, Kalos +00:00). The run time is `end_time - start_time` where both are
there, else the `duration` column in seconds (Kalos counts its queueing into `duration`).

Dropped: `NoGpus` (a CPU job), `NeverStarted` (no start or no run time is known), `NoRunTime`
(ended in the second it started). A job that Slurm has queued again stands there once more under its
id: each row is a job of its own.
"""

from collections.abc import Iterator
from datetime import UTC
from typing import TextIO

from scheduler.domain.instants import Duration
from simulator.traces.job import Dropped, Parsed, TraceJob
from simulator.traces.source import Fields, Head, rows_with_header
from simulator.traces.wall_clock import instant_of

SHARED = ("job_id", "user", "gpu_num", "node_num", "state", "submit_time", "start_time", "end_time")
HELIOS_COLUMNS = (*SHARED, "vc")
ACME_COLUMNS = (*SHARED, "type")


def recognises_helios(head: Head) -> bool:
    """Whether this is a Helios cluster_log.csv."""
    return head.has_columns(*HELIOS_COLUMNS)


def recognises_acme(head: Head) -> bool:
    """Whether this is trace_seren.csv or trace_kalos.csv of Acme."""
    return head.has_columns(*ACME_COLUMNS)


def parse_helios(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of Helios; the queue is the virtual cluster."""
    for row in rows_with_header(stream, source, required=HELIOS_COLUMNS):
        yield _job(row, queue=row.text("vc"))


def parse_acme(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of Acme; the queue is the type of work (Pretrain, SFT, Evaluation, ...)."""
    for row in rows_with_header(stream, source, required=ACME_COLUMNS):
        yield _job(row, queue=row.text("type"))


def _job(row: Fields, *, queue: str) -> Parsed:
    if row.is_empty("gpu_num") or row.count("gpu_num") == 0:
        return Dropped(row=row.line, reason="NoGpus")
    run_time = _run_time(row)
    if run_time is None:
        return Dropped(row=row.line, reason="NeverStarted")
    if run_time == 0:
        return Dropped(row=row.line, reason="NoRunTime")
    return TraceJob(
        row=row.line,
        name=row.text("job_id"),
        arrival=instant_of(row, "submit_time", zone=UTC),
        duration=run_time,
        gpus=row.count("gpu_num"),
        workers=None if row.is_empty("node_num") else row.count("node_num"),
        user=row.text("user"),
        queue=queue,
        status=row.text("state"),
    )


def _run_time(row: Fields) -> Duration | None:
    if not row.is_empty("start_time") and not row.is_empty("end_time"):
        start = instant_of(row, "start_time", zone=UTC)
        end = instant_of(row, "end_time", zone=UTC)
        if end < start:
            raise row.error("end_time", "lies before start_time")
        return Duration(end - start)
    if row.is_empty("duration"):
        return None
    return row.time("duration")
