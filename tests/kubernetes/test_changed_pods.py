"""A pod that the API server changes on its way in, as a webhook does (K33): it stays ours."""

from collections.abc import Iterator

import pytest

from scheduler.ports.cluster import WorkerState
from tests.cluster.api_objects import Object
from tests.cluster.fault_proxy import Fault
from tests.contract.cluster_worlds import exits
from tests.kubernetes.faulty_world import KEY, FaultyWorld
from tests.polling import wait_until

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
ADDS_A_SIDECAR = (
    'Object{metadata: Object.metadata{labels: Object.metadata.labels{mesh: "on"}}, '
    "spec: Object.spec{containers: [Object.spec.containers{"
    'name: "mesh", image: "localhost/mesh:1"}]}}'
)


@pytest.fixture
def meshed(world: FaultyWorld) -> Iterator[FaultyWorld]:
    """Every pod of the namespace gets a sidecar and a label."""
    objects, name = world.place.objects, world.place.namespace
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    policy: Object = {
        "metadata": {"name": name},
        "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [pods], "namespaceSelector": here},
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": ADDS_A_SIDECAR},
                }
            ],
        },
    }
    paths = [f"{REGISTRATION}/mutatingadmission{kind}" for kind in ("policies", "policybindings")]
    objects.create(paths[0], policy)
    objects.create(paths[1], {"metadata": {"name": name}, "spec": {"policyName": name}})
    container = {"name": "main", "image": "test"}
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}

    def is_in_force() -> bool:
        made = objects.create(world.place.pods_path, probe, dryRun="All")
        return len(made["spec"]["containers"]) > 1

    wait_until(is_in_force, "the policy is in force")
    yield world
    for path in paths:
        objects.delete(f"{path}/{name}")


def test_k33_a_pod_with_a_sidecar_is_adopted_and_ends_as_its_main_container(
    meshed: FaultyWorld,
) -> None:
    lost = meshed.proxy.add(Fault(method="POST", path=r"/pods$", is_dropped=True, is_done=True))
    meshed.run(exits(3))
    meshed.wait_for(KEY, WorkerState.ENDED)
    pod = meshed.pod()
    assert pod is not None
    assert {each["name"] for each in pod["spec"]["containers"]} == {"main", "mesh"}
    assert pod["metadata"]["labels"]["mesh"] == "on"
    assert lost.hits == 1
    assert [report.exit_code for report in meshed.reports()] == [3]
    assert meshed.inner.runs_of("job-1") == 1
