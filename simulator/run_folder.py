"""The folder of a run: run.json (options and metrics), jobs.jsonl, events.jsonl.

The same scenario writes the same bytes, in any process.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from scheduler.domain.event import Event
from scheduler.domain.instants import SECOND
from simulator.outcome import JobOutcome, RunOutcome


class EventFile:
    """events.jsonl: one line an event, as it happens; use as a context manager."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "events.jsonl").open("w", encoding="utf-8")

    def __enter__(self) -> "EventFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, event: Event) -> None:
        """One more event."""
        self._file.write(event_line(event) + "\n")


class EventDigest:
    """The hash of all events so far."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def write(self, event: Event) -> None:
        """One more event."""
        self._hash.update(event_line(event).encode() + b"\n")

    def hex(self) -> str:
        """The digest."""
        return self._hash.hexdigest()


def event_line(event: Event) -> str:
    """An event as one line of JSON."""
    return json.dumps(
        {
            "at_s": event.at / SECOND,
            "event": event.reason,
            "job": event.job_name,
            "attempt": event.attempt,
            "message": event.message,
        }
    )


def write_run(folder: Path, facts: Mapping[str, object], outcome: RunOutcome) -> None:
    """Write run.json and jobs.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    lines = (json.dumps(_job_facts(job)) + "\n" for job in outcome.jobs)
    (folder / "jobs.jsonl").write_text("".join(lines), encoding="utf-8")


def _job_facts(job: JobOutcome) -> dict[str, object]:
    """Times in microseconds, as in the outcome."""
    return asdict(job)
