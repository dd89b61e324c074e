"""The chart on whole nodes: install, test, upgrade, rollback, kill, move, uninstall."""

from collections.abc import Iterator

import httpx2
import pytest
from sqlalchemy.engine import make_url

from tests.cluster.forwarder import Forwarder
from tests.cluster.images import Image
from tests.cluster.release import INSTALL_S_MAX, TERMINAL, Release, a_volume
from tests.cluster.remains import ADDRESSES
from tests.cluster.whole_cluster import WholeCluster
from tests.databases import Databases
from tests.helm.helm_program import Helm
from tests.polling import wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def on_sqlite(
    whole_cluster: WholeCluster, helm_on_nodes: Helm, server_image: Image
) -> Iterator[Release]:
    """A release on SQLite, installed."""
    with a_volume(whole_cluster, "sqlite") as persistence:
        release = Release(
            name="small",
            helm=helm_on_nodes,
            cluster=whole_cluster,
            image=server_image,
            values={"persistence": persistence, "jobNamespaces": {"names": ["small-jobs"]}},
        )
        release.install()
        yield release
        release.uninstall()


@pytest.fixture(scope="module")
def on_postgres(
    whole_cluster: WholeCluster,
    helm_on_nodes: Helm,
    server_image: Image,
    databases: Databases,
) -> Iterator[Release]:
    """Two servers on an external PostgreSQL, installed."""
    empty = databases.new_empty("postgres")
    with Forwarder(ADDRESSES[0], empty) as outside:
        name = make_url(empty).database
        assert name is not None
        release = Release(
            name="large",
            helm=helm_on_nodes,
            cluster=whole_cluster,
            image=server_image,
            values={
                "replicaCount": 2,
                "database": {"url": outside.url(name)},
                "jobNamespaces": {"names": ["large-jobs"]},
            },
        )
        release.install()
        yield release
        release.uninstall()


def test_helm_test_is_green_on_sqlite(on_sqlite: Release) -> None:
    assert "Succeeded" in on_sqlite.test()


def test_jobs_survive_upgrade_rollback_and_a_kill(on_sqlite: Release) -> None:
    run_one(on_sqlite, "before")
    on_sqlite.upgrade({"config": {"server": {"logLevel": "info"}}})
    assert on_sqlite.phase("before") == "Succeeded"
    on_sqlite.rollback(1)
    assert on_sqlite.phase("before") == "Succeeded"
    on_sqlite.kill_pods()
    assert on_sqlite.phase("before") == "Succeeded"
    run_one(on_sqlite, "after")


def test_the_server_moves_to_another_node_with_its_volume(on_sqlite: Release) -> None:
    run_one(on_sqlite, "moved")
    (pod,) = on_sqlite.pods()
    node = f"/api/v1/nodes/{pod['spec']['nodeName']}"
    on_sqlite.objects.patch(node, {"spec": {"unschedulable": True}})
    try:
        on_sqlite.kill_pods()
        (moved,) = on_sqlite.pods()
        assert moved["spec"]["nodeName"] != pod["spec"]["nodeName"]
        assert on_sqlite.phase("moved") == "Succeeded"
    finally:
        on_sqlite.objects.patch(node, {"spec": {"unschedulable": False}})


def test_a_new_install_finds_what_the_old_one_left(on_sqlite: Release) -> None:
    run_one(on_sqlite, "kept")
    on_sqlite.uninstall()
    on_sqlite.install()
    assert on_sqlite.phase("kept") == "Succeeded"


def test_helm_test_is_green_on_postgres(on_postgres: Release) -> None:
    assert "Succeeded" in on_postgres.test()


def test_two_servers_share_a_database_and_one_may_die(on_postgres: Release) -> None:
    first, second = on_postgres.pods()
    assert first["spec"]["nodeName"] != second["spec"]["nodeName"], "they are spread"
    run_one(on_postgres, "shared")
    path = f"/api/v1/namespaces/{on_postgres.namespace}/pods/{first['metadata']['name']}"
    on_postgres.objects.delete(path, grace_s=0)
    wait_until(lambda: _phase_or_none(on_postgres, "shared") == "Succeeded", "the other answers")
    on_postgres.upgrade({"podAnnotations": {"example.com/round": "two"}})
    run_one(on_postgres, "afterwards")


def run_one(release: Release, name: str) -> None:
    """A job without GPUs, to its end."""
    release.submit(name, ["true"], image=release.image.reference, gpusPerWorker=0)
    wait_until(
        lambda: _phase_or_none(release, name) in TERMINAL,
        f"{name} has ended",
        deadline_s=INSTALL_S_MAX,
    )
    assert release.phase(name) == "Succeeded"


def _phase_or_none(release: Release, name: str) -> str | None:
    """None while the server is away."""
    try:
        return release.phase(name)
    except httpx2.HTTPError:
        return None
