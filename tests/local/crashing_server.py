"""A server that dies: drives gangs on a local executor as the control loop would, in a process.

    python -m tests.local.crashing_server FOLDER [POINT:N]

It asks for the same gangs at every start, whatever was asked for before, and ends well once all of
them are over and forgotten. At the N-th time that it reaches POINT it kills itself. What it has
seen of each gang's end lies in FOLDER/ends, one line a worker, written before it is forgotten.
"""

import os
import signal
import sys
import time
from pathlib import Path

from scheduler.adapters.local.cluster import LocalCluster
from scheduler.domain.instants import Instant, seconds
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import GangOrder, WorkerReport, WorkerState
from scheduler.ports.kill_points import KillPoint, arm
from tests.contract.cluster_worlds import WallClock
from tests.gangs import an_order
from tests.local.executor import LAST_STATES, settings, sh

WORKERS = 3
STAMP = "echo $DALLY_RANK >> {folder}/runs-$DALLY_JOB_NAME; "
"""Every start of user code leaves a line."""

SCRIPTS = {
    "ends": STAMP + "sleep 0.3; exit $DALLY_RANK",
    "leaves": "trap 'exit 9' TERM; " + STAMP + "while :; do sleep 0.02; done",
    # Rank 1 kills its own supervisor, as a stranger would.
    "lost": STAMP + "[ $DALLY_RANK = 1 ] && kill -9 $PPID; sleep 0.3",
    "never": STAMP + "exit 0",
}
"""`leaves` is stopped once it runs, `never` before it may."""


class Server:
    """Steps each gang towards its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cluster = LocalCluster(folder / "data", WallClock(), settings(folder))
        self._open = {
            order.attempt: order
            for order in (self._order(job) for job in SCRIPTS)
            if not self._is_done(order.attempt)
        }

    def run(self) -> None:
        """Until every gang is over."""
        with self._cluster:
            while self._open:
                for key, order in list(self._open.items()):
                    self._step(key, order)
                time.sleep(0.005)

    def _step(self, key: AttemptKey, order: GangOrder) -> None:
        reports = [r for r in self._cluster.observe().workers if r.attempt == key]
        states = {report.state for report in reports}
        is_whole = len(reports) == WORKERS
        if is_whole and states <= LAST_STATES:
            self._finish(key, reports)
        elif key.job_id == "never":
            self._cluster.prepare(order)
            if reports:
                self._stop(key)
        elif not is_whole:
            self._cluster.prepare(order)
        elif states == {WorkerState.MADE}:
            self._cluster.release(key)
        elif key.job_id == "leaves" and self._have_all_begun(key):
            self._stop(key)

    def _finish(self, key: AttemptKey, reports: list[WorkerReport]) -> None:
        lines = [f"{key.job_id} {r.rank} {r.state} {r.exit_code}\n" for r in reports]
        with (self._folder / "ends").open("a") as ends:
            ends.write("".join(lines))
        # As the control loop does: what is noted first can not be forgotten before it is noted.
        (self._folder / f"done-{key.job_id}").touch()
        self._cluster.forget(key)
        del self._open[key]

    def _stop(self, key: AttemptKey) -> None:
        self._cluster.stop(key, kill_at=Instant(WallClock().now() + seconds(60)))

    def _have_all_begun(self, key: AttemptKey) -> bool:
        runs = self._folder / f"runs-{key.job_id}"
        return runs.exists() and len(runs.read_text().splitlines()) >= WORKERS

    def _is_done(self, key: AttemptKey) -> bool:
        return (self._folder / f"done-{key.job_id}").exists()

    def _order(self, job: str) -> GangOrder:
        return an_order(
            job=job,
            nodes={"n0": 2, "n1": 1},
            command=sh(SCRIPTS[job].format(folder=self._folder)),
            are_gpus_chosen=False,
        )


def die_at(plan: str) -> None:
    """Arm the kill point of a plan `POINT:N`."""
    name, _, count = plan.partition(":")
    left = int(count)

    def hook(point: KillPoint) -> None:
        nonlocal left
        if point == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    arm(hook)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        die_at(sys.argv[2])
    Server(Path(sys.argv[1])).run()
