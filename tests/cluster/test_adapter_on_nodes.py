"""What only a real node can do to a gang, and what the Kubernetes adapter makes of it."""

from dataclasses import replace

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.ids import Rank
from scheduler.domain.instants import seconds
from scheduler.domain.job import Outcome
from scheduler.domain.resources import Resources
from scheduler.ports.cluster import WorkerState
from tests.cluster.nodes_world import NodesWorld
from tests.cluster.whole_cluster import WholeCluster
from tests.contract.cluster_worlds import RUNS, RUNS_AND_SAYS_SO, Deed
from tests.contract.test_cluster import KEY, run, states, wait_for_end, wait_until_up

pytestmark = pytest.mark.cluster

SAYS_THAT_IT_IS_TOLD = Deed(
    WorkerScript(), "trap 'echo told' TERM; echo up; while :; do sleep 0.01; done"
)
"""And goes on."""


def test_a_kubelet_keeps_to_the_grace_that_it_was_told_first(world: NodesWorld) -> None:
    # When this fails, kubelets have learned it: then the entry in NOT_ON_NODES has to go.
    run(world, [SAYS_THAT_IT_IS_TOLD])
    wait_until_up(world)
    first = world.in_time(seconds(8))
    world.cluster.stop(KEY, kill_at=first)
    # Before that a kubelet may see the second grace alone.
    world.wait_until(lambda: is_told(world), "the kubelet has told it")
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(0)))
    report = wait_for_end(world)
    assert report.exit_code == 137
    assert report.ended_at is not None
    assert report.ended_at >= first - world.resolution


def test_a_container_that_is_killed_from_outside_has_ended(world: NodesWorld) -> None:
    run(world, [RUNS_AND_SAYS_SO])
    wait_until_up(world)
    world.kill_first_process(world.whole_nodes[0])
    report = wait_for_end(world)
    assert (report.state, report.exit_code) == (WorkerState.ENDED, 137)
    assert report.outcome is Outcome.KILLED


def test_a_program_that_the_image_does_not_have_could_not_be_started(world: NodesWorld) -> None:
    order = world.order([RUNS])
    role = replace(order.spec.roles[0], command=("no-such-program",))
    order = replace(order, spec=replace(order.spec, roles=(role,)))
    world.cluster.prepare(order)
    world.cluster.release(KEY)
    report = wait_for_end(world)
    assert (report.outcome, report.started_at) == (Outcome.LAUNCH_FAILED, None)
    assert "no-such-program" in report.message


def test_a_worker_that_asks_for_more_memory_than_it_may_have_is_told_so(world: NodesWorld) -> None:
    greedy = Deed(WorkerScript(), "exec python3 -c 'bytearray(1 << 30)'")
    order = world.order([greedy])
    memory = Resources(memory_bytes=64 << 20)
    role = replace(order.spec.roles[0], resources=memory)
    held = replace(order.reservations[0], resources=memory)
    spec = replace(order.spec, roles=(role,))
    world.cluster.prepare(replace(order, spec=spec, reservations=(held,)))
    world.cluster.release(KEY)
    assert wait_for_end(world).outcome is Outcome.OUT_OF_MEMORY


def test_an_end_while_the_kubelet_is_away_is_told_when_it_is_back(
    world: NodesWorld, whole_cluster: WholeCluster
) -> None:
    node = world.whole_nodes[0]
    run(world, [RUNS_AND_SAYS_SO])
    wait_until_up(world)
    node.kill_kubelet()
    world.wait_until(lambda: not is_ready(world, node.name), "the node is missed")
    world.kill_first_process(node)
    assert states(world) == [WorkerState.RUNNING], "nobody can know yet"
    node.start_kubelet(whole_cluster.kubeconfig)
    assert wait_for_end(world).exit_code == 137
    world.wait_until(lambda: is_ready(world, node.name), "the node is back")


def test_a_machine_that_goes_down_and_comes_back_has_lost_its_worker(
    world: NodesWorld, whole_cluster: WholeCluster
) -> None:
    node = world.whole_nodes[0]
    run(world, [RUNS_AND_SAYS_SO])
    wait_until_up(world)
    node.lose()
    whole_cluster.bring_back(node)
    report = wait_for_end(world)
    assert (report.outcome, report.exit_code) == (Outcome.WORKER_LOST, None)


def is_told(world: NodesWorld) -> bool:
    """Whether the worker has had the stop signal, or has ended meanwhile."""
    said = world.cluster.read(KEY, Rank(0), offset=0, bytes_max=100).data
    return b"told" in said or states(world) == [WorkerState.ENDED]


def is_ready(world: NodesWorld, name: str) -> bool:
    """Whether the adapter says so of a node."""
    return any(node.is_ready for node in world.cluster.observe().nodes if node.name == name)
