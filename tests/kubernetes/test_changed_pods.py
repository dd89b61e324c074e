"""A pod that the API server changes on its way in, as a webhook does (K33): it stays ours."""

from scheduler.ports.cluster import WorkerState
from tests.cluster.fault_proxy import Fault
from tests.contract.cluster_worlds import exits
from tests.kubernetes.changing import ADDS_A_SIDECAR, MARK, changed_pods
from tests.kubernetes.faulty_world import KEY, FaultyWorld


def test_k33_a_pod_with_a_sidecar_is_adopted_and_ends_as_its_main_container(
    world: FaultyWorld,
) -> None:
    with changed_pods(world.place, ADDS_A_SIDECAR):
        lost = world.proxy.add(Fault(method="POST", path=r"/pods$", is_dropped=True, is_done=True))
        world.run(exits(3))
        world.wait_for(KEY, WorkerState.ENDED)
        pod = world.pod()
    assert pod is not None
    assert {each["name"] for each in pod["spec"]["containers"]} == {"main", "mesh"}
    assert MARK in pod["metadata"]["labels"]
    assert lost.hits == 1
    assert [report.exit_code for report in world.reports()] == [3]
    assert world.inner.runs_of("job-1") == 1
