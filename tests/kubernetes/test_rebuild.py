"""The database is lost altogether, and made again of what the cluster runs."""

import shutil

import pytest

from scheduler.config_file import empty_config
from scheduler.domain.errors import SchedulerError
from scheduler.settings import Settings, load_settings
from server.rebuilding import rebuild
from tests.kubernetes.served import ServedCluster

SLEEPS = ("sh", "-c", "exec sleep 600")


def settings_of(served: ServedCluster) -> Settings:
    place = served.place
    return load_settings(
        {
            "data_dir": served.server.folder / "data",
            "executor": "kubernetes",
            "kubeconfig": place.control_plane.kubeconfig,
        },
        environ={},
        file_values={"jobNamespace": place.namespace},
    )


def test_a_lost_database_is_rebuilt_of_what_runs(served: ServedCluster) -> None:
    served.add_nodes(2)
    served.server.start()
    served.submit("long", *SLEEPS, workers=2, gpusPerWorker=4)
    served.wait_for("long", "Running")
    before = {pod["metadata"]["uid"] for pod in served.pods_of("long")}
    submitted = served.server.job("long")["metadata"]["createTime"]
    served.server.kill()
    shutil.rmtree(served.server.folder / "data")
    (served.server.folder / "data").mkdir(mode=0o700)
    settings = settings_of(served)
    first, second = rebuild(settings, empty_config(), instance="")
    assert first.endswith("leadership term 2")
    assert second == "default/long, attempt 0: taken up, 2 workers alive"
    assert list(rebuild(settings, empty_config(), instance=""))[1].endswith("is known")
    served.server.start()
    served.wait_for("long", "Running")
    assert {pod["metadata"]["uid"] for pod in served.pods_of("long")} == before
    assert served.gpus_held() == 8
    assert served.server.job("long")["metadata"]["createTime"] == submitted
    assert served.server.request("GET", "/api/v1/strays").json()["items"] == []
    served.server.cancel("long", now=True)
    served.wait_for("long", "Cancelled")


def test_an_empty_cluster_rebuilds_nothing(served: ServedCluster) -> None:
    (served.server.folder / "data").mkdir(mode=0o700)
    with pytest.raises(SchedulerError, match="nothing that Dally has made"):
        list(rebuild(settings_of(served), empty_config(), instance=""))
