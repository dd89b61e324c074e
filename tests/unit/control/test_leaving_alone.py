"""Nodes that the cluster leaves alone: stored, told, ended by time, by an admin, by no restart."""

from scheduler.control.stored import stored_snapshot
from scheduler.domain.copying import replace
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import MINUTE, Duration, after, seconds
from scheduler.domain.job import JobPhase
from scheduler.domain.placement import TooFewGpus
from scheduler.ports.job_store import EventQuery
from scheduler.ports.unit import ChangeExclusion, Unit
from tests.builders import a_job
from tests.worlds import World

N0 = NodeName("r1-n0")


def suspect(world: World) -> Exclusion:
    """The cluster tells that its only node has failed too often."""
    now = world.clock.now()
    exclusion = Exclusion(reason="SuspectNode", since=now, until=after(now, Duration(30 * MINUTE)))
    tell(world, exclusion)
    return exclusion


def tell(world: World, exclusion: Exclusion | None) -> None:
    (node,) = world.cluster.observe().nodes
    world.cluster.set_node(replace(node, exclusion=exclusion))


def test_a_node_that_is_left_alone_gets_nobody_until_the_time_is_over() -> None:
    world = World("r1: 8")
    suspect(world)
    world.submit(a_job("a", gpus=8))
    world.run(Duration(29 * MINUTE))
    assert world.phase("a") is JobPhase.PENDING
    answer = world.store.answer(world.job("a").id)
    assert answer is not None
    assert isinstance(answer.blocked, TooFewGpus)
    assert answer.blocked.nodes_by_reason == {"LeftAlone": 1}
    tell(world, None)
    world.run(Duration(2 * MINUTE))
    assert world.phase("a") is JobPhase.RUNNING
    assert world.store.exclusions() == {}


def test_it_is_told_once_with_the_reason_and_the_time() -> None:
    world = World("r1: 8")
    suspect(world)
    world.run(Duration(5 * MINUTE))
    told = [e for e in world.store.events(EventQuery()) if e.reason == "NodeLeftAlone"]
    assert [(event.node, "gangs have failed there first" in event.message) for event in told] == [
        (N0, True)
    ]


def test_a_restart_does_not_forget_it() -> None:
    world = World("r1: 8")
    exclusion = suspect(world)
    world.tick()
    world.restart()
    tell(world, None)  # The new server's cluster adapter has not seen those failures.
    world.submit(a_job("a", gpus=8))
    world.run(Duration(20 * MINUTE))
    assert world.phase("a") is JobPhase.PENDING
    (node,) = stored_snapshot(world.store, world.clock.now()).nodes
    assert node.exclusion == exclusion
    world.run(Duration(11 * MINUTE))
    assert world.phase("a") is JobPhase.RUNNING


def test_an_admin_ends_it_for_good_though_the_cluster_still_tells_it() -> None:
    world = World("r1: 8")
    exclusion = suspect(world)
    world.submit(a_job("a", gpus=8))
    world.run(seconds(10))
    ended = replace(exclusion, cleared_by="root", cleared_at=world.clock.now())
    world.store.write(Unit(changes=(ChangeExclusion(node=N0, exclusion=ended),)))
    world.ticks()
    assert world.phase("a") is JobPhase.RUNNING
    world.restart()
    world.run(Duration(1 * MINUTE))
    assert world.store.exclusions() == {N0: ended}
