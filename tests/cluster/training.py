"""What tests ask of jobs that run in real pods through an installed chart."""

import re
from dataclasses import dataclass
from typing import Any

import httpx2
import yaml

from scheduler.adapters.kubernetes import names
from tests.cluster.api_objects import Object
from tests.cluster.release import Release
from tests.cluster.whole_cluster import RACK_LABEL
from tests.polling import wait_until
from tests.source_tree import ROOT

RUN_S_MAX = 420.0
"""The machine may be busy; alone, everything takes seconds."""
PYTORCH = ROOT / "examples" / "kubernetes" / "pytorch-ddp.yaml"
MPI = ROOT / "examples" / "kubernetes" / "mpi.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Jobs of a release."""

    release: Release
    namespace: str

    def submit_file(self, text: str) -> str:
        """Submit a job file; the job's name."""
        body = yaml.safe_load(text)
        answer = self.release.request("POST", "/api/v1/projects/default/jobs", body)
        assert answer.status_code == httpx2.codes.CREATED, answer.text
        name: str = body["metadata"]["name"]
        return name

    def sleepers(self, name: str, *, workers: int, **spec: object) -> None:
        """A gang that only waits, each worker with one GPU."""
        image = self.release.image.reference
        command = ["sh", "-c", "echo rank $DALLY_RANK; exec sleep 3600"]
        # As the first process of its container it does not heed SIGTERM.
        given = {"checkpoint": {"grace": "3s"}, "workers": workers, "gpusPerWorker": 1, **spec}
        self.release.submit(name, command, image=image, **given)

    def wait_for(self, name: str, *phases: str) -> None:
        """Until the job is in one of the phases."""
        wait_until(
            lambda: self.job(name).get("status", {}).get("phase") in phases,
            f"{name} is {' or '.join(phases)}",
            deadline_s=RUN_S_MAX,
        )

    def job(self, name: str) -> dict[str, Any]:
        """The job as the API shows it; empty while no server answers."""
        return self._get(f"/api/v1/projects/default/jobs/{name}")

    def attempts(self, name: str) -> list[dict[str, Any]]:
        """Its starts, oldest first."""
        found: list[dict[str, Any]] = self._get(f"/api/v1/projects/default/jobs/{name}/attempts")[
            "items"
        ]
        return found

    def said(self, name: str, *, rank: int = 0) -> str:
        """The log of a rank."""
        path = f"/api/v1/projects/default/jobs/{name}/logs?rank={rank}"
        return self.release.request("GET", path).text

    def told(self, name: str) -> str:
        """Everything the service tells of a job: status, reason, events."""
        parts = ("why", "events", "attempts")
        pages = [self._get(f"/api/v1/projects/default/jobs/{name}/{part}") for part in parts]
        return str([self.job(name), *pages])

    def pods(self, name: str) -> list[Object]:
        """Its pods by rank."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        found = self.release.objects.items(path, labelSelector=f"{names.JOB_NAME}={name}")
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][names.RANK]))

    def racks(self, name: str) -> list[str]:
        """The rack of each rank."""
        racks = {
            node["metadata"]["name"]: node["metadata"]["labels"][RACK_LABEL]
            for node in self.release.objects.items("/api/v1/nodes")
        }
        return [racks[pod["spec"]["nodeName"]] for pod in self.pods(name)]

    def cancel(self, name: str, *, now: bool = False) -> None:
        """End a job and wait until its pods are gone."""
        path = f"/api/v1/projects/default/jobs/{name}/cancel"
        self.release.request("POST", path, {"now": now})
        self.wait_for(name, "Cancelled")
        self.wait_until_gone(name)

    def order(self, name: str, verb: str) -> None:
        """Hold or release a job."""
        answer = self.release.request("POST", f"/api/v1/projects/default/jobs/{name}/{verb}", {})
        assert answer.is_success, answer.text

    def wait_until_gone(self, name: str) -> None:
        """Until none of its pods is left."""
        wait_until(lambda: not self.pods(name), f"{name} has no pods", deadline_s=RUN_S_MAX)

    def _get(self, path: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self.release.request("GET", path).json()
        except (httpx2.HTTPError, ValueError):
            return {}
        return found


def with_name(text: str, name: str) -> str:
    """A job file under another name."""
    return re.sub(r"^  name: .*$", f"  name: {name}", text, count=1, flags=re.MULTILINE)
