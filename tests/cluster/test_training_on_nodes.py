"""End to end on whole nodes, through the installed chart and over HTTP: gangs in real pods."""

import itertools
import os
import signal
from collections.abc import Iterator

import httpx2
import pytest

from scheduler.domain.pod_policy import PodUser
from tests.cluster.images import Image
from tests.cluster.release import Release, a_volume
from tests.cluster.remains import processes_of, words_of
from tests.cluster.training import MPI, PYTORCH, RUN_S_MAX, Training
from tests.cluster.whole_cluster import RACK_LABEL, WholeCluster
from tests.cluster.whole_node import WholeNode
from tests.helm.helm_program import Helm
from tests.polling import wait_until

pytestmark = pytest.mark.cluster
NAMESPACE = "trained-jobs"
SERVERS_NODE = "node-0"
JOBS = "/api/v1/projects/default/jobs"


@pytest.fixture(scope="module")
def training(
    whole_cluster: WholeCluster, helm_on_nodes: Helm, server_image: Image
) -> Iterator[Training]:
    """A release on SQLite that knows the racks and gives lost nodes up soon."""
    with a_volume(whole_cluster, "training") as persistence:
        release = Release(
            name="trained",
            helm=helm_on_nodes,
            cluster=whole_cluster,
            image=server_image,
            values={
                "persistence": persistence,
                # A test loses another node.
                "nodeSelector": {"kubernetes.io/hostname": SERVERS_NODE},
                "jobNamespaces": {"names": [NAMESPACE]},
                "config": {
                    "topology": {"levels": [{"name": "rack", "label": RACK_LABEL}]},
                    "policy": {"nodeLostAfter": "20s"},
                },
            },
        )
        release.install()
        yield Training(release=release, namespace=NAMESPACE)
        release.uninstall()


def test_four_workers_train_in_pytorch(training: Training) -> None:
    name = training.submit_file(PYTORCH.read_text())
    training.wait_for(name, "Succeeded", "Failed")
    log = training.said(name)
    assert training.job(name)["status"]["phase"] == "Succeeded", (training.told(name), log)
    assert "4 workers hold equal weights" in log
    report = training.attempts(name)[-1]["progress"]
    assert (report["step"], report["stepsTotal"]) == (300, 300)
    training.wait_until_gone(name)


def test_mpirun_reaches_the_other_pods_without_sshd(training: Training) -> None:
    name = training.submit_file(MPI.read_text())
    training.wait_for(name, "Succeeded", "Failed")
    log = training.said(name)
    others = [training.said(name, rank=rank) for rank in (1, 2, 3)]
    assert training.job(name)["status"]["phase"] == "Succeeded", (training.told(name), log, others)
    assert "4 workers hold equal weights" in log
    assert others == ["", "", ""], "what they say goes to rank 0, through mpirun"
    training.wait_until_gone(name)


def test_ranks_follow_the_racks(training: Training) -> None:
    training.sleepers("wide", workers=8)
    training.wait_for("wide", "Running")
    racks = training.racks("wide")
    assert [len(list(same)) for _, same in itertools.groupby(racks)] == [4, 4]
    training.cancel("wide", now=True)


def test_a_gang_that_fits_one_rack_gets_one(training: Training) -> None:
    training.sleepers("narrow", workers=4)
    training.wait_for("narrow", "Running")
    assert len(set(training.racks("narrow"))) == 1
    training.cancel("narrow", now=True)


def test_a_log_is_followed_while_the_job_runs(training: Training) -> None:
    training.sleepers("talking", workers=1)
    training.wait_for("talking", "Running")
    url = f"{training.release.url}/api/v1/projects/default/jobs/talking/logs?follow=true"
    headers = {"Authorization": f"Bearer {training.release.token}"}
    with httpx2.stream("GET", url, headers=headers, timeout=60, trust_env=False) as answer:
        assert next(answer.iter_text()) == "rank 0\n"
    training.cancel("talking", now=True)


def test_a_cancelled_gang_gets_its_grace_and_no_more(training: Training) -> None:
    image = training.release.image.reference
    script = "trap 'echo stopping; sleep 1; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    training.release.submit(
        "graceful", ["sh", "-c", script], image=image, gpusPerWorker=1, workers=2
    )
    training.wait_for("graceful", "Running")
    wait_until(lambda: "up" in training.said("graceful"), "it is up", deadline_s=RUN_S_MAX)
    training.cancel("graceful")
    assert "stopping" in training.said("graceful")
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    training.release.submit(
        "stubborn",
        ["sh", "-c", stubborn],
        image=image,
        gpusPerWorker=1,
        checkpoint={"grace": "3s"},
    )
    training.wait_for("stubborn", "Running")
    wait_until(lambda: "up" in training.said("stubborn"), "it is up", deadline_s=RUN_S_MAX)
    training.cancel("stubborn")


def test_a_gang_trains_on_while_the_server_dies_and_moves(training: Training) -> None:
    training.sleepers("lasting", workers=4)
    training.wait_for("lasting", "Running")
    before = [pod["metadata"]["uid"] for pod in training.pods("lasting")]
    training.release.kill_pods()
    training.wait_for("lasting", "Running")
    assert [pod["metadata"]["uid"] for pod in training.pods("lasting")] == before
    assert training.job("lasting")["status"]["attempts"] == 1
    training.cancel("lasting", now=True)


def test_a_gang_runs_on_under_a_killed_kubelet(
    training: Training, whole_cluster: WholeCluster
) -> None:
    training.sleepers("steady", workers=8)
    training.wait_for("steady", "Running")
    node = whole_cluster.nodes[3]
    node.kill_kubelet()
    node.start_kubelet(whole_cluster.kubeconfig)
    wait_until(node.is_ready, "the node is ready", deadline_s=RUN_S_MAX)
    assert training.job("steady")["status"]["phase"] == "Running"
    assert training.job("steady")["status"]["attempts"] == 1
    training.cancel("steady", now=True)


def test_a_killed_worker_takes_its_gang_into_a_new_attempt(
    training: Training, whole_cluster: WholeCluster
) -> None:
    training.sleepers("struck", workers=2, failurePolicy={"maxRestarts": 2})
    training.wait_for("struck", "Running")
    (name,) = {pod["spec"]["nodeName"] for pod in training.pods("struck")}
    (node,) = (node for node in whole_cluster.nodes if node.name == name)
    _kill_one(node, "sleep 3600")
    wait_until(
        lambda: training.job("struck").get("status", {}).get("attempts") == 2,
        "it starts again",
        deadline_s=RUN_S_MAX,
    )
    training.wait_for("struck", "Running")
    assert "137" in training.told("struck")
    training.cancel("struck", now=True)


def test_a_lost_node_is_told_and_its_gang_starts_elsewhere(
    training: Training, whole_cluster: WholeCluster
) -> None:
    training.sleepers("moving", workers=4)
    training.wait_for("moving", "Running")
    held = {pod["spec"]["nodeName"] for pod in training.pods("moving")}
    node = next(node for node in whole_cluster.nodes if node.name in held - {SERVERS_NODE})
    node.lose()
    wait_until(
        lambda: training.job("moving").get("status", {}).get("attempts") == 2,
        "it starts elsewhere",
        deadline_s=RUN_S_MAX,
    )
    training.wait_for("moving", "Running")
    now = {pod["spec"]["nodeName"] for pod in training.pods("moving") if _is_live(pod)}
    assert node.name not in now
    assert "NodeLost" in training.told("moving")
    whole_cluster.bring_back(node)
    training.cancel("moving", now=True)


COUNTING = """
[ $DALLY_RANK = 0 ] || { trap 'exit 143' TERM; sleep 3600 & wait; }
saved=$DALLY_CHECKPOINT_DIR/step
mkdir -p $DALLY_CHECKPOINT_DIR
step=$(cat $saved 2>/dev/null || echo 0)
trap 'echo $step > $saved; echo "saved $step"; exit 143' TERM
echo "attempt $DALLY_ATTEMPT begins at $step"
while [ $step -lt 100000 ]; do step=$((step + 1)); sleep 0.1; done
"""
"""Rank 0 counts, saves when it is asked to stop, and goes on from there."""


@pytest.fixture(scope="module")
def checkpoints(training: Training, whole_cluster: WholeCluster) -> Iterator[str]:
    """A claim in the namespace of the jobs; every node reaches its volume."""
    with a_volume(whole_cluster, "checkpoints", user=PodUser().uid) as persistence:
        claim = {
            "metadata": {"name": "checkpoints"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "selector": {"matchLabels": persistence["selector"]},
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        path = f"/api/v1/namespaces/{training.namespace}/persistentvolumeclaims"
        whole_cluster.objects.create(path, claim)
        yield "checkpoints"
        whole_cluster.objects.delete(f"{path}/checkpoints")


def counts(training: Training, name: str, claim: str, **spec: object) -> None:
    """A gang that keeps its count in a folder of the claim, by its name."""
    training.release.submit(
        name,
        ["sh", "-c", COUNTING],
        image=training.release.image.reference,
        volumes=[{"name": "ckpt", "claim": claim, "mountPath": "/ckpt"}],
        checkpoint={"path": f"/ckpt/{name}", "grace": "20s"},
        **spec,
    )


def begins_at(training: Training, name: str) -> int:
    """Where its latest attempt has begun; -1 before it says so."""
    _, says_so, rest = training.said(name).partition("begins at ")
    return int(rest.split()[0]) if says_so else -1


@pytest.fixture
def _fewest_gpus_first(training: Training) -> Iterator[None]:
    """A policy under which gangs that run make way."""
    path = "/api/v1/policy"
    assert training.release.request("PATCH", path, {"knobs": {"policy": "sjf"}}).is_success
    yield
    assert training.release.request("PATCH", path, {"knobs": {"policy": None}}).is_success


@pytest.mark.usefixtures("_fewest_gpus_first")
def test_a_preempted_gang_saves_leaves_waits_and_resumes(
    training: Training, checkpoints: str
) -> None:
    spec = {"workers": 4, "gpusPerWorker": 2}
    counts(training, "large", checkpoints, **spec)
    training.wait_for("large", "Running")
    wait_until(lambda: begins_at(training, "large") == 0, "it counts", deadline_s=RUN_S_MAX)
    training.sleepers("small", workers=1)
    training.wait_for("small", "Running")
    (first,) = training.attempts("large")
    assert (first["outcome"], training.job("large")["status"]["phase"]) == ("Preempted", "Pending")
    assert "it makes way for small" in training.told("large")
    saved = training.said("large").partition("saved ")[2]
    assert saved, "it was told and not killed"
    training.order("large", "hold")
    training.cancel("small", now=True)
    assert training.job("large")["status"]["phase"] == "Held"
    training.order("large", "release")
    wait_until(
        lambda: begins_at(training, "large") == int(saved), "it resumes", deadline_s=RUN_S_MAX
    )
    training.cancel("large")
    stopped_at = int(training.said("large").partition("saved ")[2])
    assert stopped_at >= int(saved)
    assert training.release.request("DELETE", f"{JOBS}/large").is_success
    counts(training, "large", checkpoints, **spec)
    wait_until(
        lambda: begins_at(training, "large") == stopped_at,
        "so after a cancel",
        deadline_s=RUN_S_MAX,
    )
    training.cancel("large", now=True)


def test_a_drained_gang_resumes_elsewhere_from_its_checkpoint(
    training: Training, checkpoints: str
) -> None:
    counts(training, "resuming", checkpoints, gpusPerWorker=1)
    training.wait_for("resuming", "Running")
    wait_until(
        lambda: "begins at 0" in training.said("resuming"), "it counts", deadline_s=RUN_S_MAX
    )
    (pod,) = training.pods("resuming")
    node = pod["spec"]["nodeName"]
    body = {"reason": "new firmware"}
    answer = training.release.request("POST", f"/api/v1/nodes/{node}/drain", body)
    assert answer.json()["isDraining"] is True
    try:
        wait_until(
            lambda: "attempt 1 begins at" in training.said("resuming"),
            "it goes on",
            deadline_s=RUN_S_MAX,
        )
        (moved,) = [pod for pod in training.pods("resuming") if _is_live(pod)]
        assert moved["spec"]["nodeName"] != node
        assert begins_at(training, "resuming") > 0
        told = training.told("resuming")
        assert "is drained by" in told
        assert "new firmware" in told
        assert "Drained" in told
    finally:
        training.release.request("POST", f"/api/v1/nodes/{node}/uncordon", {})
    training.cancel("resuming")


def _is_live(pod: dict[str, object]) -> bool:
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    return "deletionTimestamp" not in metadata


def _kill_one(node: WholeNode, command: str) -> None:
    """SIGKILL to the first process of the node that runs this command."""
    pid = next(pid for pid in processes_of(node.home) if " ".join(words_of(pid)) == command)
    os.kill(pid, signal.SIGKILL)
