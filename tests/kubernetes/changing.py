"""Pods that the API server changes on their way in, as a webhook of somebody else would."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.api_objects import Object
from tests.cluster.cluster_fixtures import Place
from tests.polling import wait_until

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
MARK = "changed"
"""Label of every pod that was changed."""
ADDS_A_SIDECAR = (
    "Object{spec: Object.spec{containers: [Object.spec.containers{"
    'name: "mesh", image: "localhost/mesh:1"}]}}'
)


@contextmanager
def changed_pods(place: Place, expression: str) -> Iterator[None]:
    """Every pod that is made in the namespace is changed by that CEL expression, and labelled
    `changed`."""
    name = place.namespace
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    marked = (
        f'Object{{metadata: Object.metadata{{labels: Object.metadata.labels{{{MARK}: "on"}}}}}}'
    )
    policy: Object = {
        "metadata": {"name": name},
        "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [pods], "namespaceSelector": here},
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": each}}
                for each in (expression, marked)
            ],
        },
    }
    paths = [f"{REGISTRATION}/mutatingadmission{kind}" for kind in ("policies", "policybindings")]
    place.objects.create(paths[0], policy)
    place.objects.create(paths[1], {"metadata": {"name": name}, "spec": {"policyName": name}})
    container = {"name": "main", "image": "test"}
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}

    def is_in_force() -> bool:
        made = place.objects.create(place.pods_path, probe, dryRun="All")
        return MARK in made["metadata"].get("labels", {})

    wait_until(is_in_force, "the policy is in force")
    try:
        yield
    finally:
        for path in paths:
            place.objects.delete(f"{path}/{name}")
