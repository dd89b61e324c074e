"""The chart installed on whole nodes, used as its users do: through helm and over HTTP."""

import base64
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.cluster.api_objects import ApiObjects, Object
from tests.cluster.images import Image
from tests.cluster.whole_cluster import WholeCluster
from tests.helm.helm_program import CHART, Helm
from tests.polling import wait_until

INSTALL_S_MAX = 300.0
SERVER_USER = 10_001
TERMINAL = ("Succeeded", "Failed", "Cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of the chart in a namespace of its own."""

    name: str
    helm: Helm
    cluster: WholeCluster
    image: Image
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """Where the server runs."""
        return f"{self.name}-system"

    @property
    def objects(self) -> ApiObjects:
        """An admin's client."""
        return self.cluster.objects

    def install(self) -> str:
        """What helm prints; the server is up."""
        return self._apply("install", "--create-namespace")

    def upgrade(self, values: Mapping[str, Any]) -> str:
        """With these values besides."""
        return self._apply("upgrade", values=values)

    def rollback(self, revision: int) -> str:
        """To an earlier revision."""
        said = self._helm("rollback", str(revision), *_WAITING)
        self.wait_until_ready()
        return said

    def test(self) -> str:
        """`helm test`."""
        return self._helm("test", "--logs", "--timeout", f"{INSTALL_S_MAX:.0f}s")

    def uninstall(self) -> None:
        """Take the server away."""
        self._helm("uninstall", *_WAITING)

    def pods(self) -> list[Object]:
        """The server's pods that are not on their way out."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        found = self.objects.items(path, labelSelector="app.kubernetes.io/component=server")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def kill_pods(self) -> None:
        """All servers at once, without a grace, and wait for those that follow."""
        gone = {pod["metadata"]["uid"] for pod in self.pods()}
        for pod in self.pods():
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            self.objects.delete(path, grace_s=0)
        wait_until(
            lambda: not gone & {pod["metadata"]["uid"] for pod in self.pods()},
            "the servers are gone",
            deadline_s=INSTALL_S_MAX,
        )
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Until the Service leads to a server; its endpoints follow the pods a moment later."""
        wait_until(self.is_ready, "a server is up", deadline_s=INSTALL_S_MAX)

    def is_ready(self) -> bool:
        """Whether the Service leads to a server that takes requests."""
        try:
            return httpx2.get(f"{self.url}/readyz", timeout=5, trust_env=False).is_success
        except httpx2.HTTPError:
            return False

    @property
    def url(self) -> str:
        """The Service; this machine reaches it through kube-proxy as pods do."""
        service = self.objects.get(
            f"/api/v1/namespaces/{self.namespace}/services/{self.name}-dally"
        )
        return f"http://{service['spec']['clusterIP']}"

    @property
    def token(self) -> str:
        """The admin token out of its Secret."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{self.name}-dally-admin-token"
        return base64.b64decode(self.objects.get(path)["data"]["token"]).decode()

    def request(self, method: str, path: str, body: object = None) -> httpx2.Response:
        """One request of the admin; where none listens yet, kube-proxy's rules are late."""
        headers = {"Authorization": f"Bearer {self.token}"}
        # A connection that was refused has carried nothing: to ask again is safe.
        with httpx2.Client(transport=httpx2.HTTPTransport(retries=6), trust_env=False) as client:
            url = f"{self.url}{path}"
            return client.request(method, url, json=body, headers=headers, timeout=30)

    def submit(self, name: str, command: list[str], **spec: object) -> None:
        """A job that is taken."""
        body = {
            "apiVersion": "dally/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"command": command, **spec},
        }
        answer = self.request("POST", "/api/v1/projects/default/jobs", body)
        assert answer.status_code == httpx2.codes.CREATED, answer.text

    def phase(self, name: str) -> str:
        """Where a job is."""
        answer = self.request("GET", f"/api/v1/projects/default/jobs/{name}")
        assert answer.is_success, answer.text
        phase: str = answer.json()["status"]["phase"]
        return phase

    def _apply(self, verb: str, *options: str, values: Mapping[str, Any] | None = None) -> str:
        image = {"repository": self.image.reference.rpartition(":")[0], "pullPolicy": "Never"}
        given = {"image": image, **self.values, **(values or {})}
        said = self.helm.run(
            *(verb, self.name, str(CHART), "--namespace", self.namespace, *_WAITING, *options),
            values=given,
        )
        self.wait_until_ready()
        return said

    def _helm(self, verb: str, *options: str) -> str:
        return self.helm.run(verb, self.name, *options, "--namespace", self.namespace)


_WAITING = ("--wait", "--timeout", f"{INSTALL_S_MAX:.0f}s")


@contextmanager
def a_volume(
    cluster: WholeCluster, name: str, *, user: int | None = SERVER_USER
) -> Iterator[dict[str, Any]]:
    """The values for SQLite on a volume that every node reaches, as on network storage."""
    folder: Path = cluster.folder / "volumes" / name
    folder.mkdir(parents=True)
    # The kubelet gives no group to a folder of the node.
    assert user is not None
    os.chown(folder, user, user)
    path = "/api/v1/persistentvolumes"
    cluster.objects.create(
        path,
        {
            "metadata": {"name": name, "labels": {"volume": name}},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder)},
            },
        },
    )
    yield {"size": "1Gi", "storageClass": "-", "selector": {"volume": name}}
    cluster.objects.delete(f"{path}/{name}")
