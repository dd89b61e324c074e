"""What making and removing gangs survives (K7, K9, K18 to K21, K24, K26, K31): every pod is made at
most once, no late pod ever runs, and a refusal is told in the words of who refused."""

import random
import re
import time
from dataclasses import replace

import pytest

from scheduler.adapters.kubernetes import names
from scheduler.domain.ids import Rank
from scheduler.domain.instants import seconds
from scheduler.domain.job import Outcome
from scheduler.ports.cluster import WorkerState
from tests.cluster.fault_proxy import ALWAYS, Fault, status
from tests.cluster.nodes import NODES
from tests.contract.cluster_worlds import RUNS, exits
from tests.kubernetes.faulty_world import KEY, FaultyWorld
from tests.polling import wait_until

MADE, RUNNING, ENDED, REFUSED = (
    WorkerState.MADE,
    WorkerState.RUNNING,
    WorkerState.ENDED,
    WorkerState.REFUSED,
)
PODS = r"/pods$"


@pytest.mark.parametrize("kind", ["pods", "configmaps", "services"])
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"is_dropped": True, "is_done": True}, id="done, the answer lost"),
        pytest.param({"is_dropped": True}, id="lost"),
        pytest.param({"is_doubled": True}, id="done twice"),
        pytest.param({"answer": status(500, "InternalError", "oops")}, id="500"),
        pytest.param({"answer": status(409, "Conflict", "changed")}, id="409"),
    ],
)
def test_k7_a_creation_of_unknown_outcome_makes_one_object(
    world: FaultyWorld, kind: str, fault: dict[str, bool]
) -> None:
    struck = world.proxy.add(Fault(method="POST", path=f"/{kind}$", times=2, **fault))  # type: ignore[arg-type]  # one of its fields
    world.prepare(RUNS, RUNS)
    world.wait_for(KEY, MADE, MADE)
    assert struck.hits >= 1
    assert len(world.place.pods()) == 2


def test_k7_a_name_that_another_object_has_is_told_and_not_touched(world: FaultyWorld) -> None:
    path = f"/api/v1/namespaces/{world.place.namespace}/configmaps"
    name = names.gang_name(KEY)
    world.place.objects.create(path, {"metadata": {"name": name}, "data": {"whose": "theirs"}})
    world.prepare(RUNS)
    world.wait_for(KEY, REFUSED)
    report = world.reports()[0]
    assert report.outcome is Outcome.SYSTEM_ERROR
    assert report.message.startswith("NameConflict")
    assert world.place.objects.get(f"{path}/{name}")["data"] == {"whose": "theirs"}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"is_dropped": True, "is_done": True}, id="done, the answer lost"),
        pytest.param({"is_doubled": True}, id="done twice"),
        pytest.param({"answer": status(409, "Conflict", "changed")}, id="409"),
        pytest.param({"answer": status(500, "InternalError", "oops")}, id="500"),
    ],
)
def test_a_gate_whose_opening_has_an_unknown_outcome_is_opened(
    world: FaultyWorld, fault: dict[str, bool]
) -> None:
    struck = world.proxy.add(Fault(method="PATCH", times=2, **fault))  # type: ignore[arg-type]  # one of its fields
    world.run(exits(0), exits(0))
    world.wait_for(KEY, ENDED, ENDED)
    assert struck.hits >= 1
    assert world.inner.runs_of("job-1") == 2


def test_k9_a_pod_that_a_paused_leader_makes_late_never_runs(world: FaultyWorld) -> None:
    late = world.proxy.add(Fault(method="POST", path=PODS, times=ALWAYS, delay_s=2.0))
    world.prepare(exits(0))
    wait_until(lambda: late.hits == 1, "its creation is on the way")
    world.cluster.release(KEY)
    # Another leader ends the attempt meanwhile, past the proxy.
    with world.inner.a_cluster(kubeconfig=world.control_plane.kubeconfig) as other:
        wait_until(lambda: other.is_well, "the other one sees everything")
        other.stop(KEY, kill_at=world.inner.in_time(seconds(0)))
        other.forget(KEY)
        anchor = f"/api/v1/namespaces/{world.place.namespace}/configmaps/{names.gang_name(KEY)}"
        wait_until(lambda: world.place.objects.find(anchor) is None, "the anchor is gone")
        world.stop_now()
        wait_until(lambda: world.place.pods() == [], "the late pod is collected")
    assert world.inner.runs_of("job-1") == 0


def test_k18_a_quota_that_refuses_is_told_in_its_own_words(world: FaultyWorld) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    path = f"/api/v1/namespaces/{world.place.namespace}/resourcequotas"
    world.place.objects.create(path, quota)

    def is_counted() -> bool:
        return "hard" in world.place.objects.get(f"{path}/none").get("status", {})

    wait_until(is_counted, "the quota is in force")
    world.prepare(RUNS, RUNS)
    world.wait_for(KEY, REFUSED, REFUSED)
    report = world.reports()[0]
    assert report.outcome is Outcome.ADMISSION_REJECTED
    assert "exceeded quota: none" in report.message
    asked = world.proxy.counts["POST pods"]
    world.inner.settle()
    assert world.proxy.counts["POST pods"] == asked == 2


@pytest.mark.parametrize("code", [422, 403, 400, 413])
def test_k18_a_webhook_that_refuses_is_told_in_its_own_words(world: FaultyWorld, code: int) -> None:
    answer = status(code, "Invalid", "denied by policy: no fun")
    world.proxy.add(Fault(method="POST", path=PODS, times=ALWAYS, answer=answer))
    world.prepare(RUNS)
    world.wait_for(KEY, REFUSED)
    assert world.reports()[0].message == "denied by policy: no fun"


def test_k19_a_storm_of_429_is_waited_out(world: FaultyWorld) -> None:
    storm = world.proxy.add(
        Fault(
            method="POST",
            times=3,
            answer=status(429, "TooManyRequests", "slow down"),
            headers={"Retry-After": "1"},
        )
    )
    began = time.monotonic()
    world.prepare(RUNS)
    world.wait_for(KEY, MADE)
    assert storm.hits == 3
    assert time.monotonic() - began >= 3.0


def test_k20_a_token_that_was_changed_is_read_again(world: FaultyWorld) -> None:
    world.make(RUNS)
    world.control_plane.write_kubeconfig(world.kubeconfig, url=world.proxy.url, token="fresh")  # noqa: S106 - made up
    world.proxy.token_wanted = "fresh"  # noqa: S105 - made up
    world.cluster.release(KEY)
    world.wait_for(KEY, RUNNING)
    assert world.cluster.observe().is_reachable


def test_k21_a_namespace_that_is_gone_is_told(world: FaultyWorld) -> None:
    world.place.objects.delete(f"/api/v1/namespaces/{world.place.namespace}")
    world.prepare(RUNS)
    world.wait_for(KEY, REFUSED)
    assert world.place.namespace in world.reports()[0].message
    assert world.reports()[0].outcome is Outcome.ADMISSION_REJECTED


def test_k24_a_gang_too_large_for_its_anchor_is_refused_with_the_number(
    world: FaultyWorld,
) -> None:
    noise = random.Random(0).randbytes(1_000_000).hex()
    order = world.inner.order([RUNS])
    role = order.spec.roles[0]
    words = tuple(noise[start : start + 100_000] for start in range(0, len(noise), 100_000))
    spec = replace(order.spec, roles=(replace(role, command=words),))
    world.cluster.prepare(replace(order, spec=spec))
    world.wait_for(KEY, REFUSED)
    report = world.reports()[0]
    assert report.outcome is Outcome.LAUNCH_FAILED
    assert re.search(r"takes \d{6,} bytes of at most \d+", report.message)
    assert world.proxy.counts["POST configmaps"] == 0


def test_k26_names_are_published_before_any_pod_is_there(world: FaultyWorld) -> None:
    hold = world.proxy.add(Fault(method="POST", path=PODS, times=ALWAYS, is_dropped=True))
    world.prepare(RUNS)
    wait_until(lambda: hold.hits > 0, "a pod is asked for")
    service = world.place.objects.get(
        f"/api/v1/namespaces/{world.place.namespace}/services/{names.gang_name(KEY)}"
    )
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    world.proxy.clear()
    world.wait_for(KEY, MADE)
    pod = world.pod()
    assert pod is not None
    assert pod["spec"]["subdomain"] == names.gang_name(KEY)
    assert pod["spec"]["hostname"] == names.pod_name(KEY, Rank(0))
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_k31_what_kube_scheduler_says_is_told_and_the_node_left_alone(world: FaultyWorld) -> None:
    world.make(RUNS)
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    world.place.objects.patch(f"{NODES}/n0", {"spec": {"taints": [taint]}})
    world.cluster.release(KEY)
    world.wait_for(KEY, REFUSED)
    report = world.reports()[0]
    assert report.outcome is Outcome.ADMISSION_REJECTED
    assert report.message.startswith("kube-scheduler: 0/2 nodes are available")
    world.place.objects.patch(f"{NODES}/n0", {"spec": {"taints": None}})
    wait_until(
        lambda: world.node().exclusion is not None and not world.node().taints,
        "the node is excluded for a while",
    )
    wait_until(lambda: world.place.pods() == [], "the pod is not there any more")
    assert world.inner.runs_of("job-1") == 0


def test_a_gang_costs_no_more_requests_than_it_must(world: FaultyWorld) -> None:
    before = world.proxy.counts.copy()
    key = world.make(*[RUNS] * 8)
    world.cluster.release(key)
    world.wait_for(key, *[RUNNING] * 8)
    asked = world.proxy.counts - before
    made = {kind: asked[f"POST {kind}"] for kind in ("configmaps", "services", "pods")}
    assert made == {"configmaps": 1, "services": 1, "pods": 8}
    assert asked["PATCH pods"] <= 2 * 8
