"""A local executor for tests, and words for what its workers do."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scheduler.adapters.local.cluster import LocalCluster
from scheduler.adapters.local.gang_making import GangSettings, inherited
from scheduler.adapters.local.machine import MachineGpus, with_gpu_indices
from scheduler.adapters.local.retention import RetentionLimits
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant, seconds
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import GangOrder, WorkerReport, WorkerState
from tests.builders import a_node
from tests.contract.cluster_worlds import WallClock
from tests.gangs import a_key
from tests.polling import wait_until

KEY = a_key()
LAST_STATES = {WorkerState.ENDED, WorkerState.GONE, WorkerState.REFUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """A started executor in a folder of the test."""

    folder: Path
    cluster: LocalCluster
    orders: list[GangOrder] = field(default_factory=list)

    @property
    def data(self) -> Path:
        """Where the executor keeps its files."""
        return self.folder / "data" / "local"

    def worker_folder(self, key: AttemptKey = KEY, rank: int = 0) -> Path:
        """The files of one worker."""
        return self.data / "attempts" / f"{key.job_id}-a{key.number}" / str(rank)

    def launch(self, order: GangOrder) -> AttemptKey:
        """Prepare and release a gang."""
        self.orders.append(order)
        self.cluster.prepare(order)
        self.cluster.release(order.attempt)
        return order.attempt

    def stop(self, key: AttemptKey = KEY, *, grace_s: float = 600) -> None:
        """Stop a gang with that much grace."""
        self.cluster.stop(key, kill_at=Instant(WallClock().now() + seconds(grace_s)))

    def reports(self, key: AttemptKey = KEY) -> list[WorkerReport]:
        """A gang's reports, by rank."""
        found = [report for report in self.cluster.observe().workers if report.attempt == key]
        return sorted(found, key=lambda report: report.rank)

    def ends(self, key: AttemptKey = KEY, *, workers: int = 1) -> list[WorkerReport]:
        """A gang's reports once all its workers are over."""

        def are_over() -> bool:
            found = self.reports(key)
            return len(found) == workers and {report.state for report in found} <= LAST_STATES

        wait_until(are_over, f"{key} is over")
        return self.reports(key)

    def log(self, key: AttemptKey = KEY, rank: int = 0) -> str:
        """What a worker has written so far."""
        try:
            chunk = self.cluster.read(key, Rank(rank), offset=0, bytes_max=1 << 20)
        except NotFoundError:
            return ""
        return chunk.data.decode(errors="replace")

    def wait_for_log(self, text: str, key: AttemptKey = KEY, rank: int = 0) -> None:
        """Until a worker has written something."""
        wait_until(lambda: text in self.log(key, rank), f"{text!r} in the log of {key}/{rank}")

    def run(self, order: GangOrder) -> str:
        """Run a gang of one worker to its good end; its log."""
        (end,) = self.ends(self.launch(order))
        assert (end.state, end.exit_code) == (WorkerState.ENDED, 0), end
        return self.log(order.attempt)


def settings(
    folder: Path,
    *,
    nodes: Mapping[str, int] | None = None,
    environ: Mapping[str, str] | None = None,
    log_bytes_max: int = 64 << 20,
    python: str = sys.executable,
) -> GangSettings:
    """Two nodes of 8 slots, racks r0 and r1, unless the test says otherwise."""
    counts = nodes or {"n0": 8, "n1": 8}
    return GangSettings(
        nodes=with_gpu_indices(
            [a_node(name, gpus=gpus) for name, gpus in counts.items()], MachineGpus(count=0)
        ),
        api_url="http://127.0.0.1:1",
        attempt_token=lambda attempt: f"token-of-{attempt}",
        server_dir=folder,
        environment=inherited(os.environ if environ is None else environ, python=sys.executable),
        log_bytes_max=log_bytes_max,
        python=python,
    )


@contextmanager
def an_executor(
    folder: Path, given: GangSettings | None = None, *, limits: RetentionLimits | None = None
) -> Iterator[Executor]:
    """A running executor; at the end its gangs are stopped."""
    given = given or settings(folder)
    with LocalCluster(folder / "data", WallClock(), given, limits=limits) as cluster:
        executor = Executor(folder=folder, cluster=cluster)
        yield executor
        for report in cluster.observe().workers:
            executor.stop(report.attempt, grace_s=0)
        wait_until(
            lambda: {report.state for report in cluster.observe().workers} <= LAST_STATES,
            "every worker is over",
        )


def sh(script: str) -> tuple[str, ...]:
    """A command that runs a shell script."""
    return ("sh", "-c", script)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is more than an entry that nobody has collected."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
