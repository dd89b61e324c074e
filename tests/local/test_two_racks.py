"""Two racks of slots and real training: who is spread at once, who waits for a rack, and what `why`
says at each moment. The test drives the clock of the loop; the workers are real processes.

    rack r1   n0: 4 of 8 taken   n1: free       a gang of 16 fits in no rack, and across both
    rack r2   n0: 4 of 8 taken   n1: free
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from scheduler.adapters.local.cluster import LocalCluster
from scheduler.adapters.local.machine import MachineGpus, with_gpu_indices
from scheduler.adapters.memory.clock import ManualClock
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.memory.leadership import MemoryLeadership
from scheduler.control.loop import ControlLoop
from scheduler.control.outside import Outside
from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.explain import explain
from scheduler.domain.ids import RoleName
from scheduler.domain.instants import MINUTE, Duration, after
from scheduler.domain.job import Job, JobPhase, Role, StopCause
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import Blocked, TooFewGpus, WaitingForCloserTier
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


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """Two racks whose uplinks carry a sixteenth of what their nodes could send."""
    rack = Level(name=PICTURE.levels[0].name, label="rack", uplink=Uplink(oversubscription=16.0))
    given = replace(settings(tmp_path), nodes=with_gpu_indices(PICTURE.nodes, MachineGpus(count=0)))
    clock, store = ManualClock(WallClock().now()), MemoryStore()
    with LocalCluster(tmp_path / "data", WallClock(), given, levels=(rack,)) as cluster:
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


@pytest.mark.slow
def test_the_insensitive_job_is_spread_and_the_sensitive_one_waits_for_a_rack(live: Live) -> None:
    assert PolicyKnobs().policy == "dally"
    in_r1, _ = fill_one_node_each(live)

    # 16 slots are free across the racks: the sensitive job does not want them.
    sensitive = live.submit(training("sensitive", SENSITIVE))
    first = live.why(sensitive)
    assert isinstance(first, WaitingForCloserTier)
    assert first.until is not None
    assert (first.level, first.offered_level) == ("rack", "cluster")
    assert first.step_slowdown > 1.5
    assert "waiting for one rack until" in explain(first)
    assert "free now: 16 GPUs across 2 racks within the whole cluster" in explain(first)

    # A minute later the insensitive one comes, is spread at once, and trains.
    live.clock.advance(Duration(MINUTE))
    insensitive = live.submit(training("insensitive", INSENSITIVE))
    live.until(insensitive, JobPhase.RUNNING)
    assert live.tier(insensitive) == "cluster"
    assert isinstance(live.why(sensitive), TooFewGpus)
    live.clock.advance(Duration(30 * MINUTE))
    live.until(insensitive, JobPhase.SUCCEEDED)

    # Waiting has cost the sensitive one nothing meanwhile: its clock stood.
    second = live.why(sensitive)
    assert isinstance(second, WaitingForCloserTier)
    assert second.timer == first.timer
    assert second.until is not None
    assert abs(second.until - after(first.until, Duration(30 * MINUTE))) < MINUTE

    # A rack is left: the sensitive one runs inside it, and trains to its end.
    live.cancel(in_r1)
    live.until(sensitive, JobPhase.RUNNING)
    assert live.tier(sensitive) == "rack"
    live.until(sensitive, JobPhase.SUCCEEDED)


@pytest.mark.slow
def test_when_its_timer_expires_the_sensitive_job_takes_what_is_there(live: Live) -> None:
    fill_one_node_each(live)
    sensitive = live.submit(training("sensitive", SENSITIVE))
    answer = live.why(sensitive)
    assert isinstance(answer, WaitingForCloserTier)
    assert answer.until is not None
    live.clock.advance(Duration(answer.until - live.clock.now() - 1))
    assert isinstance(live.why(sensitive), WaitingForCloserTier)
    live.clock.advance(Duration(1))
    live.until(sensitive, JobPhase.RUNNING)
    assert live.tier(sensitive) == "cluster"
