"""Through the front door: a job over HTTP becomes pods on a real API server, and ends."""

import pytest

from scheduler.adapters.kubernetes import names
from tests.kubernetes.served import ServedCluster
from tests.polling import wait_until


@pytest.mark.parametrize(
    ("workers", "nodes"),
    [
        pytest.param(1, 1, id="1 worker"),
        pytest.param(8, 2, id="8 workers"),
        pytest.param(512, 64, id="512 workers"),
    ],
)
def test_a_job_becomes_pods_runs_and_gives_its_gpus_back(
    served: ServedCluster, workers: int, nodes: int
) -> None:
    served.add_nodes(nodes)
    served.server.start()
    served.submit("train", "true", workers=workers)
    served.wait_for("train", "Succeeded", deadline_s=120)
    assert served.status("train")["reason"] == "Completed"
    wait_until(lambda: served.gpus_held() == 0, "no GPU is held")
    wait_until(lambda: served.place.pods() == [], "its pods are gone", deadline_s=120)


def test_every_pod_is_pinned_and_runs_where_it_was_placed(served: ServedCluster) -> None:
    served.add_nodes(4)
    served.server.start()
    served.submit("train", "sh", "-c", "exec sleep 600", workers=3, gpusPerWorker=8)
    served.wait_for("train", "Running")
    pods = served.pods_of("train")
    assert [pod["metadata"]["labels"][names.RANK] for pod in pods] == ["0", "1", "2"]
    for pod in pods:
        terms = pod["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        assert terms[0]["matchFields"][0]["values"] == [pod["spec"]["nodeName"]]
        assert "schedulingGates" not in pod["spec"]
    assert set(served.nodes_of("train").values()) == {1}
    served.server.cancel("train", now=True)
    served.wait_for("train", "Cancelled")
    wait_until(lambda: served.place.pods() == [], "its pods are gone")


def test_output_is_shown_while_it_runs_and_after_the_pods_are_gone(served: ServedCluster) -> None:
    served.add_nodes(1)
    served.server.start()
    script = "echo rank $DALLY_RANK; while [ ! -e /proc/self/none ]; do sleep 0.05; done"
    served.submit("talks", "sh", "-c", script)
    served.wait_for("talks", "Running")
    path = "/api/v1/projects/default/jobs/talks/logs"
    wait_until(lambda: served.server.request("GET", path).text == "rank 0\n", "it is shown")
    served.server.cancel("talks", now=True)
    served.wait_for("talks", "Cancelled")
    wait_until(lambda: served.place.pods() == [], "its pods are gone")
    assert served.server.request("GET", path).text == "rank 0\n"


def test_step_times_are_read_off_the_log_of_a_pod(served: ServedCluster) -> None:
    served.add_nodes(1)
    served.server.start()
    script = "echo iter_time=0.25; echo iter_time=0.35; exec sleep 600"
    communication = {"stepPattern": "iter_time=([0-9.]+)", "computeSeconds": 0.2}
    served.submit("reads", "sh", "-c", script, communication=communication)
    served.wait_for("reads", "Running")
    path = "/api/v1/projects/default/jobs/reads/sensitivity"

    def measured() -> list[float]:
        answer = served.server.request("GET", path).json()
        return [
            tier["measuredSeconds"]
            for model in answer["items"]
            for tier in model["tiers"]
            if "measuredSeconds" in tier
        ]

    wait_until(lambda: measured() == [pytest.approx(0.3)], "it has been learned")
    served.server.cancel("reads", now=True)
    served.wait_for("reads", "Cancelled")


def test_a_failure_is_told_with_its_exit_code_and_stops_the_gang(served: ServedCluster) -> None:
    served.add_nodes(1)
    served.server.start()
    served.submit("fails", "sh", "-c", "[ $DALLY_RANK = 1 ] && exit 3; exec sleep 600", workers=2)
    served.wait_for("fails", "Failed")
    status = served.status("fails")
    assert status["reason"] == "UserError"
    wait_until(lambda: served.place.pods() == [], "its pods are gone")


def test_a_server_that_is_killed_finds_its_gang_again(served: ServedCluster) -> None:
    served.add_nodes(1)
    served.server.start()
    served.submit("long", "sh", "-c", "exec sleep 600", workers=2)
    served.wait_for("long", "Running")
    before = [pod["metadata"]["uid"] for pod in served.pods_of("long")]
    served.server.kill()
    served.server.start()
    served.wait_for("long", "Running")
    assert [pod["metadata"]["uid"] for pod in served.pods_of("long")] == before
    served.server.cancel("long", now=True)
    served.wait_for("long", "Cancelled")
    assert served.status("long")["attempts"] == 1
