"""Dally's own format: one JSON object a line; what `dally-sim trace convert` writes.

`{"name": "j1", "arrival_s": 12.5, "duration_s": 3600, "gpus": 8}` is a whole job; `workers`,
`model`, `user`, `queue`, `status`, `iterations`, `gpu_models` (a list) and `deadline_s` may be
added. Other names are errors. Times are seconds, exact to the microsecond.
"""

import json
from collections.abc import Iterator
from typing import TextIO, cast

from scheduler.domain.instants import SECOND, Duration, Instant
from simulator.errors import TraceError
from simulator.traces.job import Parsed, TraceJob
from simulator.traces.source import TIME_MAX, TOO_LARGE, YEARS_MAX, Head

REQUIRED = frozenset({"name", "arrival_s", "duration_s", "gpus"})
TEXTS = ("model", "user", "queue", "status")
OPTIONAL = frozenset({*TEXTS, "workers", "iterations", "gpu_models", "deadline_s"})


def recognises(head: Head) -> bool:
    """Whether the first line is a JSON object with the required names."""
    try:
        first = json.loads(head.first)
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and set(first) >= REQUIRED


def parse(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of a JSON lines file."""
    for line, text in enumerate(stream, start=1):
        if text.strip():
            yield _job(_Object(source, line, text))


def written(job: TraceJob) -> str:
    """The line that `parse` reads back as the same job (its row number aside)."""
    entry: dict[str, str | int | float | list[str]] = {
        "name": job.name,
        "arrival_s": _seconds(job.arrival),
        "duration_s": _seconds(job.duration),
        "gpus": job.gpus,
    }
    if job.workers is not None:
        entry["workers"] = job.workers
    entry.update({name: getattr(job, name) for name in TEXTS if getattr(job, name)})
    if job.iterations is not None:
        entry["iterations"] = job.iterations
    if job.gpu_models:
        entry["gpu_models"] = list(job.gpu_models)
    if job.deadline is not None:
        entry["deadline_s"] = _seconds(job.deadline)
    return json.dumps(entry, separators=(", ", ": "))


def _seconds(time: int) -> int | float:
    whole, rest = divmod(time, SECOND)
    return time / SECOND if rest else whole


class _Object:
    """Typed access to one line."""

    def __init__(self, source: str, line: int, text: str) -> None:
        self.source = source
        self.line = line
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise TraceError(source, line, f"not JSON: {error.msg}") from None
        except (ValueError, RecursionError):
            raise TraceError(source, line, TOO_LARGE) from None
        if not isinstance(value, dict):
            raise TraceError(source, line, "is not a JSON object")
        self.value = cast("dict[str, object]", value)
        for name in sorted(REQUIRED - set(value)):
            raise self.error(name, "is missing")
        for name in sorted(set(value) - REQUIRED - OPTIONAL):
            raise self.error(name, "is not known")

    def error(self, name: str, detail: str) -> TraceError:
        return TraceError(self.source, self.line, detail, field=name)

    def text(self, name: str) -> str:
        value = self.value.get(name, "")
        if not isinstance(value, str):
            raise self.error(name, f"{json.dumps(value)} is not a string")
        return value

    def time(self, name: str) -> Duration:
        value = self.value[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise self.error(name, f"{json.dumps(value)} is not a number of seconds")
        if value == float("inf"):
            raise self.error(name, "is not finite")
        if value * SECOND > TIME_MAX:
            raise self.error(name, f"{json.dumps(value)} is over {YEARS_MAX} years")
        return Duration(round(value * SECOND))

    def count(self, name: str, *, least: int) -> int:
        value = self.value[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(name, f"{json.dumps(value)} is not a whole number from {least}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.value.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.error(name, f"{json.dumps(value)} is not a list of strings")
        return tuple(value)


def _job(entry: _Object) -> TraceJob:
    duration = entry.time("duration_s")
    if duration == 0:
        raise entry.error("duration_s", "is under one microsecond")
    return TraceJob(
        row=entry.line,
        name=entry.text("name"),
        arrival=Instant(entry.time("arrival_s")),
        duration=duration,
        gpus=entry.count("gpus", least=1),
        workers=entry.count("workers", least=1) if "workers" in entry.value else None,
        model=entry.text("model"),
        user=entry.text("user"),
        queue=entry.text("queue"),
        status=entry.text("status"),
        iterations=entry.count("iterations", least=0) if "iterations" in entry.value else None,
        gpu_models=entry.texts("gpu_models"),
        deadline=entry.time("deadline_s") if "deadline_s" in entry.value else None,
    )
