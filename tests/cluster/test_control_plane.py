"""The control plane of the tests does what a cluster does, so that tests on it mean something."""

from tests.cluster.api_objects import Object
from tests.cluster.cluster_fixtures import Place
from tests.cluster.nodes import GPU, a_node
from tests.polling import wait_until


def a_pod(name: str, *command: str, gpus: int = 0, is_gated: bool = False) -> Object:
    """A pod with one container."""
    spec: Object = {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "test",
                "command": list(command),
                "resources": {"limits": {GPU: str(gpus)}} if gpus else {},
            }
        ],
    }
    if is_gated:
        spec["schedulingGates"] = [{"name": "dally.internal/tests"}]
    return {"metadata": {"name": name}, "spec": spec}


def phase(place: Place, name: str) -> str:
    found = place.objects.find(f"{place.pods_path}/{name}")
    return "" if found is None else str(found["status"]["phase"])


def run(place: Place, name: str, *command: str) -> None:
    place.objects.create(place.pods_path, a_pod(name, *command))


def test_a_pod_is_bound_run_and_ends_with_its_exit_code(place: Place) -> None:
    place.add_node(a_node("n0"))
    run(place, "good", "sh", "-c", "exit 0")
    run(place, "bad", "sh", "-c", "exit 7")
    wait_until(lambda: phase(place, "good") == "Succeeded", "it succeeds")
    wait_until(lambda: phase(place, "bad") == "Failed", "it fails")
    pod = place.objects.get(f"{place.pods_path}/bad")
    assert pod["spec"]["nodeName"] == "n0"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


def test_a_pod_waits_for_gpus_that_no_node_has(place: Place) -> None:
    place.add_node(a_node("n0", gpus=4))
    place.objects.create(place.pods_path, a_pod("large", "true", gpus=8))

    def message() -> str:
        conditions = place.objects.get(f"{place.pods_path}/large")["status"].get("conditions", [])
        return next((str(each["message"]) for each in conditions if "message" in each), "")

    wait_until(lambda: "Insufficient nvidia.com/gpu" in message(), "it is told why")


def test_a_gated_pod_is_not_bound(place: Place) -> None:
    place.add_node(a_node("n0"))
    place.objects.create(place.pods_path, a_pod("gated", "true", is_gated=True))
    run(place, "other", "true")
    wait_until(lambda: phase(place, "other") == "Succeeded", "a pod without a gate runs")
    assert "nodeName" not in place.objects.get(f"{place.pods_path}/gated")["spec"]


def test_output_is_read_through_the_api_server(place: Place) -> None:
    place.add_node(a_node("n0"))
    run(place, "talks", "sh", "-c", "echo one; echo two")
    wait_until(lambda: phase(place, "talks") == "Succeeded", "it ends")
    assert place.text(f"{place.pods_path}/talks/log") == "one\ntwo\n"


def test_a_deleted_pod_gets_its_grace_and_then_is_killed(place: Place) -> None:
    place.add_node(a_node("n0"))
    run(place, "heeds", "sleep", "600")
    run(place, "stubborn", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done")
    log = f"{place.pods_path}/stubborn/log"
    wait_until(lambda: phase(place, "stubborn") == "Running", "it runs")
    wait_until(lambda: place.text(log) == "up\n", "it is deaf")
    wait_until(lambda: phase(place, "heeds") == "Running", "the other one runs")
    for name in ("heeds", "stubborn"):
        place.objects.delete(f"{place.pods_path}/{name}", grace_s=600)
    wait_until(lambda: phase(place, "heeds") == "", "the first is gone")
    assert phase(place, "stubborn") == "Running"
    place.objects.delete(f"{place.pods_path}/stubborn", grace_s=1)
    wait_until(lambda: phase(place, "stubborn") == "", "the second is gone")


def test_what_an_object_owns_goes_with_it(place: Place) -> None:
    maps = f"/api/v1/namespaces/{place.namespace}/configmaps"
    owner = place.objects.create(maps, {"metadata": {"name": "owner"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    pod = a_pod("owned", "true", is_gated=True)
    pod["metadata"]["ownerReferences"] = [reference]
    place.objects.create(place.pods_path, pod)
    place.objects.delete(f"{maps}/owner")
    wait_until(lambda: phase(place, "owned") == "", "it is collected")


def test_the_data_outlive_a_killed_api_server(place: Place) -> None:
    place.add_node(a_node("n0"))
    place.control_plane.restart_api_server()
    run(place, "after", "true")
    wait_until(lambda: phase(place, "after") == "Succeeded", "all goes on")
