"""A long history: how long lists take over the store, HTTP and `dally`, and the server's memory.

The server is the REST API in this process, without a scheduler; its memory is that of the process.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.databases import Api, a_store
from bench.reporting import Options, Report, run_bench
from scheduler.adapters.sql.job_store import SqlStore
from scheduler.domain.ids import JobId, JobName, QueueName, RoleName
from scheduler.domain.instants import SECOND, Instant
from scheduler.domain.job import Job, JobPhase, JobSpec, Role
from scheduler.domain.queue import DEFAULT_PROJECT
from scheduler.ports.job_store import JobQuery
from scheduler.ports.unit import InsertJob, Unit

FINISHED = 10_000
WAITING = 1_000
JOBS_PER_UNIT = 500
PAGE = 500
DALLY = Path(sys.executable).with_name("dally")


def measure(options: Options, report: Report) -> None:
    """`--quick` is a tenth of the history."""
    share = 10 if options.quick else 1
    finished, waiting = FINISHED // share, WAITING // share
    case = {"finished": finished, "waiting": waiting}
    with a_store("sqlite") as store:
        fill(store, finished=finished, waiting=waiting)
        report.add("list_page", seconds(lambda: store.jobs(JobQuery(limit=PAGE))), "s", case=case)
        report.add("list_all", seconds(lambda: walk(store)), "s", case=case)
        report.add("live_state", seconds(store.live), "s", case=case)
        api = Api(store)
        with api as url:
            client_s = seconds(lambda: dally(url, api.token, "get", "jobs"))
            every_s = seconds(lambda: dally(url, api.token, "get", "jobs", "--limit", "0"))
            start_s = seconds(lambda: dally(url, api.token, "--help"))
        # The reference is the client that starts and does nothing.
        report.add("dally_get_jobs", client_s, "s", reference=start_s, case=case)
        report.add("dally_get_jobs_all", every_s, "s", reference=start_s, case=case)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report.add("server_memory_peak", peak, "MiB", case=case)


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


def dally(url: str, token: str, *arguments: str) -> None:
    """The client, as a user starts it."""
    environment = {"DALLY_SERVER": url, "DALLY_TOKEN": token, "COLUMNS": "200"}
    subprocess.run(  # noqa: S603 - our own client
        [DALLY, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True
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
