"""The thread that drives the loop: ticks, sleeps, is woken, and does not die quietly."""

import threading

import pytest
import structlog

from scheduler.adapters.memory.cluster import MemoryCluster
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.memory.leadership import MemoryLeadership
from scheduler.adapters.system_clock import SystemClock
from scheduler.control.loop import ControlLoop
from scheduler.control.outside import Outside
from scheduler.domain.errors import AlreadyServingError, StoreReplacedError
from scheduler.domain.instants import HOUR, Duration
from scheduler.domain.job import JobPhase
from scheduler.ports.unit import InsertJob, Unit
from server.driver import LoopDriver
from server.fan_out import FanOut
from server.sole_scheduler import SoleLeadership
from tests.builders import a_cluster, a_job
from tests.polling import wait_until
from tests.worlds import ListSink


class Driven:
    """A driver over memory adapters; ticks once an hour unless it is woken."""

    def __init__(self, *, trouble: Exception | type[Exception] | None = None) -> None:
        self.store = MemoryStore()
        clock = SystemClock()
        picture = a_cluster("r1: 8")
        self.cluster = MemoryCluster(clock, picture.nodes, levels=picture.levels)
        leadership = MemoryLeadership(self.store)
        self.sink = ListSink()
        outside = Outside(
            store=self.store,
            cluster=self.cluster,
            leadership=leadership,
            clock=clock,
            sink=FanOut(self.sink),
        )
        self.trouble = trouble
        self.died = threading.Event()
        self.driver = LoopDriver(
            ControlLoop(outside, poll=Duration(HOUR)),
            clock,
            leadership,
            wake=threading.Event(),
            between_ticks=self.between_ticks,
            on_death=self.died.set,
        )

    def between_ticks(self) -> None:
        if self.trouble is not None:
            raise self.trouble


def test_it_acts_when_it_is_woken_and_resigns_when_it_stops() -> None:
    driven = Driven()
    driven.driver.start()
    wait_until(lambda: bool(driven.sink.named("leadership")), "it leads")
    job = a_job("a")
    driven.store.write(Unit(changes=(InsertJob(job=job),)))
    driven.driver.wake()
    wait_until(lambda: driven.store.job_by_id(job.id).phase is JobPhase.RUNNING, "it runs")
    driven.driver.check()
    driven.driver.stop(10)
    assert driven.store.lease().holder == ""
    assert not driven.died.is_set()


def test_a_bug_in_the_loop_is_told_and_not_survived() -> None:
    driven = Driven(trouble=ZeroDivisionError)
    with structlog.testing.capture_logs() as logs:
        driven.driver.start()
        assert driven.died.wait(10)
    assert [line["event"] for line in logs] == ["loop_died"]


def test_a_loop_that_can_not_go_on_for_good_reason_says_so_in_a_line() -> None:
    driven = Driven(trouble=StoreReplacedError("/data/dally.db"))
    with structlog.testing.capture_logs() as logs:
        driven.driver.start()
        assert driven.died.wait(10)
    assert [(line["event"], "exc_info" in line) for line in logs] == [("loop_ended", False)]
    assert "/data/dally.db" in logs[0]["error"]


def test_a_second_scheduler_waits_for_a_dead_one_and_not_for_a_living_one() -> None:
    store = MemoryStore()
    now = [0.0]
    living = MemoryLeadership(store, holder="one", monotonic=lambda: now[0])
    living.lead()
    other = SoleLeadership(MemoryLeadership(store, holder="two", monotonic=lambda: now[0]), store)
    assert other.lead() is None
    assert other.lead() is None
    now[0] = 5.0
    living.lead()
    with pytest.raises(AlreadyServingError, match="one schedules for this database"):
        other.lead()
    dead = SoleLeadership(MemoryLeadership(store, holder="three", monotonic=lambda: now[0]), store)
    assert dead.lead() is None
    now[0] = 30.0
    assert dead.lead() is not None
