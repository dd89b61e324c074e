"""A database restored from a backup, over a cluster that has gone on: nothing is started, stopped
or removed until an admin has said what is to become of each gang that it does not know."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from scheduler.adapters.kubernetes import names
from tests.cluster.api_objects import Object
from tests.kubernetes.served import ServedCluster
from tests.polling import wait_until

SLEEPS = ("sh", "-c", "exec sleep 600")


def database(served: ServedCluster) -> Path:
    return served.server.folder / "data" / "dally.db"


def back_up(served: ServedCluster, folder: Path) -> Callable[[], None]:
    """Copy the database of a stopped server; the result puts it back."""
    folder.mkdir()
    files = list(database(served).parent.glob("dally.db*"))
    kept = [Path(shutil.copy2(file, folder)) for file in files]

    def restore() -> None:
        for file in database(served).parent.glob("dally.db*"):
            file.unlink()
        for file in kept:
            shutil.copy2(file, database(served).parent)

    return restore


@pytest.fixture
def restored(served: ServedCluster, tmp_path: Path) -> ServedCluster:
    """`before` runs since before the backup was taken; `after` came later and runs as well."""
    served.add_nodes(2)
    served.server.start()
    served.submit("before", *SLEEPS)
    served.wait_for("before", "Running")
    served.server.stop()
    restore = back_up(served, tmp_path / "backup")
    served.server.start()
    served.submit("after", *SLEEPS, workers=2, gpusPerWorker=4)
    served.wait_for("after", "Running")
    served.server.kill()
    restore()
    served.server.start()
    wait_until(lambda: safe_mode(served) == "on", "it is in safe mode")
    return served


def copied(source: Path, target: Path) -> None:
    """As `.backup` and `.restore` of SQLite's own shell do it, whoever uses the two."""
    with closing(sqlite3.connect(source)) as held, closing(sqlite3.connect(target)) as given:
        held.backup(given)


def safe_mode(served: ServedCluster) -> str:
    answer = served.server.request("GET", "/readyz?verbose")
    assert answer.status_code == 200, "an admin must reach it"
    found: str = answer.json()["checks"]["safeMode"]
    return found


def strays(served: ServedCluster) -> list[Object]:
    found: list[Object] = served.server.request("GET", "/api/v1/strays").json()["items"]
    return found


def order(served: ServedCluster, verb: str) -> None:
    (stray,) = strays(served)
    answer = served.server.request("POST", f"/api/v1/strays/{stray['id']}/{verb}")
    assert answer.status_code == 202, answer.text


def uids(served: ServedCluster) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in served.place.pods()}


def test_what_a_restored_database_does_not_know_is_adopted_and_runs_on(
    restored: ServedCluster,
) -> None:
    before = uids(restored)
    (stray,) = strays(restored)
    assert (stray["project"], stray["name"], stray["reason"]) == ("default", "after", "NewerTerm")
    restored.submit("later", "true")
    answer = restored.server.request("GET", "/api/v1/projects/default/jobs/later/why").text
    wait_until(
        lambda: (
            "safe mode"
            in restored.server.request("GET", "/api/v1/projects/default/jobs/later/why").text
        ),
        f"its wait is explained: {answer}",
    )
    assert "safe mode" in restored.server.request("GET", "/api/v1/nodes").json()["safeMode"]
    assert "dally_safe_mode 1.0" in restored.server.request("GET", "/metrics").text
    assert uids(restored) == before, "nothing is made, nothing is removed"
    order(restored, "adopt")
    wait_until(lambda: strays(restored) == [], "it is taken up")
    restored.wait_for("after", "Running")
    restored.wait_for("later", "Succeeded")
    assert {name: uid for name, uid in uids(restored).items() if name in before} == before
    assert safe_mode(restored) == "off"
    restored.server.cancel("after", now=True)
    restored.wait_for("after", "Cancelled")
    assert restored.status("after")["attempts"] == 1


def test_a_backup_that_is_put_back_under_the_running_server_is_noticed(
    served: ServedCluster, tmp_path: Path
) -> None:
    served.add_nodes(2)
    served.server.start()
    served.submit("before", *SLEEPS)
    served.wait_for("before", "Running")
    copied(database(served), tmp_path / "backup.db")
    served.submit("after", *SLEEPS)
    served.wait_for("after", "Running")
    before = uids(served)
    copied(tmp_path / "backup.db", database(served))
    wait_until(lambda: safe_mode(served) == "on", "it is in safe mode")
    (stray,) = strays(served)
    assert (stray["name"], stray["reason"]) == ("after", "NewerTerm")
    order(served, "adopt")
    wait_until(lambda: safe_mode(served) == "off", "safe mode is over")
    served.wait_for("after", "Running")
    assert uids(served) == before, "nothing was made, nothing was removed"


def test_what_a_restored_database_does_not_know_is_released_and_left_alone(
    restored: ServedCluster,
) -> None:
    before = uids(restored)
    order(restored, "release")
    wait_until(lambda: safe_mode(restored) == "off", "safe mode is over")
    assert uids(restored) == before
    assert strays(restored) == []
    labels = [pod["metadata"]["labels"] for pod in restored.pods_of("after")]
    assert [names.INSTANCE in each for each in labels] == [False, False]
    nodes = restored.server.request("GET", "/api/v1/nodes").json()["items"]
    wait_until(
        lambda: (
            sum(
                node["gpusForeign"]
                for node in restored.server.request("GET", "/api/v1/nodes").json()["items"]
            )
            == 8
        ),
        f"its GPUs count as those of others: {nodes}",
    )
    restored.server.kill()
    restored.server.start()
    restored.wait_for("before", "Running")
    assert strays(restored) == []
