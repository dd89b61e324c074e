"""Nodes that admins or taints keep workers from, and nodes that are to be emptied."""

import pytest

from scheduler.control.stored import stored_snapshot
from scheduler.domain.copying import replace
from scheduler.domain.cordon import Cordon
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import seconds
from scheduler.domain.job import CheckpointRequest, JobPhase, Outcome, StopCause
from scheduler.ports.unit import ChangeCordon, Unit
from tests.builders import a_job
from tests.worlds import World

N0, N1 = NodeName("r1-n0"), NodeName("r1-n1")


def say(world: World, node: NodeName, *, is_drain: bool = False, reason: str = "") -> None:
    cordon = Cordon(node=node, is_drain=is_drain, reason=reason, by="root", at=world.clock.now())
    world.store.write(Unit(changes=(ChangeCordon(node=node, cordon=cordon),)))


def open_again(world: World, node: NodeName) -> None:
    world.store.write(Unit(changes=(ChangeCordon(node=node, cordon=None),)))


def taint(world: World, node: NodeName, *taints: str) -> None:
    (found,) = (each for each in world.cluster.observe().nodes if each.name == node)
    world.cluster.set_node(replace(found, taints=taints))


def nodes(world: World, name: str, attempt: int = -1) -> set[str]:
    return {each.node for each in world.attempts(name)[attempt].placement.assignments}


def test_a_cordoned_node_gets_nobody_new_and_keeps_whom_it_has() -> None:
    world = World("r1: 8 8")
    world.submit(a_job("a", gpus=8))
    world.ticks()
    say(world, N0)
    say(world, N1)
    world.submit(a_job("b", gpus=8))
    world.run(seconds(60))
    assert (world.phase("a"), world.phase("b")) == (JobPhase.RUNNING, JobPhase.PENDING)
    (free,) = {N0, N1} - nodes(world, "a")
    open_again(world, NodeName(free))
    world.ticks()
    assert (world.phase("b"), nodes(world, "b")) == (JobPhase.RUNNING, {free})


def test_a_cordon_holds_after_a_restart() -> None:
    world = World("r1: 8")
    say(world, N0)
    world.restart()
    world.submit(a_job("a", gpus=8))
    world.ticks()
    assert world.phase("a") is JobPhase.PENDING
    (node,) = stored_snapshot(world.store, world.clock.now()).nodes
    assert node.is_cordoned


def test_a_drained_node_is_left_gracefully_and_the_reason_is_told() -> None:
    world = World("r1: 8 8")
    grace = CheckpointRequest(grace=seconds(30), is_declared=True)
    world.submit(a_job("a", gpus=8, checkpoint=grace))
    world.ticks()
    (node,) = nodes(world, "a")
    say(world, NodeName(node), is_drain=True, reason="new firmware")
    world.tick()
    job, attempt = world.job("a"), world.attempts("a")[0]
    assert (job.phase, job.reason) == (JobPhase.STOPPING, StopCause.DRAIN)
    assert job.message == f"node {node} is drained by root: new firmware"
    assert attempt.kill_at == world.clock.now() + seconds(30)
    world.run(seconds(40))
    first, second = world.attempts("a")
    assert (first.outcome, world.phase("a")) == (Outcome.DRAINED, JobPhase.RUNNING)
    assert "new firmware" in first.message
    assert nodes(world, "a") != {node}
    assert (world.job("a").restarts_user, world.job("a").restarts_infra) == (0, 0)
    assert second.outcome is None


def test_the_whole_gang_leaves_with_one_of_its_nodes() -> None:
    world = World("r1: 8 8")
    world.submit(a_job("a", workers=2, gpus=8))
    world.ticks()
    say(world, N1, is_drain=True)
    world.run(seconds(200))
    assert world.phase("a") is JobPhase.PENDING
    assert world.attempts("a")[0].outcome is Outcome.DRAINED
    open_again(world, N1)
    world.ticks()
    assert world.phase("a") is JobPhase.RUNNING


def test_a_gang_on_other_nodes_stays() -> None:
    world = World("r1: 8 8")
    world.submit(a_job("a", gpus=8))
    world.ticks()
    (other,) = {N0, N1} - nodes(world, "a")
    say(world, NodeName(other), is_drain=True)
    world.run(seconds(200))
    assert (world.phase("a"), len(world.attempts("a"))) == (JobPhase.RUNNING, 1)


@pytest.mark.parametrize(
    ("effect", "stays"), [("NoExecute", False), ("NoSchedule", True)], ids=["evicts", "keeps"]
)
def test_a_taint_empties_a_node_if_it_says_so(effect: str, *, stays: bool) -> None:
    world = World("r1: 8 8")
    world.submit(a_job("a", gpus=8))
    world.ticks()
    (node,) = nodes(world, "a")
    taint(world, NodeName(node), f"repair=soon:{effect}")
    world.run(seconds(200))
    assert (nodes(world, "a") == {node}) is stays
    if not stays:
        message = world.attempts("a")[0].message
        assert f"node {node} has the taint repair=soon:NoExecute" in message


def test_a_gang_that_is_cancelled_while_it_leaves_is_cancelled() -> None:
    world = World("r1: 8 8")
    world.submit(a_job("a", gpus=8))
    world.ticks()
    (node,) = nodes(world, "a")
    say(world, NodeName(node), is_drain=True)
    world.tick()
    world.cancel("a")
    world.run(seconds(200))
    assert world.phase("a") is JobPhase.CANCELLED
