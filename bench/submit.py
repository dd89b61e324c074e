"""Durable submits per second over HTTP, with 32 clients, on SQLite FULL and PostgreSQL.

First the most that the server takes: every client submits again as soon as it has an answer. Its
reference is one client that commits one small row at a time on the same disk, in the same run.
Then the rate at which the promise is made (`rate=100` on SQLite, 200 on PostgreSQL): submits fall
due at that rate whether earlier ones are answered or not, and a latency counts from then. Its
reference is what the p99 is to be at most.

Server and clients share this machine. The clients are one process that costs next to nothing, and
`server_cpu` is what a submit costs the other: its processor time, whatever else the machine does.
"""

import json
import multiprocessing
import socket
import sqlite3
import tempfile
import time
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from statistics import quantiles
from typing import TypeAlias
from urllib.parse import urlsplit

from bench.databases import Api, a_store
from bench.reporting import Options, Report, run_bench
from scheduler.adapters.sql.job_store import SqlStore

Case: TypeAlias = dict[str, str | int | float]

CLIENTS = 32
SUBMITS = 4_000
SUBMITS_QUICK = 640
PACED_S = 300
PACED_S_QUICK = 10
BARE_COMMITS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What durable submits are to come to."""

    database: str
    rate_per_s: int
    p99_max_s: float


PROMISES = (
    Promise(database="sqlite", rate_per_s=100, p99_max_s=0.25),
    Promise(database="postgres", rate_per_s=200, p99_max_s=0.3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the clients are to do."""

    url: str
    token: str
    submits: int
    rate_per_s: float | None = None
    """None: as fast as the answers come."""
    first_number: int = 0
    """Of the jobs, whose names have to be new."""

    def due_s(self, number: int) -> float:
        """When a submit falls due, counted from the beginning."""
        return 0.0 if self.rate_per_s is None else number / self.rate_per_s


def measure(options: Options, report: Report) -> None:
    """Measure both databases."""
    submits = SUBMITS_QUICK if options.quick else SUBMITS
    paced_s = PACED_S_QUICK if options.quick else PACED_S
    for promise in PROMISES:
        with a_store(promise.database) as store:
            api = Api(store)
            with api as url:
                load = Load(url=url, token=api.token, submits=submits)
                measure_most(store, load, report, database=promise.database)
                paced = replace(
                    load,
                    submits=promise.rate_per_s * paced_s,
                    rate_per_s=promise.rate_per_s,
                    first_number=submits,
                )
                measure_paced(paced, report, promise)


def measure_most(store: SqlStore, load: Load, report: Report, *, database: str) -> None:
    """The most submits that the server takes."""
    before, cpu_before_s = store.commits, time.process_time()
    latencies_s, wall_s = submit_from_outside(load)
    commits = store.commits - before
    cpu_s = time.process_time() - cpu_before_s
    case: Case = {"database": database, "clients": CLIENTS}
    rate = len(latencies_s) / wall_s
    report.add("submits_per_s", rate, "1/s", reference=bare_commits_per_s(), case=case)
    report.add("submits_per_commit", len(latencies_s) / commits, "", case=case)
    report.add("server_cpu", cpu_s / len(latencies_s) * 1e3, "ms", case=case)
    report.add("submit_p50", quantiles(latencies_s, n=100)[49] * 1e3, "ms", case=case)
    report.add("submit_p99", quantiles(latencies_s, n=100)[98] * 1e3, "ms", case=case)


def measure_paced(load: Load, report: Report, promise: Promise) -> None:
    """Submits at the rate of the promise. All of them are answered, or the run fails."""
    latencies_s, wall_s = submit_from_outside(load)
    case: Case = {
        "database": promise.database,
        "clients": CLIENTS,
        "rate": promise.rate_per_s,
    }
    rate = len(latencies_s) / wall_s
    report.add("submits_per_s", rate, "1/s", reference=promise.rate_per_s, case=case)
    report.add("submit_p50", quantiles(latencies_s, n=100)[49] * 1e3, "ms", case=case)
    p99_ms, p99_max_ms = quantiles(latencies_s, n=100)[98] * 1e3, promise.p99_max_s * 1e3
    report.add("submit_p99", p99_ms, "ms", reference=p99_max_ms, case=case)


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
    """Every submit, over so many connections; every one has to be accepted.

    One that falls due while no connection is free waits for one, and its clock runs.
    """
    requests = [request_of(load, load.first_number + number) for number in range(load.submits)]
    where = urlsplit(load.url)
    latencies_s: list[float] = []
    sent = 0
    with DefaultSelector() as selector:
        # Taken in turns: one that rests for long is ended by the server.
        free = deque(
            Client(socket.create_connection((where.hostname, where.port))) for _ in range(CLIENTS)
        )
        for client in free:
            selector.register(client.connection, EVENT_READ, client)
        begin_s = time.perf_counter()
        while len(latencies_s) < load.submits:
            while free and sent < load.submits:
                due_s = begin_s + load.due_s(sent)
                if due_s > time.perf_counter():
                    break
                # Without a rate each falls due when a connection is free for it.
                since_s = time.perf_counter() if load.rate_per_s is None else due_s
                free.popleft().send(requests[sent], since_s)
                sent += 1
            next_s = begin_s + load.due_s(sent) - time.perf_counter()
            is_waited_for = free and sent < load.submits
            for key, _ in selector.select(max(0.0, next_s) if is_waited_for else None):
                latency_s = key.data.answered()
                if latency_s is not None:
                    latencies_s.append(latency_s)
                    free.append(key.data)
        wall_s = time.perf_counter() - begin_s
        for key in list(selector.get_map().values()):
            key.data.connection.close()
    return latencies_s, wall_s


class Client:
    """One connection with at most one request under way.

    Bytes and no HTTP library: a client that costs as much as the server would halve the figure.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._received = b""
        self._since_s = 0.0

    def send(self, request: bytes, since_s: float) -> None:
        """Ask; the clock has been running since then."""
        self._received, self._since_s = b"", since_s
        self.connection.sendall(request)

    def answered(self) -> float | None:
        """Read what is there; how long the answer took, once it is whole."""
        piece = self.connection.recv(65_536)
        assert piece, "the server has ended the connection"
        self._received += piece
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or len(body) < length_told(head):
            return None
        assert head.startswith(b"HTTP/1.1 201 "), self._received
        return time.perf_counter() - self._since_s


def length_told(head: bytes) -> int:
    """How long the body is."""
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])


def request_of(load: Load, number: int) -> bytes:
    """The whole request as it goes over the wire."""
    body = json.dumps(job_file(f"job-{number}")).encode()
    head = (
        "POST /api/v1/projects/default/jobs HTTP/1.1\r\nHost: dally\r\n"
        f"Authorization: Bearer {load.token}\r\nContent-Type: application/json\r\n"
        f"Idempotency-Key: {number}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


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
