"""The worlds the Cluster suite runs in: each can make gangs whose workers do given deeds.

A world knows how its adapter is told what a worker does, how its time passes, and how its adapter
is started again as after the death of the server.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scheduler.adapters.local.cluster import LocalCluster
from scheduler.adapters.local.gang_making import GangSettings, inherited
from scheduler.adapters.local.machine import MachineGpus, with_gpu_indices
from scheduler.adapters.memory.clock import ManualClock
from scheduler.adapters.memory.cluster import MemoryCluster
from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.ids import JobId, LevelName, Rank, RoleName
from scheduler.domain.instants import Duration, Instant, seconds
from scheduler.domain.job import Outcome, Role
from scheduler.domain.topology import Level, Node
from scheduler.ports.cluster import Cluster, GangOrder
from scheduler.ports.log_source import LogSource
from tests.builders import a_node
from tests.gangs import an_order
from tests.polling import wait_until

NODES = with_gpu_indices(
    (a_node("n0", gpus=8, path=("r1",)), a_node("n1", gpus=8, path=("r1",))), MachineGpus(count=0)
)
LEVELS = (Level(name=LevelName("rack"), label="rack"),)


@dataclass(frozen=True, slots=True)
class Deed:
    """What a worker does, in both worlds' words."""

    script: WorkerScript
    shell: str


def exits(code: int) -> Deed:
    """Ends at once with `code`."""
    return Deed(WorkerScript(run_for=seconds(0), exit_code=code), f"exit {code}")


def is_killed_by(number: int) -> Deed:
    """A signal of a stranger ends it."""
    script = WorkerScript(run_for=seconds(0), exit_code=128 + number)
    return Deed(script, f"kill -{number} $$; sleep 600")


def prints(text: str) -> Deed:
    """Writes `text` and ends well."""
    script = WorkerScript(run_for=seconds(0), log=text.encode())
    return Deed(script, f"printf '%b' '{text.encode('unicode_escape').decode()}'")


RUNS = Deed(WorkerScript(), "exec sleep 600")
"""Runs until it is stopped; the stop signal ends it."""

RUNS_AND_SAYS_SO = Deed(WorkerScript(log=b"up\n"), "echo up; exec sleep 600")

LEAVES_CLEANLY = Deed(
    WorkerScript(stop_exit_code=0, log=b"up\n"),
    "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done",
)
"""On the stop signal it ends by itself with code 0."""

STUBBORN = Deed(
    WorkerScript(stop_after=None, log=b"up\n"),
    "trap '' TERM; echo up; while :; do sleep 0.01; done",
)
"""Ignores the stop signal."""

NO_SUCH_COMMAND = Deed(
    WorkerScript(refusal=Outcome.LAUNCH_FAILED, message="no such command: no-such-command"), ""
)


class ClusterAndLogs(Cluster, LogSource, Protocol):
    """Both ports in one object."""


class World(Protocol):
    """What the suite needs."""

    @property
    def cluster(self) -> ClusterAndLogs:
        """The adapter under test; another one after a restart."""
        ...

    @property
    def nodes(self) -> tuple[Node, ...]:
        """As the adapter is to tell them."""
        ...

    @property
    def levels(self) -> tuple[Level, ...]:
        """Those above them."""
        ...

    def order(
        self, deeds: list[Deed], *, job: str = "job-1", number: int = 0, gpus: int = 1
    ) -> GangOrder:
        """A gang with one worker a deed, in rank order, all on the first node."""
        ...

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Let time pass until something is so."""
        ...

    def settle(self) -> None:
        """Let everything asked for so far be carried out."""
        ...

    def in_time(self, length: Duration) -> Instant:
        """The instant so far from now."""
        ...

    def restart(self) -> None:
        """A new adapter as after a crash of the server."""
        ...

    def runs_of(self, job: str) -> int:
        """How many workers of a job have ever begun to run user code."""
        ...

    @property
    def resolution(self) -> Duration:
        """How exactly it tells when something happened."""
        ...

    @property
    def refusal(self) -> Outcome:
        """What a worker that can not be made is refused as."""
        ...

    def close(self) -> None:
        """End everything."""
        ...


class MemoryWorld:
    """Scripts and a clock that moves a second at a time."""

    resolution = seconds(0.1)
    refusal = Outcome.LAUNCH_FAILED
    nodes = NODES
    levels = LEVELS

    def __init__(self, *, lag: Duration) -> None:
        """`lag`: how long a request waits to be worked off."""
        self._clock = ManualClock(Instant(0))
        self._scripts: dict[tuple[str, int], WorkerScript] = {}
        self.cluster: MemoryCluster = MemoryCluster(
            self._clock, NODES, levels=LEVELS, script=self._script
        )
        self.cluster.lag = lambda: lag

    def order(
        self, deeds: list[Deed], *, job: str = "job-1", number: int = 0, gpus: int = 1
    ) -> GangOrder:
        self._scripts |= {(job, rank): deed.script for rank, deed in enumerate(deeds)}
        return an_order(
            job=job,
            number=number,
            nodes={"n0": len(deeds)},
            gpus_per_worker=gpus,
            are_gpus_chosen=False,
        )

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        for _ in range(1000):
            if is_so():
                return
            self._clock.advance(seconds(1))
        raise AssertionError(what)

    def settle(self) -> None:
        self._clock.advance(seconds(1))

    def in_time(self, length: Duration) -> Instant:
        return Instant(self._clock.now() + length)

    def restart(self) -> None:
        """The scripts are the workers: they live on, and the adapter keeps nothing else."""

    def runs_of(self, job: str) -> int:
        return self.cluster.runs_of(JobId(job))

    def close(self) -> None:
        self.cluster.check()

    def _script(self, order: GangOrder, rank: Rank) -> WorkerScript:
        return self._scripts[order.attempt.job_id, rank]


class WallClock:
    """The machine's clock."""

    def now(self) -> Instant:
        return Instant(time.time_ns() // 1000)


class LocalWorld:
    """Real processes; every run of user code leaves a line in a file of the test."""

    resolution = seconds(0.1)
    refusal = Outcome.LAUNCH_FAILED
    nodes = NODES
    levels = LEVELS

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._orders: list[GangOrder] = []
        self.cluster: LocalCluster = self._new_cluster()

    def order(
        self, deeds: list[Deed], *, job: str = "job-1", number: int = 0, gpus: int = 1
    ) -> GangOrder:
        roles = tuple(
            Role(
                name=RoleName(f"role{rank}"),
                workers=1,
                gpus_per_worker=gpus,
                command=self._command(deed, job),
            )
            for rank, deed in enumerate(deeds)
        )
        nodes = {"n0": len(deeds)}
        order = an_order(job=job, number=number, nodes=nodes, roles=roles, are_gpus_chosen=False)
        self._orders.append(order)
        return order

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        wait_until(is_so, what)

    def settle(self) -> None:
        """Requests are worked off in order: once a later one is done, the earlier ones are."""
        marker = self.order([exits(0)], job=f"settle-{len(self._orders)}")
        self.cluster.prepare(marker)
        wait_until(
            lambda: marker.attempt in self.cluster.observe().attempts_complete, "a later request"
        )
        self.cluster.stop(marker.attempt, kill_at=self.in_time(seconds(0)))
        self.cluster.forget(marker.attempt)
        wait_until(
            lambda: all(r.attempt != marker.attempt for r in self.cluster.observe().workers),
            "the marker is forgotten",
        )

    def in_time(self, length: Duration) -> Instant:
        return Instant(WallClock().now() + length)

    def restart(self) -> None:
        self.cluster.close()
        self.cluster = self._new_cluster()

    def runs_of(self, job: str) -> int:
        path = self._folder / f"runs-{job}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def close(self) -> None:
        for order in self._orders:
            self.cluster.stop(order.attempt, kill_at=self.in_time(seconds(0)))
        wait_until(
            lambda: all(r.ended_at is not None for r in self.cluster.observe().workers),
            "every worker has ended",
        )
        self.cluster.close()

    def _command(self, deed: Deed, job: str) -> tuple[str, ...]:
        if deed is NO_SUCH_COMMAND:
            return ("no-such-command",)
        return ("sh", "-c", f"echo $DALLY_RANK >> {self._folder}/runs-{job}; {deed.shell}")

    def _new_cluster(self) -> LocalCluster:
        cluster = LocalCluster(
            self._folder / "data",
            WallClock(),
            local_settings(self._folder),
            levels=LEVELS,
        )
        cluster.start()
        return cluster


def local_settings(
    folder: Path, *, environ: Mapping[str, str] | None = None, log_bytes_max: int = 64 << 20
) -> GangSettings:
    """Settings of a local executor on the nodes of this suite."""
    return GangSettings(
        nodes=NODES,
        api_url="http://127.0.0.1:1",
        attempt_token=lambda attempt: f"token-of-{attempt}",
        server_dir=folder,
        environment=inherited(environ or os.environ, python=sys.executable),
        log_bytes_max=log_bytes_max,
    )
