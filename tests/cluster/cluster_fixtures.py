"""What tests on a control plane may ask for: the control plane, and a place of their own on it."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.api_objects import ApiObjects, Object
from tests.cluster.control_plane import JOINS, ControlPlane, ReachedControlPlane, joined
from tests.cluster.kubelet import Kubelet
from tests.cluster.nodes import NODES
from tests.polling import wait_until

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReachedControlPlane]:
    """A real control plane, one for the whole run."""
    if kubeconfig := os.environ.get(JOINS):
        plane = joined(Path(kubeconfig))
        yield plane
        plane.objects.close()
        return
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A namespace and nodes of one test."""

    control_plane: ReachedControlPlane
    namespace: str
    kubelet: Kubelet

    @property
    def objects(self) -> ApiObjects:
        """An admin's client."""
        return self.control_plane.objects

    @property
    def pods_path(self) -> str:
        """The pods of the namespace."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def add_node(self, node: Object) -> None:
        """Write a node, its logs served by this place's kubelet."""
        node["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self.kubelet.port}}
        self.objects.create(NODES, node)

    def text(self, path: str) -> str:
        """What a path answers that is no object; empty while it answers nothing."""
        return self.objects.text(path)

    def pods(self) -> list[Object]:
        """All pods of the namespace."""
        return self.objects.items(self.pods_path)


@pytest.fixture
def place(control_plane: ReachedControlPlane, tmp_path: Path) -> Iterator[Place]:
    """A new namespace; it and every node are gone after the test."""
    with a_place(control_plane, tmp_path / "kubelet") as made:
        yield made


@contextmanager
def a_place(control_plane: ReachedControlPlane, folder: Path) -> Iterator[Place]:
    """A new namespace with a kubelet; pods, nodes and namespace are removed at the end."""
    objects = control_plane.objects
    name = f"test-{os.getpid()}-{next(_numbers)}"
    new_namespace(objects, name)
    with Kubelet(objects, folder) as kubelet:
        place = Place(control_plane=control_plane, namespace=name, kubelet=kubelet)
        yield place
    objects.remove(f"/api/v1/namespaces/{name}")
    objects.delete(place.pods_path, grace_s=0)
    objects.delete(NODES)


def new_namespace(objects: ApiObjects, name: str, **labels: str) -> None:
    """A namespace that is ready for pods."""
    meta = {"name": name, "labels": {key.replace("__", "/"): text for key, text in labels.items()}}
    objects.create("/api/v1/namespaces", {"metadata": meta})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: objects.find(account) is not None, f"namespace {name} takes pods")
