"""What it costs to refuse hostile requests, over HTTP on loopback; the bar is 50 ms each."""

import gc
import json
import multiprocessing
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection

import httpx2
import uvicorn

from api.app import create_app
from api.callers import new_secret, secret_hash
from api.dependencies import ApiDependencies
from bench.reporting import Options, Report, run_bench
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.system_clock import SystemClock
from scheduler.domain.instants import Instant
from scheduler.ports.unit import SaveToken, Token, Unit

JOBS = "/api/v1/projects/default/jobs"
MIB = 1024 * 1024
BAR_MS = 50.0
JSON = "application/json"
YAML = "application/yaml"


@dataclass(frozen=True, slots=True)
class Attack:
    """A request that must be refused."""

    media_type: str
    body: bytes


def _job(**spec: object) -> bytes:
    body = {"gpusPerWorker": 8, "command": ["x"], **spec}
    return json.dumps({"metadata": {"name": "a"}, "spec": body}).encode()


ATTACKS: Mapping[str, Attack] = {
    "json brackets 100 kB": Attack(JSON, b"[" * 100_000),
    "json brackets 1 MiB": Attack(JSON, b"[" * MIB),
    "json quotes 1 MiB": Attack(JSON, b'"' * MIB),
    "json escapes 1 MiB": Attack(JSON, b'"' + b'\\"' * (MIB // 2 - 1)),
    "json commas 1 MiB": Attack(JSON, b"[" + b"1," * (MIB // 2 - 1)),
    "json digits 1 MiB": Attack(JSON, b"1" * MIB),
    "json blanks 1 MiB": Attack(JSON, b" " * MIB),
    "json letters 1 MiB": Attack(JSON, b"a" * MIB),
    "yaml brackets 100 kB": Attack(YAML, b"[" * 100_000),
    "yaml brackets and words 1 MiB": Attack(YAML, b"[a, " * (MIB // 4)),
    "yaml braces 1 MiB": Attack(YAML, b"{a: " * (MIB // 4)),
    "yaml dashes 1 MiB": Attack(YAML, b"- " * (MIB // 2)),
    "yaml question marks 1 MiB": Attack(YAML, b"? " * (MIB // 2)),
    "yaml items 1 MiB": Attack(YAML, b"- a\n" * (MIB // 4)),
    "yaml words 1 MiB": Attack(YAML, b"a " * (MIB // 2)),
    "yaml aliases 289 bytes": Attack(
        YAML,
        b"a: &a [x, x, x, x, x, x, x, x, x]\n"
        + b"\n".join(
            f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]".encode()
            for before, name in zip("abcde", "bcdef", strict=True)
        ),
    ),
    "yaml anchors 1 MiB": Attack(YAML, b"&a " * (MIB // 3)),
    "yaml documents 1 MiB": Attack(YAML, b"---\n" * (MIB // 4)),
    "yaml comments 1 MiB": Attack(YAML, b"#\n" * (MIB // 2)),
    "5000 unknown fields": Attack(JSON, _job(**{f"unknown{n}": 1 for n in range(5_000)})),
    "5000 wrong variables": Attack(JSON, _job(env={f"A {n}": "x" for n in range(5_000)})),
    "5000 numbers as variables": Attack(JSON, _job(env={f"A{n}": n for n in range(5_000)})),
    "10 MB": Attack(JSON, b" " * (10 * MIB)),
}


def measure(options: Options, report: Report) -> None:
    """The slowest of some refusals of each kind, and a good request beside them."""
    rounds = 5 if options.quick else 30
    with _serving() as (url, secret), _client(url, secret) as client:
        good = Attack(JSON, _job())
        accepted = [_timed_ms(client, good, "?dryRun=All", refused=False) for _ in range(rounds)]
        report.add("dry_run_p50", sorted(accepted)[rounds // 2], "ms")
        for name, attack in ATTACKS.items():
            times = sorted(_timed_ms(client, attack, "", refused=True) for _ in range(rounds))
            report.add("refusal_p50", times[rounds // 2], "ms", case={"body": name})
            report.add("refusal_max", times[-1], "ms", reference=BAR_MS, case={"body": name})


def _timed_ms(client: httpx2.Client, attack: Attack, query: str, *, refused: bool) -> float:
    headers = {"Content-Type": attack.media_type}
    start = time.perf_counter()
    response = client.post(JOBS + query, content=attack.body, headers=headers)
    elapsed_ms = (time.perf_counter() - start) * 1000
    assert response.is_client_error == refused, response.text
    return elapsed_ms


def _client(url: str, secret: str) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.Client(base_url=url, headers=headers, timeout=60)


@contextmanager
def _serving() -> Iterator[tuple[str, str]]:
    """A server in a process of its own; its URL, a token."""
    processes = multiprocessing.get_context("spawn")
    ours, its = processes.Pipe()
    process = processes.Process(target=_serve, args=(its,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(told: Connection) -> None:
    """Serve over the store in memory, so that only refusing is measured; tell URL and token."""
    store, secret, numbers = MemoryStore(), new_secret(), count()
    token = Token(
        id="bench",
        name="bench",
        secret_sha256=secret_hash(secret),
        is_admin=True,
        created_at=Instant(0),
    )
    store.write(Unit(changes=(SaveToken(token=token),)))
    app = create_app(
        ApiDependencies(
            store=store,
            accounts=store,
            clock=SystemClock(),
            new_id=lambda: f"{next(numbers):032x}",
            secret=b"b" * 32,
            version="bench",
        )
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    # With the protocol named: asyncio sets TCP_NODELAY only on sockets that say that they are TCP.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        # As `dallyd serve` does.
        gc.collect()
        gc.freeze()
        told.send((f"http://127.0.0.1:{listener.getsockname()[1]}", secret))
        server.run(sockets=[listener])


if __name__ == "__main__":
    run_bench("What refusing hostile requests costs; the bar is 50 ms.", measure)
