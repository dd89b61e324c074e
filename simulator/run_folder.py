"""The folder of a run: run.json (options and metrics), jobs.jsonl, events.jsonl, timeline.json
(the cluster over time) and timers.jsonl (how long jobs were to hold out for closer GPUs).

The same scenario writes the same bytes, in any process.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from scheduler.domain.event import Event
from scheduler.domain.instants import SECOND
from simulator.errors import OptionError, RunFolderError
from simulator.outcome import FrozenTimer, JobOutcome, RunOutcome
from simulator.timeline import Timeline, timeline


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
    """Write all files but events.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    lines = (json.dumps(_job_facts(job)) + "\n" for job in outcome.jobs)
    (folder / "jobs.jsonl").write_text("".join(lines), encoding="utf-8")
    text = json.dumps(asdict(timeline(outcome.steps))) + "\n"
    (folder / "timeline.json").write_text(text, encoding="utf-8")
    timers = (json.dumps(asdict(timer)) + "\n" for timer in outcome.timers)
    (folder / "timers.jsonl").write_text("".join(timers), encoding="utf-8")


def _job_facts(job: JobOutcome) -> dict[str, object]:
    """Times in microseconds, as in the outcome."""
    return asdict(job)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as its folder tells it."""

    folder: Path
    facts: Mapping[str, object]
    """Options and metrics by name."""
    jobs: tuple[JobOutcome, ...]
    timeline: Timeline
    timers: tuple[FrozenTimer, ...]

    def job(self, name: str) -> JobOutcome:
        """The job of that name or id, or that the trace calls so. OptionError if there is none."""
        for job in self.jobs:
            if name in (job.name, job.recorded_as):
                return job
        raise OptionError("JOB", f"no job of this run is named {name!r}")

    @property
    def policy(self) -> str:
        """Its policy, and the knobs that were set."""
        knobs = self.facts.get("knobs", {})
        assert isinstance(knobs, dict), "read_run has looked"
        settings = (f"{name}={_as_typed(value)}" for name, value in knobs.items())
        return ", ".join([str(self.facts["policy"]), *settings])

    @property
    def variant(self) -> str:
        """What `compare` called it; of a run by itself, or of a policy as it is, its policy."""
        name = self.facts.get("variant", self.facts["policy"])
        # By the name alone, runs with other knobs for all (--set) would be seeds of one policy.
        return self.policy if name == self.facts["policy"] else str(name)

    def fact(self, name: str) -> float:
        """A metric or option that is a number."""
        value = self.facts[name]
        assert isinstance(value, int | float), name
        return float(value)

    def events(self, job: str) -> Iterator[Mapping[str, object]]:
        """What happened to one job, by its name."""
        with (self.folder / "events.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                if event["job"] == job:
                    yield event


def read_run(folder: Path) -> StoredRun:
    """The run in a folder. RunFolderError if there is none."""
    try:
        return StoredRun(
            folder=folder,
            facts=_facts(folder / "run.json"),
            jobs=tuple(JobOutcome(**line) for line in _lines(folder / "jobs.jsonl")),
            timeline=Timeline(**json.loads((folder / "timeline.json").read_text(encoding="utf-8"))),
            timers=tuple(FrozenTimer(**line) for line in _lines(folder / "timers.jsonl")),
        )
    except (FileNotFoundError, NotADirectoryError, TypeError, ValueError, RecursionError) as error:
        raise RunFolderError(str(folder), error) from error


def run_folders(folder: Path) -> list[Path]:
    """The folder itself if it holds a run, else those in it that do, by name."""
    if (folder / "run.json").exists():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/run.json"))


def _facts(path: Path) -> dict[str, Any]:
    facts = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(facts, dict) or not isinstance(facts.get("knobs", {}), dict):
        raise TypeError(f"{path.name}: it and its knobs must be objects")
    return facts


def _as_typed(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
