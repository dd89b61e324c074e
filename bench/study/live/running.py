"""The real run: submits the workload at its times, waits for all ends, and writes down what was.

On the way, while jobs run and others wait, snapshots are taken as an admin takes them. Afterwards
`dally-sim from-live` is asked what was to become of the jobs in them.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from api.documents.document import Json
from api.jobs.schemas import AssignmentView, AttemptView, JobObject
from bench.reporting import machine
from bench.study.live.record import Foretold, Life, LiveRun
from bench.study.live.service import (
    DALLY_SIM,
    DALLYD,
    LiveRunError,
    Service,
    has_ended,
    serving,
)
from bench.study.live.workload import WorkloadSize, drawn, job_file, paced, question
from scheduler.domain.codec import from_json
from scheduler.domain.instants import SECOND
from scheduler.domain.snapshot import Snapshot

LOOK_EVERY_S = 0.5
ALL_S_MAX = 1200.0
SUCCEEDED = "Succeeded"


def real_run(policy: str, size: WorkloadSize, seed: int) -> LiveRun:
    """Raises LiveRunError if the service or a job fails."""
    with tempfile.TemporaryDirectory(prefix="dally-live-") as name:
        folder = Path(name)
        with serving(folder, policy) as service:
            _wait_for(_snapshot(service, folder / "beginning.json"))
            racks = service.racks()
            shapes = drawn(size, slots=service.slots(), seed=seed)
            jobs = tuple(paced(shape, service.step_s(question(shape))) for shape in shapes)
            arrivals_s = [shape.arrival_s for shape in shapes]
            files = [job_file(job, racks) for job in jobs]
            snapshots = _submit_all(service, files, arrivals_s, looks=size.looks)
            _wait_for_all(service)
            lived = [_lived(service, job) for job in service.jobs()]
        beginning = _read(folder / "beginning.json")
        zero_s = min(_at_s(one.job.metadata.create_time) for one in lived)
        foretold = [each for file in snapshots for each in _foretold(file, zero_s)]
    return LiveRun(
        seed=seed,
        machine=machine(),
        cluster=beginning,
        jobs=jobs,
        ids=tuple(one.job.metadata.uid for one in lived),
        lives=tuple(one.life(zero_s) for one in lived),
        starting_s=tuple(span for one in lived for span in one.starting_s()),
        ending_s=tuple(span for one in lived for span in one.ending_s()),
        apart_s=tuple(span for one in lived for span in one.apart_s()),
        foretold=tuple(foretold),
    )


def _submit_all(
    service: Service, files: Sequence[Json], arrivals_s: Sequence[float], *, looks: Sequence[int]
) -> list[Path]:
    """Each at its time; returns the snapshots that were taken after so many."""
    taken: list[Path] = []
    under_way: list[subprocess.Popen[bytes]] = []
    began_s = time.monotonic()
    for number, (file, arrival_s) in enumerate(zip(files, arrivals_s, strict=True)):
        time.sleep(max(0.0, began_s + arrival_s - time.monotonic()))
        service.submit(file)
        if number + 1 in looks:
            taken.append(service.data_dir.with_name(f"after-{number + 1}.json"))
            under_way.append(_snapshot(service, taken[-1]))
    for process in under_way:
        _wait_for(process)
    return taken


def _snapshot(service: Service, file: Path) -> "subprocess.Popen[bytes]":
    """What an admin does for `dally-sim from-live`; it gives way to what it looks at."""
    command: list[str | Path] = [
        "nice",
        DALLYD,
        "admin",
        "snapshot",
        "--data-dir",
        service.data_dir,
    ]
    with file.open("wb") as out:
        return subprocess.Popen(command, stdout=out)  # noqa: S603 - our own program


def _wait_for(process: "subprocess.Popen[bytes]") -> None:
    code = process.wait()
    if code:
        raise LiveRunError(f"dallyd admin snapshot ended with exit code {code}")


def _read(file: Path) -> Snapshot:
    return from_json(Snapshot, file.read_text(encoding="utf-8"))


def _wait_for_all(service: Service) -> None:
    give_up_at_s = time.monotonic() + ALL_S_MAX
    while left := [job.metadata.name for job in service.jobs() if not has_ended(job)]:
        if time.monotonic() > give_up_at_s:
            raise LiveRunError(f"not ended after {ALL_S_MAX:.0f} s: {', '.join(left)}")
        time.sleep(LOOK_EVERY_S)


def _foretold(file: Path, zero_s: float) -> list[Foretold]:
    """What the simulator says of the jobs of a snapshot."""
    command: list[str | Path] = [DALLY_SIM, "from-live", file, "--json"]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=False)  # noqa: S603 - our own program
    if told.returncode:
        raise LiveRunError(f"dally-sim from-live ended with exit code {told.returncode}")
    at_s = _read(file).now / SECOND - zero_s
    found = []
    for row in map(json.loads, told.stdout.splitlines()):
        name, ends_in_s = row["job"], row["ends_in_s"]
        if ends_in_s is None:
            raise LiveRunError(f"from-live says that {name} never ends")
        ends_s = at_s + ends_in_s
        found.append(Foretold(name=name, is_running=row["is_running"], at_s=at_s, ends_s=ends_s))
    return found


@dataclass(frozen=True, slots=True)
class _Steps:
    """When the steps of an attempt began and ended, as its rank 0 wrote to its log."""

    began_s: float
    ended_s: float

    @classmethod
    def of(cls, log: str) -> "_Steps | None":
        """None if it was stopped before its first step."""
        lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        at_s = {line["what"]: float(line["at_s"]) for line in lines}
        if "began" not in at_s:
            return None
        return cls(at_s["began"], at_s["ended"])


@dataclass(frozen=True, slots=True)
class _Lived:
    """A job that has succeeded, with all that is known of it."""

    job: JobObject
    attempts: list[AttemptView]
    steps: list[_Steps | None]

    def life(self, zero_s: float) -> Life:
        """Its life since then."""
        spans = [_span_s(attempt) for attempt in self.attempts]
        assert self.job.status.end_time is not None
        return Life(
            name=self.job.metadata.name,
            submitted_s=_at_s(self.job.metadata.create_time) - zero_s,
            first_start_s=spans[0][0] - zero_s,
            end_s=_at_s(self.job.status.end_time) - zero_s,
            held_s=sum(end_s - start_s for start_s, end_s in spans),
            stepping_s=sum(each.ended_s - each.began_s for each in self.steps if each),
            attempts=len(self.attempts),
            tiers=tuple(attempt.tier for attempt in self.attempts),
            nodes=tuple(_nodes(self.attempts[0].placement)),
        )

    def starting_s(self) -> list[float]:
        """From the slots to the first step."""
        pairs = zip(self.attempts, self.steps, strict=True)
        return [steps.began_s - _span_s(attempt)[0] for attempt, steps in pairs if steps]

    def ending_s(self) -> list[float]:
        """From the last step to the end of the hold."""
        pairs = zip(self.attempts, self.steps, strict=True)
        return [_span_s(attempt)[1] - steps.ended_s for attempt, steps in pairs if steps]

    def apart_s(self) -> list[float]:
        """From the end of the first worker to that of the last."""
        ends = [[_at_s(w.end_time) for w in a.workers if w.end_time] for a in self.attempts]
        return [max(ends_s) - min(ends_s) for ends_s in ends if len(ends_s) > 1]


def _lived(service: Service, job: JobObject) -> _Lived:
    name = job.metadata.name
    if job.status.phase != SUCCEEDED:
        log = service.log_of(name, max(0, job.status.attempts - 1))
        raise LiveRunError(f"{name} ended as {job.status.phase}: {job.status.message}\n{log}")
    attempts = service.attempts(name)
    logs = [service.log_of(name, attempt.number) for attempt in attempts]
    return _Lived(job, attempts, [_Steps.of(log) for log in logs])


def _nodes(placement: Sequence[AssignmentView]) -> list[str]:
    return [each.node for each in placement for _ in range(each.workers)]


def _span_s(attempt: AttemptView) -> tuple[float, float]:
    """When it got its slots and when it gave them back."""
    assert attempt.end_time is not None
    return _at_s(attempt.create_time), _at_s(attempt.end_time)


def _at_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
