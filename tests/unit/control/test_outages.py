"""Outages, lost nodes, new leaders: what runs is left alone, and nothing is done twice."""

from dataclasses import replace

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.control.loop import ControlLoop
from scheduler.control.outside import Outside
from scheduler.domain.ids import Epoch
from scheduler.domain.instants import HOUR, Duration, seconds
from scheduler.domain.job import AttemptPhase, JobPhase, Outcome
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import ClusterUnreachable
from scheduler.ports.leadership import Leadership
from tests.builders import a_job
from tests.gangs import an_order
from tests.worlds import Script, World, runs


def test_an_outage_of_the_cluster_touches_nothing_that_runs() -> None:
    world = World("r1: 8 8", script=Script(runs(7200)))
    world.submit(a_job("a"), a_job("b"))
    world.run(seconds(10))
    before = (world.attempts("a"), world.job("a"), world.attempts("b"))
    world.cluster.cut()
    world.run(Duration(HOUR))
    assert (world.attempts("a"), world.job("a"), world.attempts("b")) == before
    world.cluster.mend()
    world.run(Duration(2 * HOUR))
    assert (world.phase("a"), world.job("a").attempts) == (JobPhase.SUCCEEDED, 1)


def test_while_the_cluster_does_not_answer_jobs_wait_for_that_reason() -> None:
    world = World()
    world.ticks()
    world.cluster.cut()
    since = world.clock.now()
    world.ticks()
    world.submit(a_job("a"))
    world.run(seconds(60))
    answer = world.store.answer(world.job("a").id)
    assert answer is not None
    assert answer.blocked == ClusterUnreachable(since=since)
    world.cluster.mend()
    world.run(seconds(2))
    assert world.phase("a") is JobPhase.RUNNING


def test_a_gang_that_was_coming_up_gets_its_time_again_after_an_outage() -> None:
    script = Script(WorkerScript(make_after=seconds(500)))
    world = World(script=script, knobs=PolicyKnobs(start_timeout=seconds(600)))
    world.submit(a_job("a"))
    world.run(seconds(10))
    world.cluster.cut()
    world.run(seconds(1200))
    assert world.phase("a") is JobPhase.STARTING
    world.cluster.mend()
    world.run(seconds(5))
    assert (world.phase("a"), world.job("a").attempts) == (JobPhase.RUNNING, 1)


def test_a_cancel_during_an_outage_is_noted_and_carried_out_after_it() -> None:
    world = World()
    world.submit(a_job("a"))
    world.run(seconds(10))
    world.cluster.cut()
    world.ticks()
    world.cancel("a")
    world.run(seconds(300))
    assert world.phase("a") is JobPhase.STOPPING
    world.cluster.mend()
    world.run(seconds(5))
    assert world.phase("a") is JobPhase.CANCELLED


def a_gang_in_the_larger_rack() -> World:
    """`gang` runs on r1-n0 and r1-n1; the tighter r2, which `other` held, is free again."""
    world = World("r1: 8 8 8 8\nr2: 8 8", script=Script(runs(36_000)))
    world.submit(a_job("other", workers=2))
    world.ticks()
    world.submit(a_job("gang", workers=2))
    world.ticks()
    assert nodes_of(world, "gang") == ["r1-n0", "r1-n1"]
    world.cancel("other")
    world.run(seconds(60))
    return world


def nodes_of(world: World, name: str) -> list[str]:
    """Where the latest attempt of a job is."""
    placement = world.attempts(name)[-1].placement
    return [assignment.node for assignment in placement.assignments]


def test_a_gang_that_loses_a_node_keeps_the_others() -> None:
    world = a_gang_in_the_larger_rack()
    world.cluster.lose_node("r1-n0")
    world.run(seconds(120))
    assert world.attempts("gang")[0].outcome is Outcome.NODE_LOST
    assert (world.phase("gang"), len(world.attempts("gang"))) == (JobPhase.RUNNING, 2)
    assert nodes_of(world, "gang") == ["r1-n1", "r1-n2"]
    assert world.job("gang").former is None


def test_a_new_leader_knows_what_is_left_of_a_gang() -> None:
    world = a_gang_in_the_larger_rack()
    world.cluster.lose_node("r1-n0")
    world.run(seconds(5))
    assert world.job("gang").former is not None
    world.restart()
    world.run(seconds(120))
    assert nodes_of(world, "gang") == ["r1-n1", "r1-n2"]


def test_a_gang_whose_nodes_have_gone_to_others_is_placed_anew() -> None:
    world = a_gang_in_the_larger_rack()
    world.cluster.lose_node("r1-n0")
    world.tick()
    # While the gang backs off, everything that is left of its rack goes to another.
    world.submit(a_job("wide", workers=3))
    world.run(seconds(120))
    assert nodes_of(world, "wide") == ["r1-n1", "r1-n2", "r1-n3"]
    assert nodes_of(world, "gang") == ["r2-n0", "r2-n1"]


def test_a_gang_does_not_stay_where_it_would_be_spread_wider() -> None:
    world = World("r1: 8 8 8\nr2: 8 8", script=Script(runs(36_000)))
    world.submit(a_job("gang", workers=2))
    world.ticks()
    assert nodes_of(world, "gang") == ["r2-n0", "r2-n1"]
    world.cluster.lose_node("r2-n0")
    world.run(seconds(120))
    assert nodes_of(world, "gang") == ["r1-n0", "r1-n1"]


def test_a_node_that_is_unready_for_a_short_while_costs_nothing() -> None:
    world = World("r1: 8", knobs=PolicyKnobs(node_lost_after=seconds(300)))
    world.submit(a_job("a"))
    world.run(seconds(10))
    node = world.cluster.observe().nodes[0]
    world.cluster.set_node(replace(node, is_ready=False))
    world.run(seconds(200))
    world.cluster.set_node(node)
    world.run(seconds(300))
    assert (world.phase("a"), world.job("a").attempts) == (JobPhase.RUNNING, 1)


def test_a_node_that_stays_unready_has_lost_its_workers() -> None:
    world = World("r1: 8 8", knobs=PolicyKnobs(node_lost_after=seconds(300)))
    world.submit(a_job("a"))
    world.run(seconds(10))
    node = world.cluster.observe().nodes[0]
    world.cluster.set_node(replace(node, is_ready=False))
    world.run(seconds(299))
    assert world.phase("a") is JobPhase.RUNNING
    world.run(seconds(20))
    assert world.attempts("a")[0].outcome is Outcome.NODE_LOST
    assert world.attempts("a")[1].placement.assignments[0].node == "r1-n1"


def test_a_new_leader_adopts_what_runs() -> None:
    world = World("r1: 8 8", script=Script(runs(100)))
    world.submit(a_job("a", workers=2))
    world.run(seconds(10))
    world.restart()
    world.run(seconds(200))
    assert (world.phase("a"), world.job("a").attempts) == (JobPhase.SUCCEEDED, 1)
    assert len(world.cluster.orders) == 1


@pytest.mark.parametrize("ticks", range(8))
def test_a_server_that_dies_between_any_two_ticks_of_a_launch_loses_and_doubles_nothing(
    ticks: int,
) -> None:
    script = Script(WorkerScript(make_after=seconds(1), run_for=seconds(5)))
    world = World("r1: 8 8", script=script)
    world.submit(a_job("a", workers=2))
    for _ in range(ticks):
        world.clock.advance_to(max(world.tick(), world.clock.now()))
    world.restart()
    world.run(seconds(30))
    assert (world.phase("a"), world.job("a").attempts) == (JobPhase.SUCCEEDED, 1)
    assert len(world.cluster.orders) == 1


def test_a_gang_that_is_gone_when_a_new_leader_looks_is_lost() -> None:
    world = World()
    world.submit(a_job("a"))
    world.run(seconds(10))
    key = world.cluster.orders[0].attempt
    world.cluster.lose_worker(key, 0)
    world.cluster.forget(key)
    world.restart()
    world.run(seconds(30))
    assert world.attempts("a")[0].outcome is Outcome.WORKER_LOST


def test_a_gang_whose_making_was_never_asked_for_can_be_cancelled_after_a_restart() -> None:
    world = World()
    world.submit(a_job("a"))
    world.cluster.cut()
    world.cluster.mend()
    world.ticks(1)
    attempt = world.attempts("a")[0]
    assert attempt.phase is not AttemptPhase.ENDED
    world.cancel("a", at_once=True)
    world.restart()
    world.run(seconds(5))
    assert world.phase("a") is JobPhase.CANCELLED


def test_a_deposed_leader_writes_nothing() -> None:
    world = World()
    world.ticks()
    old = world.loop
    world.restart()
    world.ticks(1)
    world.submit(a_job("a"))
    old.tick()
    assert world.sink.named("deposed")
    assert world.phase("a") is JobPhase.PENDING


def test_a_follower_does_nothing() -> None:
    world = World()
    world.ticks()
    follower = ControlLoop(
        Outside(
            store=world.store,
            cluster=world.cluster,
            leadership=world.new_leadership("other"),
            clock=world.clock,
            sink=world.sink,
        )
    )
    world.submit(a_job("a"))
    assert follower.tick() > world.clock.now()
    assert world.phase("a") is JobPhase.PENDING


def test_workers_of_an_attempt_nobody_knows_are_stopped_only_while_they_wait() -> None:
    world = World("r1: 8 8")
    world.submit(a_job("later-than-both", workers=99))
    world.ticks()
    waiting = an_order(job="stranger", nodes={"r1-n0": 1})
    running = an_order(job="foreigner", nodes={"r1-n1": 1})
    world.cluster.prepare(waiting)
    world.cluster.prepare(running)
    world.cluster.release(running.attempt)
    world.run(seconds(59))
    assert len(world.cluster.observe().workers) == 2
    world.run(seconds(60))
    assert {report.attempt for report in world.cluster.observe().workers} == {running.attempt}
    assert world.sink.named("unknown_workers")


class FlickeringLeadership:
    """Leads, but its lease is always about to run out just after it was renewed."""

    def __init__(self, inner: Leadership) -> None:
        self._inner = inner
        self.asked = 0

    def lead(self) -> Epoch | None:
        self.asked = 0
        return self._inner.lead()

    def is_leader(self) -> bool:
        """True once a tick: the time that one request takes is all there is."""
        self.asked += 1
        return self.asked == 1

    def resign(self) -> None:
        self._inner.resign()


def test_a_lease_that_runs_out_in_every_tick_slows_the_loop_and_does_not_stop_it() -> None:
    world = World("r1: 8 8 8", script=Script(runs(5)))
    world.ticks()
    world.restart()
    world.store.leave_lease(world.store.lease().epoch)
    world.loop = ControlLoop(
        Outside(
            store=world.store,
            cluster=world.cluster,
            leadership=FlickeringLeadership(world.new_leadership("flickering")),
            clock=world.clock,
            sink=world.sink,
        )
    )
    world.submit(a_job("a"), a_job("b"), a_job("c"))
    world.run(seconds(30))
    assert {world.phase(name) for name in "abc"} == {JobPhase.SUCCEEDED}
