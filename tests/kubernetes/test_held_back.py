"""What keeps a released gang from running (K31, K32), and pods that others have changed (K33),
through the front door: said in `why`, unwound where it must be, else left alone.
"""

from typing import Any

import pytest

from scheduler.adapters.kubernetes import names
from tests.cluster.cluster_fixtures import Place
from tests.kubernetes.changing import MARK, changed_pods
from tests.kubernetes.served import ServedCluster
from tests.polling import wait_until

THEIR_GATE = "example.com/quota"
ADDS_A_GATE = (
    "Object{spec: Object.spec{schedulingGates: [Object.spec.schedulingGates{"
    f'name: "{THEIR_GATE}"}}]}}}}'
)
ADDS_FIELDS = (
    "Object{spec: Object.spec{"
    "terminationGracePeriodSeconds: 77, "
    'containers: [Object.spec.containers{name: "main", env: ['
    'Object.spec.containers.env{name: "MESH", value: "on"}]}, '
    'Object.spec.containers{name: "mesh", image: "localhost/mesh:1"}]}}'
)
PATIENCE = {"DALLYD_KUBERNETES_UNSCHEDULABLE_AFTER": "3s"}


def why(served: ServedCluster, name: str) -> Any:
    """The answer for a job."""
    return served.server.request("GET", f"/api/v1/projects/default/jobs/{name}/why").json()


def wait_for_why(served: ServedCluster, name: str, text: str) -> Any:
    """The first answer for a job that has the text."""
    answers: list[Any] = []

    def is_said() -> bool:
        answers.append(why(served, name))
        return text in answers[-1]["summary"]

    wait_until(is_said, f"why says {text}")
    return answers[-1]


def keep_ours_away(place: Place, node: str) -> None:
    """A pod of somebody else on the node bears none of ours beside it: kube-scheduler knows that
    and we do not."""
    near_ours = {
        "labelSelector": {"matchExpressions": [{"key": names.JOB_UID, "operator": "Exists"}]},
        "topologyKey": "kubernetes.io/hostname",
    }
    away = {"requiredDuringSchedulingIgnoredDuringExecution": [near_ours]}
    container = {"name": "main", "image": "test", "command": ["sleep", "600"]}
    spec = {
        "nodeName": node,
        "containers": [container],
        "affinity": {"podAntiAffinity": away},
    }
    place.objects.create(place.pods_path, {"metadata": {"name": "loner"}, "spec": spec})


@pytest.mark.parametrize("served", [PATIENCE], indirect=True)
def test_k31_what_kube_scheduler_says_stands_in_why_and_the_node_is_left_alone(
    served: ServedCluster,
) -> None:
    served.add_nodes(2)
    keep_ours_away(served.place, "n000")
    served.server.start()
    knobs = {"knobs": {"restartBackoff": "1h", "restartBackoffMax": "1h"}}
    assert served.server.request("PATCH", "/api/v1/policy", body=knobs).status_code == 200
    served.submit("train", "sh", "-c", "exec sleep 600", workers=2, gpusPerWorker=4)
    said = "kube-scheduler: 0/2 nodes are available"
    first = wait_for_why(served, "train", said)
    assert first["phase"] == "Starting"
    wait_until(lambda: why(served, "train")["verdict"] == "Backoff", "the gang is unwound")
    again = why(served, "train")["summary"]
    assert said in again
    assert "anti-affinity" in again
    status = served.status("train")
    assert (status["restartsAfterLoss"], status["restartsAfterFailure"]) == (1, 0)
    wait_until(lambda: served.pods_of("train") == [], "its pods are gone")
    assert served.gpus_held() == 0

    nodes = served.server.request("GET", "/api/v1/nodes").json()["items"]
    left_alone = {node["name"]: node["leftAloneReason"] for node in nodes}
    assert left_alone == {"n000": "AdmissionRejected", "n001": ""}
    served.submit("next", "sh", "-c", "exec sleep 600", workers=2, gpusPerWorker=4)
    served.wait_for("next", "Running")
    assert set(served.nodes_of("next")) == {"n001"}


def test_k32_a_gate_of_another_controller_is_named_in_why_and_nothing_is_deleted(
    served: ServedCluster,
) -> None:
    served.add_nodes(1)
    with changed_pods(served.place, ADDS_A_GATE):
        served.server.start()
        served.submit("train", "sh", "-c", "exec sleep 600", workers=2)
        answer = wait_for_why(served, "train", f"holds it back by the gate {THEIR_GATE}")
    assert answer["phase"] == "Starting"
    before = served.pods_of("train")
    gates = [[gate["name"] for gate in pod["spec"]["schedulingGates"]] for pod in before]
    assert gates == [[THEIR_GATE], [THEIR_GATE]]
    for pod in before:
        path = f"{served.place.pods_path}/{pod['metadata']['name']}"
        served.place.objects.patch(path, {"spec": {"schedulingGates": []}})
    served.wait_for("train", "Running")
    assert THEIR_GATE not in why(served, "train")["summary"]
    after = served.pods_of("train")
    assert [pod["metadata"]["uid"] for pod in after] == [pod["metadata"]["uid"] for pod in before]
    assert served.status("train")["attempts"] == 1


@pytest.mark.parametrize(
    ("script", "phase", "reason"),
    [
        pytest.param("exit 0", "Succeeded", "Completed", id="it completes"),
        pytest.param("exit 3", "Failed", "UserError", id="it fails"),
    ],
)
def test_k33_the_main_container_of_a_changed_pod_decides_and_a_new_server_knows_it_again(
    served: ServedCluster, script: str, phase: str, reason: str
) -> None:
    served.add_nodes(1)
    go = served.server.folder / "go"
    with changed_pods(served.place, ADDS_FIELDS):
        served.server.start()
        waits = f"until [ -e {go} ]; do sleep 0.05; done; {script}"
        served.submit("train", "sh", "-c", waits, workers=2)
        served.wait_for("train", "Running")
    before = served.pods_of("train")
    for pod in before:
        assert MARK in pod["metadata"]["labels"]
        assert {each["name"] for each in pod["spec"]["containers"]} == {"main", "mesh"}
        assert pod["spec"]["terminationGracePeriodSeconds"] == 77
        assert pod["metadata"]["annotations"][names.SPEC_HASH]
    served.server.kill()
    served.server.start()
    served.wait_for("train", "Running")
    kept = served.pods_of("train")
    assert [pod["metadata"]["uid"] for pod in kept] == [pod["metadata"]["uid"] for pod in before]
    go.touch()
    served.wait_for("train", phase)
    status = served.status("train")
    assert (status["reason"], status["attempts"]) == (reason, 1)
    wait_until(lambda: served.place.pods() == [], "its pods are gone")
