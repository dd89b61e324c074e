"""Where the local executor keeps what it knows: everything is a file, so that a restart finds it.

DATA/local/
  lock, events             one executor at a time; supervisors ring here
  jobs/JOB/                what outlives the attempts of a job: its checkpoints
  attempts/JOB-aN/         one gang
    gang.json              what was chosen for each worker
    hostfile, work/        the gang's hosts; its working folder if the job names none
    release, stop          the gang may run; the gang must end
    forgotten              it is over and stored elsewhere: its reports are not needed any more
    RANK/                  one worker; see supervisor/records.py
      gone                 it was lost without an end
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler.adapters.local.supervisor import records
from scheduler.domain.exit_codes import outcome_of_exit_code
from scheduler.domain.ids import AttemptNumber, JobId, NodeName, Rank
from scheduler.domain.instants import Instant
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import WorkerReport, WorkerState

GANG, HOSTFILE, WORK, FORGOTTEN, GONE = "gang.json", "hostfile", "work", "forgotten", "gone"

_ATTEMPT_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)-a(0|[1-9][0-9]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """What the executor chose for one worker."""

    node: NodeName
    port: int
    gpus: tuple[int, ...]
    """GPUs of the machine, or slots, by number."""


class Layout:
    """The folders of one executor."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir.resolve() / "local"
        self.attempts = self.root / "attempts"
        self.jobs = self.root / "jobs"
        self.events = self.root / records.EVENTS
        self.lock = self.root / records.LOCK

    def make(self) -> None:
        """Make what is missing; only the server's user may look inside."""
        for folder in (self.root, self.attempts, self.jobs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.events.exists():
            os.mkfifo(self.events, 0o600)

    def gang(self, attempt: AttemptKey) -> "GangFolder":
        """The folder of a gang, there or not."""
        name = f"{attempt.job_id}-a{attempt.number}"
        assert _ATTEMPT_NAME.fullmatch(name), name
        return GangFolder(attempt, self.attempts / name)

    def gangs(self) -> "list[GangFolder]":
        """All gangs there are, by attempt."""
        found: list[GangFolder] = []
        for path in self.attempts.iterdir():
            if match := _ATTEMPT_NAME.fullmatch(path.name):
                attempt = AttemptKey(JobId(match[1]), AttemptNumber(int(match[2])))
                found.append(GangFolder(attempt, path))
        return sorted(found, key=lambda gang: gang.attempt)


class GangFolder:
    """The folder of one gang."""

    def __init__(self, attempt: AttemptKey, path: Path) -> None:
        self.attempt = attempt
        self.path = path

    def exists(self) -> bool:
        """Whether the gang was published."""
        return self.path.is_dir()

    def worker(self, rank: int) -> "WorkerFolder":
        """The folder of one worker."""
        return WorkerFolder(self.path / str(rank))

    def write_places(self, places: tuple[WorkerPlace, ...]) -> None:
        """Keep what was chosen for the workers, in rank order."""
        rows = [{"node": p.node, "port": p.port, "gpus": list(p.gpus)} for p in places]
        with (self.path / GANG).open("w") as file:
            json.dump({"workers": rows}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())

    def places(self) -> tuple[WorkerPlace, ...]:
        """What was chosen for the workers, in rank order."""
        return tuple(
            WorkerPlace(node=NodeName(row["node"]), port=int(row["port"]), gpus=tuple(row["gpus"]))
            for row in json.loads((self.path / GANG).read_text())["workers"]
        )

    def is_released(self) -> bool:
        """Whether the gang may run."""
        return (self.path / records.RELEASE).exists()

    def mark_released(self) -> None:
        """Let the gang run."""
        records.write_record(str(self.path / records.RELEASE), {})

    def stop_at(self) -> int | None:
        """When the gang is killed, on the monotonic clock in microseconds; None if it may live."""
        facts = records.read_record(str(self.path / records.STOP))
        return int(facts["kill_at"]) if facts else None

    def mark_stopped(self, kill_at: int) -> None:
        """Have the gang end."""
        records.write_record(str(self.path / records.STOP), {"kill_at": kill_at})

    def is_forgotten(self) -> bool:
        """Whether the gang is over and stored elsewhere."""
        return (self.path / FORGOTTEN).exists()

    def mark_forgotten(self) -> None:
        """Note that the gang is over and stored elsewhere."""
        (self.path / FORGOTTEN).touch(mode=0o600)


class WorkerFolder:
    """The folder of one worker."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self) -> dict[str, str]:
        """Who supervises or supervised it; empty before anybody did."""
        return records.read_record(str(self.path / records.CLAIM))

    def run(self) -> dict[str, str]:
        """Its main process; empty before it was started."""
        return records.read_record(str(self.path / records.RUN))

    def end(self) -> dict[str, str]:
        """How it ended; empty while it has not."""
        return records.read_record(str(self.path / records.END))

    def gone(self) -> dict[str, str]:
        """How it was lost; empty if it was not."""
        return records.read_record(str(self.path / GONE))

    def is_over(self) -> bool:
        """Whether it has ended or was lost."""
        return (self.path / records.END).exists() or (self.path / GONE).exists()

    def mark_refused(self, outcome: Outcome, message: str) -> None:
        """Note that it can not be made."""
        facts: dict[str, int | str] = {"refused": 1, "outcome": outcome, "message": message}
        self._write_last(records.END, facts)

    def mark_never_made(self, exit_code: int, message: str) -> None:
        """Note that it was stopped before it was made."""
        self._write_last(records.END, {"exit_code": exit_code, "message": message})

    def mark_gone(self, message: str) -> None:
        """Note that it was lost."""
        self._write_last(GONE, {"message": message})

    def _write_last(self, name: str, facts: Mapping[str, int | str]) -> None:
        facts = {**facts, "ended_at": records.microseconds()}
        records.write_record(str(self.path / name), facts, durable=True)

    def report(self, attempt: AttemptKey, rank: Rank, node: NodeName) -> WorkerReport | None:
        """Its state as its files tell it; None while it is not made."""
        end = self.end() or self.gone()
        run = self.run()
        if not end and not run and not self.claim():
            return None
        state, outcome = WorkerState.RUNNING if run else WorkerState.MADE, None
        if end:
            state, outcome = _end_of(end)
        started_at = int(run["started_at"]) if run else None
        ended_at = int(end["ended_at"]) if end else None
        if started_at is not None and ended_at is not None:
            ended_at = max(started_at, ended_at)  # The wall clock may have been set back.
        return WorkerReport(
            attempt=attempt,
            rank=rank,
            node=node,
            state=state,
            exit_code=int(end["exit_code"]) if "exit_code" in end else None,
            outcome=outcome,
            message=end.get("message", ""),
            started_at=None if started_at is None else Instant(started_at),
            ended_at=None if ended_at is None else Instant(ended_at),
        )


def _end_of(end: dict[str, str]) -> tuple[WorkerState, Outcome]:
    if "refused" in end:
        return WorkerState.REFUSED, Outcome(end.get("outcome", Outcome.LAUNCH_FAILED))
    if "exit_code" not in end:
        return WorkerState.GONE, Outcome.WORKER_LOST
    if "launch_failed" in end:
        return WorkerState.ENDED, Outcome.LAUNCH_FAILED
    return WorkerState.ENDED, outcome_of_exit_code(int(end["exit_code"]))
