"""The Standard Workload Format (SWF 2): 18 numbers a line, `;` comments, -1 for unknown; seconds.

Read here: 1 job number, 2 submit time, 4 run time, 5 allocated and 8 requested processors, 11
status, 12 user, 15 queue. A processor stands for a GPU; requested ones count, allocated ones where
the request is unknown. Dropped: `NeverStarted` (run time unknown), `NoRunTime`, `NoGpus`.
Status 2 to 4 mark parts of a job that field 11 = 0, 1 or 5 of another line sums up: `PartialJob`.
"""

from collections.abc import Iterator
from typing import TextIO

from scheduler.domain.instants import Duration, Instant, seconds
from simulator.errors import TraceError
from simulator.traces.job import Dropped, Parsed, TraceJob
from simulator.traces.source import Fields, Head

COLUMNS = (
    "job_number",
    "submit_time",
    "wait_time",
    "run_time",
    "allocated_processors",
    "cpu_time_used",
    "memory_used",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)
STATUSES = {0: "failed", 1: "completed", 5: "cancelled", -1: ""}
PARTIAL = {2, 3, 4}
UNKNOWN = -1


def recognises(head: Head) -> bool:
    """Whether every line is a comment or 18 numbers."""
    lines = [line for line in head.lines[:20] if line.strip() and not line.startswith(";")]
    return bool(lines) and all(_is_job(line) for line in lines)


def _is_job(line: str) -> bool:
    values = line.split()
    return len(values) == len(COLUMNS) and all(
        value.lstrip("-").replace(".", "", 1).isdigit() for value in values
    )


def parse(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of an SWF file."""
    columns = {name: index for index, name in enumerate(COLUMNS)}
    for line, text in enumerate(stream, start=1):
        values = text.split()
        if not values or values[0].startswith(";"):
            continue
        if len(values) != len(COLUMNS):
            raise TraceError(source, line, f"has {len(values)} fields instead of {len(COLUMNS)}")
        yield _job(Fields(source, line, values, columns))


def _job(row: Fields) -> Parsed:
    status = row.integer("status")
    run_time = row.number("run_time")
    processors = row.integer("requested_processors")
    if processors <= 0:
        processors = row.integer("allocated_processors")
    reason = _why_not(status, run_time, processors)
    if reason:
        return Dropped(row=row.line, reason=reason)
    return TraceJob(
        row=row.line,
        name=row.text("job_number"),
        arrival=Instant(row.time("submit_time")),
        duration=Duration(seconds(run_time)),
        gpus=processors,
        user=_known(row, "user"),
        queue=_known(row, "queue"),
        status=STATUSES.get(status, str(status)),
    )


def _why_not(status: int, run_time: float, processors: int) -> str:
    if status in PARTIAL:
        return "PartialJob"
    if run_time == UNKNOWN:
        return "NeverStarted"
    if run_time <= 0:
        return "NoRunTime"
    return "NoGpus" if processors <= 0 else ""


def _known(row: Fields, name: str) -> str:
    value = row.text(name)
    return "" if value == str(UNKNOWN) else value
