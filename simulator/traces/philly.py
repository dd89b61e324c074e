"""Microsoft Philly, 2017: the public JSON job log, and the one-row-a-job CSV made from it.

Both write local wall-clock times without a zone. The full trace's README calls its other files
PDT and PST, so they are read as US Pacific time; the clock change of 2017-11-05 lies inside.

JSON (`cluster_job_log`, one array): the run time of a job is the sum over its attempts, as a retry
did the work again on the GPUs it held; GPUs and nodes are those of its largest attempt. Dropped:
`NeverStarted` (no attempt with a start and GPUs), `StillRunning` (its last attempt has no end),
`NoRunTime` (its attempts add up to nothing). An earlier attempt without start or end is a logging
error of the trace: the job is kept without that attempt's time (`AttemptWithoutTimes`).

CSV (`timestamp,duration,num_gpus,gpu_time,cluster`): duration in seconds; rows are not sorted.
"""

import json
from collections.abc import Iterator
from typing import TextIO
from zoneinfo import ZoneInfo

from scheduler.domain.instants import Duration, Instant
from simulator.errors import TraceError
from simulator.traces.job import Changed, Dropped, Parsed, TraceJob
from simulator.traces.json_array import Element, elements
from simulator.traces.source import Head, rows_with_header
from simulator.traces.wall_clock import instant_of, parsed

PACIFIC = ZoneInfo("America/Los_Angeles")
CSV_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def recognises_csv(head: Head) -> bool:
    """Whether this is the one-row-a-job CSV."""
    return head.has_columns(*CSV_COLUMNS)


def parse_csv(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of the CSV."""
    for row in rows_with_header(stream, source, required=CSV_COLUMNS):
        gpus = row.count("num_gpus")
        duration = row.time("duration")
        arrival = instant_of(row, "timestamp", zone=PACIFIC)
        if gpus == 0:
            yield Dropped(row=row.line, reason="NoGpus")
        elif duration == 0:
            yield Dropped(row=row.line, reason="NoRunTime")
        else:
            yield TraceJob(
                row=row.line,
                name=f"row-{row.line}",
                arrival=arrival,
                duration=duration,
                gpus=gpus,
                queue=row.text("cluster"),
            )


def recognises_json(head: Head) -> bool:
    """Whether this is the public JSON."""
    text = "".join(head.lines)
    return text.lstrip().startswith("[") and '"submitted_time"' in text and '"attempts"' in text


def parse_json(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of the public JSON, read in pieces: the file has 100 MB."""
    for element in elements(stream, source):
        yield _job(_Entry(source, element))


class _Entry:
    """Typed access to one job of the JSON, with errors that name line and key."""

    def __init__(self, source: str, element: Element) -> None:
        self.source = source
        self.line = element.line
        if not isinstance(element.value, dict):
            raise TraceError(source, element.line, "an element is not an object")
        self.value = element.value

    def error(self, key: str, detail: str) -> TraceError:
        return TraceError(self.source, self.line, detail, field=key)

    def text(self, key: str) -> str:
        value = self.value.get(key)
        if not isinstance(value, str):
            raise self.error(key, f"{json.dumps(value)} is not a string")
        return value

    def instant(self, key: str, value: object) -> Instant | None:
        """The instant, None where the log has none (the notebook writes the word None too)."""
        if value is None or value in {"", "None"}:
            return None
        moment = parsed(value, zone=PACIFIC) if isinstance(value, str) else None
        if moment is None:
            raise self.error(key, f"{json.dumps(value)} is not a date and time")
        return moment


def _job(entry: _Entry) -> Parsed:
    arrival = entry.instant("submitted_time", entry.text("submitted_time"))
    if arrival is None:
        return Dropped(row=entry.line, reason="NeverSubmitted")
    attempts = entry.value.get("attempts")
    if not isinstance(attempts, list) or not all(isinstance(each, dict) for each in attempts):
        raise entry.error("attempts", "is not a list of objects")
    run_time, is_whole, gpus, nodes = 0, True, 0, 0
    for index, attempt in enumerate(attempts):
        start = entry.instant("start_time", attempt.get("start_time"))
        end = entry.instant("end_time", attempt.get("end_time"))
        if start is not None and end is None and index == len(attempts) - 1:
            return Dropped(row=entry.line, reason="StillRunning")
        if start is None or end is None:
            is_whole = False
            continue
        run_time += max(0, end - start)
        gpus, nodes = max((gpus, nodes), _gpus_and_nodes(entry, attempt.get("detail")))
    if gpus == 0:
        return Dropped(row=entry.line, reason="NeverStarted")
    if run_time == 0:
        return Dropped(row=entry.line, reason="NoRunTime")
    job = TraceJob(
        row=entry.line,
        name=entry.text("jobid"),
        arrival=arrival,
        duration=Duration(run_time),
        gpus=gpus,
        workers=nodes,
        user=str(entry.value.get("user") or ""),
        queue=str(entry.value.get("vc") or ""),
        status=entry.text("status"),
    )
    return job if is_whole else Changed(job=job, change="AttemptWithoutTimes")


def _gpus_and_nodes(entry: _Entry, detail: object) -> tuple[int, int]:
    if not isinstance(detail, list):
        raise entry.error("detail", "is not a list")
    gpus = 0
    for server in detail:
        held = server.get("gpus") if isinstance(server, dict) else None
        if not isinstance(held, list):
            raise entry.error("detail", "a server has no list of gpus")
        gpus += len(held)
    return gpus, len(detail)
