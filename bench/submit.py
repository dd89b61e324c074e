"""Durable submits per second over HTTP, with 32 clients, on SQLite FULL and PostgreSQL.

The reference is one client that commits one small row at a time on the same disk, in the same run.
Server and clients share this machine; the clients are one process, the server is another.
"""

import http.client
import json
import multiprocessing
import sqlite3
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlsplit

from bench.databases import Api, a_store
from bench.reporting import Options, Report, run_bench

CLIENTS = 32
SUBMITS = 4_000
SUBMITS_QUICK = 640
BARE_COMMITS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the clients are to do."""

    url: str
    token: str
    submits: int


def measure(options: Options, report: Report) -> None:
    """Measure both databases."""
    submits = SUBMITS_QUICK if options.quick else SUBMITS
    for kind in ("sqlite", "postgres"):
        with a_store(kind) as store:
            api = Api(store)
            with api as url:
                before = store.commits
                latencies_s, wall_s = submit_from_outside(
                    Load(url=url, token=api.token, submits=submits)
                )
                commits = store.commits - before
        case = {"database": kind, "clients": CLIENTS}
        bare_per_s = bare_commits_per_s()
        rate = len(latencies_s) / wall_s
        report.add("submits_per_s", rate, "1/s", reference=bare_per_s, case=case)
        report.add("submits_per_commit", len(latencies_s) / commits, "", case=case)
        report.add("submit_p50", quantiles(latencies_s, n=100)[49] * 1e3, "ms", case=case)
        report.add("submit_p99", quantiles(latencies_s, n=100)[98] * 1e3, "ms", case=case)


def bare_commits_per_s() -> float:
    """Single synced commits of SQLite, one after the other, on the same disk."""
    with tempfile.TemporaryDirectory(prefix="dally-bench-") as folder:
        connection = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE rows (content TEXT)")
        begin = time.perf_counter()
        for _ in range(BARE_COMMITS):
            connection.execute("INSERT INTO rows VALUES ('x')")
        wall_s = time.perf_counter() - begin
        connection.close()
    return BARE_COMMITS / wall_s


def submit_from_outside(load: Load) -> tuple[list[float], float]:
    """Latency of each submit and the time all took together, from a process of clients."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(submit_all, (load,))


def submit_all(load: Load) -> tuple[list[float], float]:
    """All clients, each on its own connection."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        parts = list(pool.map(lambda client: submit_some(load, client), range(CLIENTS)))
    return [latency for part in parts for latency in part], time.perf_counter() - begin


def submit_some(load: Load, client: int) -> list[float]:
    """One client's submits; every one has to be accepted."""
    where = urlsplit(load.url)
    assert where.hostname is not None
    connection = http.client.HTTPConnection(where.hostname, where.port)
    latencies_s: list[float] = []
    for number in range(load.submits // CLIENTS):
        body = json.dumps(job_file(f"job-{client}-{number}"))
        headers = {
            "Authorization": f"Bearer {load.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": f"{client}-{number}",
        }
        begin = time.perf_counter()
        connection.request("POST", "/api/v1/projects/default/jobs", body, headers)
        answer = connection.getresponse()
        told = answer.read()
        latencies_s.append(time.perf_counter() - begin)
        assert answer.status == http.client.CREATED, told
    connection.close()
    return latencies_s


def job_file(name: str) -> dict[str, object]:
    """A small job."""
    return {
        "apiVersion": "dally/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"team": "bench"}},
        "spec": {"workers": 4, "gpusPerWorker": 1, "command": ["true"]},
    }


if __name__ == "__main__":
    run_bench(__doc__.splitlines()[0], measure)
