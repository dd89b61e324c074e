"""What workers say as they end is kept, though their containers are gone at once."""

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.ids import Rank
from scheduler.domain.instants import seconds
from scheduler.ports.cluster import WorkerState
from tests.contract.cluster_worlds import Deed
from tests.kubernetes.faulty_world import KEY, FaultyWorld
from tests.polling import wait_until

SAYS_GOODBYE = Deed(
    WorkerScript(log=b""),
    "trap 'echo saved; exit 143' TERM; echo up; while :; do sleep 0.05; done",
)


def test_the_last_words_of_a_stopped_worker_are_kept_though_its_container_is_removed(
    world: FaultyWorld,
) -> None:
    world.place.kubelet.removes_containers = True
    world.run(SAYS_GOODBYE)
    cluster = world.cluster
    wait_until(
        lambda: cluster.read(KEY, Rank(0), offset=0, bytes_max=99).data == b"up\n", "it is up"
    )
    cluster.stop(KEY, kill_at=world.inner.in_time(seconds(30)))
    world.wait_for(KEY, WorkerState.ENDED)
    assert cluster_said(world).endswith(b"saved\n")


def test_a_kubelet_that_has_nothing_any_more_is_not_taken_for_the_worker(
    world: FaultyWorld,
) -> None:
    world.place.kubelet.removes_containers = True
    world.run(Deed(WorkerScript(log=b""), "echo up"))
    world.wait_for(KEY, WorkerState.ENDED)
    assert cluster_said(world) == b""


def cluster_said(world: FaultyWorld) -> bytes:
    """All that is known of the log."""
    return world.cluster.read(KEY, Rank(0), offset=0, bytes_max=999).data
