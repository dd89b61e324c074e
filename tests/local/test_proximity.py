"""A gang of real processes reports to a real API that it runs slowly across racks, has to start
again, and another one makes way for it; with the defaults, and a clock that the test drives.

    rack r1   n0: the one that may have to go   n1: free     16 slots are free across the racks
    rack r2   n0: a job that stands no stop     n1: free
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.ids import QueueName, RoleName
from scheduler.domain.instants import HOUR, MINUTE, Duration, seconds
from scheduler.domain.job import CheckpointRequest, FailurePolicy, Job, JobPhase, Outcome, Role
from scheduler.domain.placement import WaitingForCloserTier
from scheduler.domain.queue import Queue
from scheduler.ports.job_store import EventQuery
from scheduler.ports.unit import SaveQueue, Unit
from tests.api.front_door import FrontDoor
from tests.api.live_server import serving
from tests.builders import a_job
from tests.contract.cluster_worlds import WallClock
from tests.local.two_racks import INSENSITIVE, SENSITIVE, Api, Live, two_racks
from tests.polling import wait_until
from tests.source_tree import ROOT

SAVES = CheckpointRequest(
    path="ckpt",
    every=Duration(10 * MINUTE),
    restart_cost=seconds(30),
    grace=seconds(60),
    is_declared=True,
)
REPORTS = """
import os, pathlib, sys, time
import dally_runtime

if os.environ["DALLY_ATTEMPT"] == "0" and os.environ["DALLY_RANK"] == "0":
    for step in (1, 101):
        dally_runtime.progress(step, 3.0)
        dally_runtime.flush()
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.05)
    sys.exit(1)
time.sleep(100_000)
"""
"""Rank 0 of the first attempt tells of a hundred steps of 3 s, and fails when it is told to."""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """Two racks, and an API that their workers report to."""
    store = MemoryStore()
    store.write(Unit(changes=(SaveQueue(queue=Queue(name=QueueName("another"))),)))
    door = FrontDoor(store)
    door.deps = replace(door.deps, clock=WallClock())
    with serving(door) as server:
        api = Api(url=server.url, token=door.attempt_tokens.sign)
        with two_racks(tmp_path, store, api) as made:
            yield made


def sleeper(name: str, *, queue: str = "default", saves: bool = False) -> Job:
    """A job that holds a node and does not mind where."""
    role = Role(name=RoleName("worker"), workers=1, gpus_per_worker=8, command=("sleep", "100000"))
    checkpoint = SAVES if saves else CheckpointRequest()
    return a_job(name, roles=[role], queue=queue, checkpoint=checkpoint, communication=INSENSITIVE)


def reporter(flag: Path) -> Job:
    """A gang of two nodes that reports, fails once, and runs on."""
    role = Role(
        name=RoleName("worker"),
        workers=2,
        gpus_per_worker=8,
        command=(sys.executable, "-c", REPORTS, str(flag)),
        env={"PYTHONPATH": str(ROOT / "runtime")},
    )
    policy = FailurePolicy(restarts_max=1)
    return a_job("s", roles=[role], communication=SENSITIVE, failure_policy=policy)


def runs_apart_and_fails(live: Live, flag: Path, *others: Job) -> tuple[Job, list[Job]]:
    """One node of each rack is taken; the gang holds out, runs across the racks, and fails."""
    placed = []
    for job in (others[0], sleeper("filler"), *others[1:]):
        placed.append(live.submit(job))
        live.until(placed[-1], JobPhase.RUNNING)
    live.cancel(placed[1])
    live.until(placed[1], JobPhase.CANCELLED)
    live.clock.advance(Duration(100 * HOUR))
    gang = live.submit(reporter(flag))
    answer = live.why(gang)
    assert isinstance(answer, WaitingForCloserTier)
    assert answer.until is not None
    live.clock.advance_to(answer.until)
    live.until(gang, JobPhase.RUNNING)
    assert live.tier(gang) == "cluster"
    wait_until(lambda: len(live.store.progress(gang.id)) == 2, "both reports are there")
    live.clock.advance(Duration(26 * HOUR))
    flag.touch()
    live.until(gang, JobPhase.PENDING)
    live.clock.advance(Duration(HOUR))
    return gang, [placed[0], *placed[2:]]


def stops(live: Live) -> list[str]:
    """What events say of gangs that are stopped for others."""
    events = live.store.events(EventQuery(limit=5_000))
    return [event.message for event in events if event.reason == "GangPreempted"]


@pytest.mark.slow
def test_a_gang_makes_way_for_one_that_reported_to_lose_by_distance(
    live: Live, tmp_path: Path
) -> None:
    flag = tmp_path / "fail"
    gang, (victim, other) = runs_apart_and_fails(
        live, flag, sleeper("v", saves=True), sleeper("other")
    )
    live.until(gang, JobPhase.RUNNING)
    assert live.tier(gang) == "rack"
    assert [each.split(";")[0] for each in stops(live)] == ["it makes way for s"]
    live.until(victim, JobPhase.RUNNING)
    first, _ = live.store.attempts(victim.id)
    assert first.outcome is Outcome.PREEMPTED
    assert len(live.store.attempts(other.id)) == 1


@pytest.mark.slow
def test_no_job_of_another_queue_and_none_without_a_checkpoint_makes_way(
    live: Live, tmp_path: Path
) -> None:
    flag = tmp_path / "fail"
    gang, others = runs_apart_and_fails(
        live, flag, sleeper("plain"), sleeper("foreign", queue="another", saves=True)
    )
    assert isinstance(live.why(gang), WaitingForCloserTier)
    live.clock.advance(Duration(12 * HOUR))
    assert isinstance(live.why(gang), WaitingForCloserTier)
    assert not stops(live)
    assert [len(live.store.attempts(job.id)) for job in others] == [1, 1]
