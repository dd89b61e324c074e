"""Durable submits per second over HTTP, with 32 clients, on SQLite FULL and PostgreSQL.

The reference is one client that commits one small row at a time on the same disk, in the same run.
Server and clients share this machine. The clients are one process that costs next to nothing, and
`server_cpu` is what a submit costs the other: its processor time, whatever else the machine does.
"""

import json
import multiprocessing
import socket
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
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
                before, cpu_before_s = store.commits, time.process_time()
                latencies_s, wall_s = submit_from_outside(
                    Load(url=url, token=api.token, submits=submits)
                )
                commits = store.commits - before
                cpu_s = time.process_time() - cpu_before_s
        case = {"database": kind, "clients": CLIENTS}
        bare_per_s = bare_commits_per_s()
        rate = len(latencies_s) / wall_s
        report.add("submits_per_s", rate, "1/s", reference=bare_per_s, case=case)
        report.add("submits_per_commit", len(latencies_s) / commits, "", case=case)
        report.add("server_cpu", cpu_s / len(latencies_s) * 1e3, "ms", case=case)
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
    """Every submit, over so many connections; every one has to be accepted."""
    waiting = [request_of(load, number) for number in reversed(range(load.submits))]
    where = urlsplit(load.url)
    latencies_s: list[float] = []
    begin = time.perf_counter()
    with DefaultSelector() as selector:
        for _ in range(CLIENTS):
            client = Client(socket.create_connection((where.hostname, where.port)))
            selector.register(client.connection, EVENT_READ, client)
            client.send(waiting.pop())
        while len(latencies_s) < load.submits:
            for key, _ in selector.select():
                latency_s = key.data.answered()
                if latency_s is None:
                    continue
                latencies_s.append(latency_s)
                if waiting:
                    key.data.send(waiting.pop())
        wall_s = time.perf_counter() - begin
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
        self._sent_at_s = 0.0

    def send(self, request: bytes) -> None:
        """Ask; the clock runs."""
        self._received, self._sent_at_s = b"", time.perf_counter()
        self.connection.sendall(request)

    def answered(self) -> float | None:
        """Read what is there; how long the answer took, once it is whole."""
        self._received += self.connection.recv(65_536)
        head, end, body = self._received.partition(b"\r\n\r\n")
        assert head, "the server has ended the connection"
        if not end or len(body) < length_told(head):
            return None
        assert head.startswith(b"HTTP/1.1 201 "), self._received
        return time.perf_counter() - self._sent_at_s


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
