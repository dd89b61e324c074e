"""A long history: how long lists take over the store, HTTP and `dally`, and the server's memory.

The server is `dallyd serve`, with its scheduler, on a machine without slots: the waiting jobs wait.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from bench.reporting import Options, Report, run_bench
from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.adapters.sql.migrating import upgrade
from scheduler.domain.ids import JobId, JobName, QueueName, RoleName
from scheduler.domain.instants import SECOND, Instant
from scheduler.domain.job import Job, JobPhase, JobSpec, Role
from scheduler.domain.queue import DEFAULT_PROJECT
from scheduler.ports.job_store import JobQuery
from scheduler.ports.unit import InsertJob, Unit
from server.data_folder import FILE_NAME

FINISHED = 10_000
WAITING = 1_000
JOBS_PER_UNIT = 500
PAGE = 500
DALLY = Path(sys.executable).with_name("dally")
DALLYD = DALLY.with_name("dallyd")


def measure(options: Options, report: Report) -> None:
    """`--quick` is a tenth of the history."""
    share = 10 if options.quick else 1
    finished, waiting = FINISHED // share, WAITING // share
    case = {"finished": finished, "waiting": waiting}
    with tempfile.TemporaryDirectory(prefix="dally-bench-") as folder:
        url = f"sqlite:///{folder}/{FILE_NAME}"
        upgrade(url)
        with open_store(url) as store:
            fill(store, finished=finished, waiting=waiting)
            page_s = seconds(lambda: store.jobs(JobQuery(limit=PAGE)))
            report.add("list_page", page_s, "s", case=case)
            report.add("list_all", seconds(lambda: walk(store)), "s", case=case)
            report.add("live_state", seconds(store.live), "s", case=case)
        with a_server(folder) as server:
            client_s = seconds(lambda: dally(server, "get", "jobs"))
            every_s = seconds(lambda: dally(server, "get", "jobs", "--limit", "0"))
            start_s = seconds(lambda: dally(server, "--help"))
            memory_mib = peak_mib(server.pid)
    # The reference is the client that starts and does nothing.
    report.add("dally_get_jobs", client_s, "s", reference=start_s, case=case)
    report.add("dally_get_jobs_all", every_s, "s", reference=start_s, case=case)
    report.add("server_memory_peak", memory_mib, "MiB", case=case)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server."""

    pid: int
    url: str
    token: str


@contextmanager
def a_server(folder: str) -> Iterator[Server]:
    """`dallyd serve` on a data folder, as a user starts it."""
    command = [str(DALLYD), "serve", "--data-dir", folder, "--port", "0", "--slots", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own server
        try:
            assert process.stdout is not None
            for line in process.stdout:
                words = line.split()
                if words[:3] == ["dally", "config", "set-context"]:
                    url, token = words[words.index("--server") + 1], words[-1]
                    yield Server(pid=process.pid, url=url, token=token)
                    break
        finally:
            process.terminate()


def peak_mib(pid: int) -> float:
    """The most memory the process has held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("a running process has a peak")


def seconds(work: Callable[[], object]) -> float:
    """How long it takes, best of three."""
    spans: list[float] = []
    for _ in range(3):
        begin = time.perf_counter()
        work()
        spans.append(time.perf_counter() - begin)
    return min(spans)


def walk(store: SqlStore) -> int:
    """Every page of the list of all jobs."""
    count, query = 0, JobQuery(limit=PAGE)
    while page := store.jobs(query).jobs:
        count += len(page)
        query = replace(query, after=(page[-1].submitted_at, page[-1].id))
    return count


def dally(server: Server, *arguments: str) -> None:
    """The client, as a user starts it."""
    environment = {"DALLY_SERVER": server.url, "DALLY_TOKEN": server.token, "COLUMNS": "200"}
    quiet = subprocess.DEVNULL
    subprocess.run(  # noqa: S603 - our own client
        [DALLY, *arguments], env=environment, stdout=quiet, stderr=quiet, check=True
    )


def fill(store: SqlStore, *, finished: int, waiting: int) -> None:
    """Store the jobs, many a unit."""
    jobs = history(finished=finished, waiting=waiting)
    while some := tuple(islice(jobs, JOBS_PER_UNIT)):
        store.write(Unit(changes=tuple(InsertJob(job=job) for job in some)))


def history(*, finished: int, waiting: int) -> Iterator[Job]:
    """Jobs in the order of their submission; the last ones wait."""
    for number in range(finished + waiting):
        at = Instant(number * SECOND)
        role = Role(
            name=RoleName("worker"),
            workers=1 + number % 8,
            gpus_per_worker=8,
            command=("python", "train.py", "--seed", str(number)),
            env={"SEED": str(number)},
        )
        is_over = number < finished
        yield Job(
            id=JobId(f"job-{number:06}"),
            project=DEFAULT_PROJECT,
            name=JobName(f"job-{number:06}"),
            spec=JobSpec(queue=QueueName("default"), roles=(role,), labels={"team": "bench"}),
            priority=0,
            submitted_at=at,
            phase=JobPhase.SUCCEEDED if is_over else JobPhase.PENDING,
            phase_since=at,
            reason="Completed" if is_over else "",
            first_started_at=at if is_over else None,
            ended_at=at if is_over else None,
        )


if __name__ == "__main__":
    run_bench(__doc__.splitlines()[0], measure)
