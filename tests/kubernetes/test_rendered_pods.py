"""Pods of job files before a real API server: it knows every field, and pod security agrees."""

from collections.abc import Iterator

import pytest

from scheduler.adapters.kubernetes.objects import JsonObject
from scheduler.domain.codec import Json
from scheduler.domain.ids import Rank
from tests.cluster.api_objects import ApiError, ApiObjects
from tests.cluster.cluster_fixtures import new_namespace
from tests.cluster.control_plane import ReachedControlPlane
from tests.unit.adapters.kubernetes.admins import ROOTED, a_pod_of, a_spec
from tests.unit.adapters.kubernetes.test_pods_of_job_files import EVERYTHING

STRICTLY = {"dryRun": "All", "fieldValidation": "Strict"}
LEVELS = ("privileged", "baseline", "restricted")
WITHIN: dict[str, Json] = {
    **{name: value for name, value in EVERYTHING.items() if name != "podProfile"},
    "volumes": [
        {"name": "a", "claim": "c", "mountPath": "/ckpt"},
        {"name": "b", "scratch": "1Gi", "mountPath": "/fast"},
        {"name": "e", "configMap": "hyper", "mountPath": "/config"},
    ],
}
"""What a job file may say by itself."""


@pytest.fixture(scope="module")
def objects(control_plane: ReachedControlPlane) -> Iterator[ApiObjects]:
    """An admin's client, and a namespace of each level with the account of the project."""
    client = control_plane.objects
    for level in LEVELS:
        name = f"rendered-{level}"
        new_namespace(client, name)
        labels = {"pod-security.kubernetes.io/enforce": level}
        client.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
        path = f"/api/v1/namespaces/{name}/serviceaccounts"
        client.create(path, {"metadata": {"name": "trainer"}})
    yield client
    for level in LEVELS:
        client.delete(f"/api/v1/namespaces/rendered-{level}")


def put(objects: ApiObjects, pod: JsonObject, level: str) -> None:
    """As if it was made in the namespace of that level."""
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    metadata["namespace"] = f"rendered-{level}"
    objects.create(f"/api/v1/namespaces/rendered-{level}/pods", pod, **STRICTLY)


def test_what_a_job_file_may_say_passes_the_level_restricted(objects: ApiObjects) -> None:
    put(objects, a_pod_of(a_spec(WITHIN)), "restricted")


@pytest.mark.parametrize("rank", [pytest.param(0, id="rank 0"), pytest.param(1, id="an agent")])
def test_workers_of_an_mpi_job_need_no_more_than_others(objects: ApiObjects, rank: int) -> None:
    command: list[Json] = ["mpirun", "train"]
    spec = a_spec({**WITHIN, "launcher": "mpi", "workers": 2, "command": command})
    put(objects, a_pod_of(spec, rank=Rank(rank)), "restricted")


def test_a_project_of_the_level_baseline_passes_that(objects: ApiObjects) -> None:
    pod = a_pod_of(a_spec(project=ROOTED), ROOTED)
    put(objects, pod, "baseline")
    with pytest.raises(ApiError):
        put(objects, pod, "restricted")


def test_everything_that_admins_can_grant_is_known_to_the_api_server(objects: ApiObjects) -> None:
    put(objects, a_pod_of(a_spec(EVERYTHING)), "privileged")
