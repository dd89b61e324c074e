"""What pods and nodes do on their own (K12 to K17, K22, K23, K25, K28): told for what it is, and
GPUs are held until nothing can use them any more."""

import pytest

from scheduler.domain.ids import Rank
from scheduler.domain.instants import elapsed, seconds
from scheduler.domain.job import Outcome
from scheduler.ports.cluster import WorkerState
from tests.cluster.fault_proxy import Fault, status
from tests.cluster.nodes import NODES, a_node, set_gpus, set_ready, timestamp
from tests.contract.cluster_worlds import RUNS, RUNS_AND_SAYS_SO, exits
from tests.kubernetes.faulty_world import KEY, FaultyWorld
from tests.polling import wait_until

MADE, RUNNING, ENDED, GONE = (
    WorkerState.MADE,
    WorkerState.RUNNING,
    WorkerState.ENDED,
    WorkerState.GONE,
)


def test_k12_a_pod_of_the_same_name_is_not_ours_come_back(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    pod = world.pod()
    assert pod is not None
    world.place.kubelet.freeze()
    world.place.objects.delete(world.pod_path(), grace_s=0)
    again = {"metadata": {k: pod["metadata"][k] for k in ("name", "labels")}, "spec": pod["spec"]}
    world.place.objects.create(world.place.pods_path, again)
    world.wait_for(KEY, GONE)


def test_k13_a_pod_that_does_not_leave_keeps_its_gpus(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    world.place.kubelet.freeze()
    world.stop_now()

    def is_asked() -> bool:
        pod = world.pod()
        return pod is not None and "deletionTimestamp" in pod["metadata"]

    wait_until(is_asked, "it is told to end")
    world.inner.settle()
    assert world.states() == [RUNNING]
    world.place.objects.delete(world.pod_path(), grace_s=0)
    world.wait_for(KEY, GONE)


def test_k14_an_eviction_is_not_the_users_failure(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": world.pod_path().rpartition("/")[2]},
    }
    world.place.objects.create(f"{world.pod_path()}/eviction", eviction)
    world.wait_for(KEY, ENDED)
    report = world.reports()[0]
    assert report.outcome is Outcome.WORKER_LOST
    assert report.message.startswith("EvictionByEvictionAPI")


def test_k15_an_end_that_flips_afterwards_stays_as_it_was(world: FaultyWorld) -> None:
    world.run(exits(0))
    world.wait_for(KEY, ENDED)
    before = world.reports()
    flipped = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "containerStatuses": None}
    world.place.objects.patch(f"{world.pod_path()}/status", {"status": flipped})
    world.make(RUNS, job="later")
    assert world.reports() == before


def test_k16_a_kubelet_that_refuses_a_pod_is_left_alone_for_a_while(world: FaultyWorld) -> None:
    world.place.kubelet.refuse("n0", "UnexpectedAdmissionError")
    world.run(RUNS)
    world.wait_for(KEY, ENDED)
    report = world.reports()[0]
    assert report.outcome is Outcome.ADMISSION_REJECTED
    assert "UnexpectedAdmissionError" in report.message
    exclusion = world.node("n0").exclusion
    assert exclusion is not None
    assert exclusion.reason == "AdmissionRejected"
    assert elapsed(exclusion.since, exclusion.until) == seconds(60)
    assert world.node("n1").exclusion is None


def test_k17_gpus_that_flap_draw_nobody_and_drive_nobody_away(world: FaultyWorld) -> None:
    set_gpus(world.place.objects, "n0", 0)
    wait_until(
        lambda: world.node().taints == ("dally.internal/gpus-missing=8:NoSchedule",), "it is told"
    )
    assert world.node().gpus == 8
    set_gpus(world.place.objects, "n0", 8)
    wait_until(lambda: world.node().taints == (), "they are back")
    set_gpus(world.place.objects, "n0", 3)
    wait_until(lambda: world.node().gpus == 3, "after a while it is believed")
    assert world.node().taints == ()


def test_a_node_that_was_not_ready_is_used_again_once_it_has_been_well(world: FaultyWorld) -> None:
    set_ready(world.place.objects, "n0", is_ready=False, reason="KubeletStopped")
    wait_until(lambda: world.node().unready_reason == "KubeletStopped", "it is told")
    set_ready(world.place.objects, "n0", is_ready=True)
    wait_until(lambda: world.node().unready_reason == "it has just come back", "not at once")
    wait_until(lambda: world.node().is_ready, "it is used again")


def test_a_cordoned_node_is_told(world: FaultyWorld) -> None:
    world.place.objects.patch(f"{NODES}/n0", {"spec": {"unschedulable": True}})
    wait_until(lambda: world.node().is_cordoned, "it is cordoned")
    assert world.node().taints == ()


def test_k22_a_machine_replaced_under_its_name_waits_for_the_pods_of_the_old_one(
    world: FaultyWorld,
) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    world.place.kubelet.freeze()
    world.place.objects.delete(f"{NODES}/n0")
    pod = world.pod()
    assert pod is not None
    created = pod["metadata"]["creationTimestamp"]
    wait_until(lambda: timestamp() > created, "a second later")
    world.place.add_node(a_node("n0", gpus=4, labels={"rack": "r1"}))
    wait_until(lambda: "replaced" in world.node().unready_reason, "it is not used yet")
    world.place.objects.delete(world.pod_path(), grace_s=0)
    wait_until(lambda: world.node().is_ready, "the old pods are gone")
    assert world.node().gpus == 4


def test_foreign_pods_take_their_share_of_a_node(world: FaultyWorld) -> None:
    spec = {
        "nodeName": "n0",
        "containers": [
            {
                "name": "main",
                "image": "test",
                "command": ["sleep", "600"],
                "resources": {"limits": {"nvidia.com/gpu": "3", "memory": "1Gi", "cpu": "2"}},
            }
        ],
    }
    world.place.objects.create(world.place.pods_path, {"metadata": {"name": "x"}, "spec": spec})
    wait_until(lambda: world.node().gpus_foreign == 3, "it is counted")
    node = world.node()
    assert node.gpus == 5
    assert node.resources.cpu_milli == 62_000
    assert node.workers_max == 109
    world.place.objects.delete(f"{world.place.pods_path}/x", grace_s=0)
    wait_until(lambda: world.node().gpus_foreign == 0, "it is gone")


def test_k23_two_installs_do_not_touch_each_others_gangs(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    with world.inner.a_cluster(instance="other") as other:
        wait_until(lambda: other.is_well, "the other one sees everything")
        assert other.observe().workers == ()
        other.stop(KEY, kill_at=world.inner.in_time(seconds(0)))
        other.forget(KEY)
        wait_until(lambda: other.is_idle, "it has done what it can")
        node = next(node for node in other.observe().nodes if node.name == "n0")
        assert node.gpus_foreign == 1
    assert world.states() == [RUNNING]


def test_k25_finished_pods_that_somebody_removes_stay_finished(world: FaultyWorld) -> None:
    world.run(exits(0), exits(3))
    world.wait_for(KEY, ENDED, ENDED)
    before = world.reports()
    world.place.objects.delete(world.place.pods_path)
    wait_until(lambda: world.place.pods() == [], "they are gone")
    world.inner.settle()
    assert world.reports() == before
    assert world.proxy.counts["POST pods"] == 2


def test_k28_a_log_that_nobody_reads_any_more_is_not_followed(world: FaultyWorld) -> None:
    world.run(*[RUNS_AND_SAYS_SO] * 4)
    world.wait_for(KEY, *[RUNNING] * 4)

    def text(rank: int) -> bytes:
        return world.cluster.read(KEY, Rank(rank), offset=0, bytes_max=100).data

    wait_until(lambda: all(text(rank) == b"up\n" for rank in range(4)), "all are read")
    assert world.cluster.log_followers == 4
    wait_until(lambda: world.cluster.log_followers == 0, "nobody is followed")
    assert text(0) == b"up\n"


@pytest.mark.parametrize("code", [409, 500])
def test_a_deletion_that_fails_is_tried_again(world: FaultyWorld, code: int) -> None:
    world.run(RUNS, RUNS)
    world.wait_for(KEY, RUNNING, RUNNING)
    world.proxy.add(Fault(method="DELETE", times=2, answer=status(code, "InternalError", "no")))
    world.stop_now()
    world.wait_for(KEY, ENDED, ENDED)
