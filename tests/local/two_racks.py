"""Two racks of slots on a local executor, under Dally. The test drives the clock of the loop; the
workers are real processes.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from scheduler.adapters.local.cluster import LocalCluster
from scheduler.adapters.local.machine import MachineGpus, with_gpu_indices
from scheduler.adapters.memory.clock import ManualClock
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.memory.leadership import MemoryLeadership
from scheduler.control.loop import ControlLoop
from scheduler.control.outside import Outside
from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.ids import RoleName
from scheduler.domain.job import Job, JobPhase, Role, StopCause
from scheduler.domain.placement import Blocked
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.topology import Level, Uplink
from scheduler.ports.unit import InsertJob, SaveJob, Unit
from tests.builders import a_cluster, a_job
from tests.contract.cluster_worlds import WallClock
from tests.local.executor import LAST_STATES, settings
from tests.polling import wait_until
from tests.source_tree import ROOT
from tests.worlds import ListSink

PICTURE = a_cluster("r1: 8 8\nr2: 8 8")
TRAINER = ROOT / "examples" / "numpy-ddp" / "train.py"
TRAINING = (sys.executable, str(TRAINER), "--steps", "60", "--accuracy-min", "0")
SENSITIVE = CommunicationProfile(gradient_bytes=2_000_000_000, compute_s=0.2)
INSENSITIVE = CommunicationProfile(gradient_bytes=1_000, compute_s=0.2)


@dataclass(frozen=True, kw_only=True)
class Api:
    """Where workers report, and what they show there."""

    url: str
    token: Callable[[AttemptKey], str]


@dataclass(frozen=True)
class Live:
    """A loop under Dally on a local executor."""

    clock: ManualClock
    store: MemoryStore
    cluster: LocalCluster
    loop: ControlLoop

    def submit(self, job: Job) -> Job:
        """A user submits a job now."""
        now = self.clock.now()
        job = replace(job, submitted_at=now, phase_since=now)
        self.store.write(Unit(changes=(InsertJob(job=job),)))
        return job

    def cancel(self, job: Job) -> None:
        """Its user has had enough."""
        found = self.store.job_by_id(job.id)
        asked = replace(found, stop_requested=StopCause.CANCEL, stop_now=True)
        self.store.write(Unit(changes=(SaveJob(job=asked, expected_revision=found.revision),)))

    def phase(self, job: Job) -> JobPhase:
        """Where the job is."""
        return self.store.job_by_id(job.id).phase

    def until(self, job: Job, phase: JobPhase) -> None:
        """Let the loop run, at one instant of its clock, until the job is there."""
        wait_until(
            lambda: (self.loop.tick(), self.phase(job))[1] is phase, f"{job.name} is {phase}"
        )

    def why(self, job: Job) -> Blocked:
        """What the service says of a job that waits, now that everything else is at rest."""
        for _ in range(10):
            self.loop.tick()
        answer = self.store.answer(job.id)
        assert answer is not None
        return answer.blocked

    def tier(self, job: Job) -> str:
        """How far apart it was placed."""
        return self.store.attempts(job.id)[-1].placement.tier_name


@contextmanager
def two_racks(folder: Path, store: MemoryStore, api: Api | None = None) -> Iterator[Live]:
    """Two racks whose uplinks carry a sixteenth of what their nodes could send."""
    rack = Level(name=PICTURE.levels[0].name, label="rack", uplink=Uplink(oversubscription=16.0))
    given = replace(settings(folder), nodes=with_gpu_indices(PICTURE.nodes, MachineGpus(count=0)))
    if api is not None:
        given = replace(given, api_url=api.url, attempt_token=api.token)
    clock = ManualClock(WallClock().now())
    with LocalCluster(folder / "data", WallClock(), given, levels=(rack,)) as cluster:
        outside = Outside(
            store=store,
            cluster=cluster,
            leadership=MemoryLeadership(store),
            clock=clock,
            sink=ListSink(),
        )
        made = Live(clock, store, cluster, ControlLoop(outside))
        yield made
        for report in cluster.observe().workers:
            cluster.stop(report.attempt, kill_at=WallClock().now())
        wait_until(
            lambda: {report.state for report in cluster.observe().workers} <= LAST_STATES,
            "every worker is over",
        )


def training(name: str, profile: CommunicationProfile) -> Job:
    """A gang of four with four slots each that really trains."""
    role = Role(
        name=RoleName("worker"),
        workers=4,
        gpus_per_worker=4,
        command=TRAINING,
        env={"PYTHONPATH": str(ROOT / "runtime")},
    )
    return a_job(name, roles=[role], communication=profile)


def sleeper(name: str) -> Job:
    """A job that holds four slots of a node."""
    role = Role(name=RoleName("worker"), workers=1, gpus_per_worker=4, command=("sleep", "100000"))
    return a_job(name, roles=[role], communication=INSENSITIVE)


def fill_one_node_each(live: Live) -> list[Job]:
    """Four slots of one node of each rack are taken."""
    jobs = [live.submit(sleeper(f"z{n}")) for n in range(8)]
    for job in jobs:
        live.until(job, JobPhase.RUNNING)
    keep = {}
    for job in jobs:
        node = live.store.attempts(job.id)[-1].placement.assignments[0].node
        if node in {"r1-n0", "r2-n0"} and node not in keep:
            keep[node] = job
        else:
            live.cancel(job)
            live.until(job, JobPhase.CANCELLED)
    assert sorted(keep) == ["r1-n0", "r2-n0"]
    return [keep[name] for name in sorted(keep)]
