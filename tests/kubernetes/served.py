"""`dallyd serve --executor kubernetes` over a control plane, and what may be said of its pods."""

from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scheduler.adapters.kubernetes import names
from tests.cluster.api_objects import Object
from tests.cluster.cluster_fixtures import Place
from tests.cluster.nodes import a_node
from tests.polling import DEADLINE_S, wait_until
from tests.servers import TERMINAL, Server

IMAGE = "localhost/test:1"


class ServedCluster:
    """A server and its cluster."""

    def __init__(self, place: Place, folder: Path, **env: str) -> None:
        self.place = place
        folder.mkdir()
        self.server = Server(
            folder,
            env={
                "DALLYD_EXECUTOR": "kubernetes",
                "DALLYD_KUBECONFIG": str(place.control_plane.kubeconfig),
                "DALLYD_JOB_NAMESPACE": place.namespace,
                **env,
            },
        )

    def __enter__(self) -> Self:
        """Nothing is started."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill the server; the place takes the pods with it."""
        if self.server.is_up():
            self.server.kill()

    def add_nodes(self, count: int, *, gpus: int = 8, nodes_in_rack: int = 8) -> None:
        """Equal nodes, so many in a rack."""
        for number in range(count):
            rack = {"topology.kubernetes.io/zone": f"rack-{number // nodes_in_rack}"}
            self.place.add_node(a_node(f"n{number:03}", gpus=gpus, labels=rack))

    def submit(self, name: str, *command: str, **spec: object) -> None:
        """Submit a job."""
        answer = self.server.submit(name, command, image=IMAGE, **spec)
        assert answer.status_code == 201, answer.text

    def wait_for(self, name: str, *phases: str, deadline_s: float = DEADLINE_S) -> None:
        """Until a job is in one of the phases."""
        wait_until(
            lambda: self.server.phase(name) in phases,
            f"{name} is {' or '.join(phases)}",
            deadline_s=deadline_s,
        )

    def status(self, name: str) -> Any:
        """What the API says of a job."""
        return self.server.job(name)["status"]

    def pods_of(self, name: str) -> list[Object]:
        """The pods of a job, by rank."""
        found = [
            pod
            for pod in self.place.pods()
            if pod["metadata"]["labels"].get(names.JOB_NAME) == name
        ]
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][names.RANK]))

    def nodes_of(self, name: str) -> Counter[str]:
        """How many pods of a job each node has."""
        return Counter(pod["spec"].get("nodeName", "") for pod in self.pods_of(name))

    def gpus_held(self) -> int:
        """GPUs that reservations hold, by the server's own books."""
        nodes = self.server.request("GET", "/api/v1/nodes").json()["items"]
        return sum(int(node["gpusHeld"]) for node in nodes)

    def are_all_over(self) -> bool:
        """Whether every job has ended."""
        return all(job["status"]["phase"] in TERMINAL for job in self.server.jobs())
