"""The API and the scheduler as two processes, on one PostgreSQL and one cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster_fixtures import Place
from tests.cluster.nodes import a_node
from tests.databases import Databases
from tests.kubernetes.served import IMAGE
from tests.polling import wait_until
from tests.servers import Server


class Split:
    """One process that answers users and one that acts."""

    def __init__(self, place: Place, folder: Path, database_url: str) -> None:
        env = {
            "DALLYD_EXECUTOR": "kubernetes",
            "DALLYD_KUBECONFIG": str(place.control_plane.kubeconfig),
            "DALLYD_JOB_NAMESPACE": place.namespace,
        }

        def a_server(role: str) -> Server:
            (folder / role).mkdir(parents=True)
            return Server(
                folder / role, database_url=database_url, env={**env, "DALLYD_ROLE": role}
            )

        self.api = a_server("api")
        self.scheduler = a_server("scheduler")


@pytest.fixture
def split(place: Place, databases: Databases, tmp_path: Path) -> Iterator[Split]:
    """Both, started."""
    place.add_node(a_node("n0", gpus=8))
    made = Split(place, tmp_path, databases.new("postgres"))
    made.api.start()
    made.scheduler.start()
    yield made
    for server in (made.api, made.scheduler):
        if server.is_up():
            server.kill()


def test_what_is_asked_of_one_process_is_done_by_the_other(split: Split, place: Place) -> None:
    script = "echo rank $DALLY_RANK; exec sleep 600"
    answer = split.api.submit("long", ["sh", "-c", script], image=IMAGE, workers=2)
    assert answer.status_code == 201, answer.text
    split.api.wait_for("long", "Running")
    path = "/api/v1/projects/default/jobs/long/logs"
    wait_until(lambda: split.api.request("GET", path).text == "rank 0\n", "its output is shown")
    split.scheduler.kill()
    assert split.api.submit("later", ["true"], image=IMAGE).status_code == 201
    assert split.api.phase("long") == "Running"
    split.scheduler.start()
    split.api.wait_for("later", "Succeeded")
    split.api.cancel("long", now=True)
    split.api.wait_for("long", "Cancelled")
    wait_until(lambda: place.pods() == [], "its pods are gone")
