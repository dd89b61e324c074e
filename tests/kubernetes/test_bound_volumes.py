"""Jobs go where the volumes that they mount can be reached."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from scheduler.domain.codec import Json
from tests.kubernetes.served import ServedCluster
from tests.polling import wait_until

SIZE: Json = {"storage": "1Gi"}
VOLUMES = "/api/v1/persistentvolumes"
HOST = "kubernetes.io/hostname"

MakeClaim = Callable[[str, str], dict[str, Json]]


@pytest.fixture
def claim_on(served: ServedCluster) -> Iterator[MakeClaim]:
    """Makes a claim that is bound to a volume of one node, and says how a job mounts it."""
    objects, namespace = served.place.objects, served.place.namespace
    with ExitStack() as at_end:

        def make(name: str, node: str) -> dict[str, Json]:
            volume = f"{namespace}-{name}"
            term = {"key": HOST, "operator": "In", "values": [node]}
            spec = {
                "capacity": SIZE,
                "accessModes": ["ReadWriteOnce"],
                "local": {"path": "/mnt/disk"},
                "claimRef": {"namespace": namespace, "name": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            }
            objects.create(VOLUMES, {"metadata": {"name": volume}, "spec": spec})
            at_end.callback(objects.delete, f"{VOLUMES}/{volume}")
            path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
            claim = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "volumeName": volume,
                "resources": {"requests": SIZE},
            }
            objects.create(path, {"metadata": {"name": name}, "spec": claim})
            wait_until(
                lambda: objects.get(f"{VOLUMES}/{volume}")["status"]["phase"] == "Bound",
                "the claim is bound",
            )
            return {"name": name, "claim": name, "mountPath": f"/{name}"}

        yield make


def test_a_job_goes_to_the_node_of_its_volume_and_waits_for_it(
    served: ServedCluster, claim_on: MakeClaim
) -> None:
    served.add_nodes(2)
    data = claim_on("data", "n001")
    served.server.start()
    served.submit("first", "sh", "-c", "exec sleep 600", gpusPerWorker=8, volumes=[data])
    served.wait_for("first", "Running")
    assert set(served.nodes_of("first")) == {"n001"}
    served.submit("second", "true", gpusPerWorker=8, volumes=[data])
    why = "/api/v1/projects/default/jobs/second/why"
    wait_until(
        lambda: served.server.request("GET", why).json().get("counts", {}).get("BoundVolume") == 1,
        "it waits for the node of its volume though the other one is free",
    )
    answer = served.server.request("GET", why).json()
    assert "1 that can not mount a bound volume of the job" in answer["summary"]
    served.server.cancel("first", now=True)
    served.wait_for("second", "Succeeded")


def test_a_claim_that_is_bound_while_the_server_runs_counts_from_then_on(
    served: ServedCluster, claim_on: MakeClaim
) -> None:
    served.add_nodes(2)
    served.server.start()
    data = claim_on("data", "n001")
    wait_until(
        lambda: _refusal(served, data) is not None,
        "a gang of two nodes can not mount it",
    )
    refusal = _refusal(served, data)
    assert refusal is not None
    assert "can not mount a bound volume of the job" in refusal


def _refusal(served: ServedCluster, volume: dict[str, Json]) -> str | None:
    """Why a gang that needs both nodes is refused; None if it is taken."""
    answer = served.server.submit(
        "wide", ("true",), image="localhost/test:1", workers=2, gpusPerWorker=8, volumes=[volume]
    )
    if answer.status_code == 201:
        served.server.cancel("wide", now=True)
        served.wait_for("wide", "Cancelled", "Succeeded", "Failed")
        served.server.request("DELETE", "/api/v1/projects/default/jobs/wide")
        return None
    return answer.text
