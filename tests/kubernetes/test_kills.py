"""`kill -9` at every point of the launch and stop protocols, on a real API server (K8): no rank is
ever let run by two pods, no two attempts at once, nothing is left over, foreign pods are untouched.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler.adapters.kubernetes import names
from scheduler.ports.kill_points import KillPoint
from tests.cluster.api_objects import Object
from tests.cluster.cluster_fixtures import Place
from tests.cluster.nodes import a_node
from tests.crash.killing_ground import POLICY, KillingGround
from tests.crash.stories import points_in_pods
from tests.kubernetes.pod_history import PodHistory
from tests.kubernetes.served import IMAGE
from tests.polling import wait_until
from tests.proof import times

SWEEP = "3s"
SWEEPS_S_MAX = 120.0
"""More than two sweeps: deletions take as long as the machine needs."""
ANOTHER = "another"
OURS = f"{names.INSTANCE},{names.INSTANCE}!={ANOTHER}"


@pytest.fixture
def history(place: Place) -> Iterator[PodHistory]:
    """The pods of two nodes with room for every story."""
    for name in ("n0", "n1"):
        labels = {"topology.kubernetes.io/zone": "r1"}
        place.add_node(a_node(name, gpus=32, labels=labels))
    with PodHistory(place) as made:
        yield made


@pytest.fixture
def ground(
    place: Place,
    history: PodHistory,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> Iterator[KillingGround]:
    """Servers over that control plane, with a first token."""
    folder = tmp_path / "server"
    folder.mkdir()
    made = KillingGround(
        folder,
        config=POLICY,
        image=IMAGE,
        env={
            "DALLYD_EXECUTOR": "kubernetes",
            "DALLYD_KUBECONFIG": str(place.control_plane.kubeconfig),
            "DALLYD_JOB_NAMESPACE": place.namespace,
            "DALLYD_KUBERNETES_SWEEP": SWEEP,
        },
    )
    made.prepare()

    def see_it_swept() -> None:
        with suppress(AssertionError):  # What is left says more than that something is.
            wait_until(lambda: not left_over(place), "all is swept", deadline_s=SWEEPS_S_MAX)
        assert left_over(place) == []

    made.on_over = see_it_swept

    def record() -> None:
        record_property("kills", made.kills.total())
        record_property("evictions", made.evictions)
        record_property("states of pods", len(history))

    made.on_settled = record
    yield made
    made.close()


def left_over(place: Place) -> list[str]:
    """Names of what is still there of gangs."""
    root = f"/api/v1/namespaces/{place.namespace}"
    return [
        f"{kind}/{each['metadata']['name']}"
        for kind in ("pods", "configmaps", "services")
        for each in place.objects.items(f"{root}/{kind}", labelSelector=OURS)
    ]


def a_foreign_pod(place: Place, name: str, **labels: str) -> Object:
    """A pod of somebody else, named like one of ours and with some of our labels."""
    container = {"name": "main", "image": "test", "command": ["sh", "-c", "exec sleep 600"]}
    meta = {"name": name, "labels": {f"{names.PREFIX}{key}": text for key, text in labels.items()}}
    spec = {"nodeName": "n0", "containers": [container]}
    return place.objects.create(place.pods_path, {"metadata": meta, "spec": spec})


@pytest.mark.proof
@pytest.mark.parametrize("turn", range(times(ci=1, proof=9)))
def test_k8_kills_at_every_point_of_launch_and_stop_run_nothing_twice_and_leave_nothing(
    ground: KillingGround, history: PodHistory, place: Place, turn: int
) -> None:
    foreign = [
        a_foreign_pod(place, "j0123456789-a0-0", job="theirs"),
        a_foreign_pod(place, "theirs", instance=ANOTHER, attempt="0", rank="0"),
    ]
    order = list(points_in_pods())
    random.Random(turn).shuffle(order)
    for point in order:
        ground.die_at(KillPoint(point))
    ground.settle_accounts()
    assert set(ground.kills) == set(order)
    assert len(history) > len(order)
    assert history.opened_twice() == {}
    assert history.attempts_at_once() == []
    for before in foreign:
        meta = before["metadata"]
        after = place.objects.get(f"{place.pods_path}/{meta['name']}")["metadata"]
        assert (after["uid"], after["labels"]) == (meta["uid"], meta["labels"])
        assert "deletionTimestamp" not in after
