"""A lease that lapses inside a tick: the tick is given up, and the next one starts over."""

import pytest

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.ids import Epoch, JobId, Sequence
from scheduler.domain.instants import seconds
from scheduler.domain.job import JobPhase
from scheduler.ports.job_store import LiveState
from scheduler.ports.leadership import Leadership
from tests.builders import a_job
from tests.worlds import Script, World, runs


class LapsingLeadership:
    """Leads as another one does, but is not sure of it when asked for the n-th time."""

    def __init__(self, inner: Leadership, *, lapse: int) -> None:
        self._inner = inner
        self._lapse = lapse
        self.asked = 0

    def lead(self) -> Epoch | None:
        return self._inner.lead()

    def is_leader(self) -> bool:
        self.asked += 1
        return self.asked != self._lapse and self._inner.is_leader()

    def resign(self) -> None:
        self._inner.resign()


class LapsingWorld(World):
    """Its lease lapses once."""

    def __init__(self, *, lapse: int, script: Script) -> None:
        self._lapse = lapse
        super().__init__("r1: 8 8", script=script)

    def new_leadership(self, holder: str) -> Leadership:
        return LapsingLeadership(super().new_leadership(holder), lapse=self._lapse)


ASKED_IN_ALL = 6
"""Prepare, release and forget, of two gangs."""


@pytest.mark.parametrize("lapse", range(1, ASKED_IN_ALL + 1))
def test_whatever_a_tick_left_undone_is_done_once_by_a_later_one(lapse: int) -> None:
    world = LapsingWorld(lapse=lapse, script=Script(runs(30)))
    world.submit(a_job("a", gpus=8))
    world.ticks(2)
    world.submit(a_job("b", workers=2, gpus=4))
    world.run(seconds(60))
    assert [world.phase("a"), world.phase("b")] == [JobPhase.SUCCEEDED, JobPhase.SUCCEEDED]
    assert [len(world.attempts("a")), len(world.attempts("b"))] == [1, 1]
    assert [world.cluster.runs_of(JobId(f"id-{name}")) for name in "ab"] == [1, 2]
    assert len(world.sink.named("lease_lapsed")) == 1
    assert world.cluster.observe().workers == ()


def test_the_table_above_is_as_long_as_the_story() -> None:
    world = LapsingWorld(lapse=0, script=Script(runs(30)))
    world.submit(a_job("a", gpus=8), a_job("b", workers=2, gpus=4))
    world.run(seconds(60))
    assert isinstance(world.leadership, LapsingLeadership)
    assert world.leadership.asked == ASKED_IN_ALL


def test_nothing_is_asked_of_the_cluster_while_the_lease_has_lapsed() -> None:
    world = LapsingWorld(lapse=1, script=Script(WorkerScript()))
    world.submit(a_job("a"))
    world.tick()
    assert world.phase("a") is JobPhase.STARTING
    assert world.cluster.orders == []


class SlowStore(MemoryStore):
    """Counts how often everything was read: that takes longer than the lease lasts."""

    def __init__(self) -> None:
        super().__init__()
        self.whole_reads = 0

    def live(self, after: Sequence | None = None) -> LiveState:
        self.whole_reads += after is None
        return super().live(after)


class HurriedLeadership(LapsingLeadership):
    """Has lapsed in every tick that has read everything."""

    def __init__(self, inner: Leadership, store: SlowStore) -> None:
        super().__init__(inner, lapse=0)
        self._store = store
        self._reads_before = 0

    def lead(self) -> Epoch | None:
        self._reads_before = self._store.whole_reads
        return super().lead()

    def is_leader(self) -> bool:
        return self._store.whole_reads == self._reads_before and super().is_leader()


class HurriedWorld(World):
    """A machine so slow that reading everything outlasts the lease."""

    def new_leadership(self, holder: str) -> Leadership:
        assert isinstance(self.store, SlowStore)
        return HurriedLeadership(super().new_leadership(holder), self.store)


def test_a_lease_shorter_than_reading_everything_does_not_stop_the_loop() -> None:
    world = HurriedWorld("r1: 8 8", script=Script(runs(30)), store=SlowStore())
    world.submit(a_job("a"))
    world.ticks(2)
    world.restart()
    world.run(seconds(60))
    assert world.sink.named("lease_lapsed")
    assert world.phase("a") is JobPhase.SUCCEEDED
