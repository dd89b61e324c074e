"""What the reflector survives (K1 to K6, K10, K11, K19, K29): nothing is lost, nothing believed
too soon, and the API server is not asked in a tight loop."""

import time
from dataclasses import replace

import pytest

from scheduler.adapters.kubernetes.access import Access
from scheduler.adapters.kubernetes.budget import Budget
from scheduler.adapters.kubernetes.cache import ObjectCache
from scheduler.adapters.kubernetes.client import ApiServer
from scheduler.adapters.kubernetes.objects import name_of
from scheduler.adapters.kubernetes.watch import Reflector, Resource, collection
from scheduler.ports.cluster import WorkerState
from tests.cluster.fault_proxy import (
    ALWAYS,
    Fault,
    emptied,
    expired_event,
    halved,
    status,
    without,
)
from tests.contract.cluster_worlds import RUNS, exits
from tests.kubernetes.faulty_world import KEY, WATCH, FaultyWorld
from tests.polling import wait_until

OUR_PODS = r"/namespaces/[^/]+/pods\?"
MADE, RUNNING, ENDED, GONE = (
    WorkerState.MADE,
    WorkerState.RUNNING,
    WorkerState.ENDED,
    WorkerState.GONE,
)


def force_away(world: FaultyWorld) -> None:
    """As somebody with `kubectl delete --force`."""
    world.place.objects.delete(world.pod_path(), grace_s=0)


def test_k1_a_watch_that_falls_silent_is_opened_again(world: FaultyWorld) -> None:
    world.make(exits(3))
    silent = world.proxy.add(Fault(path=OUR_PODS, is_watch=True, is_silent=True))
    wait_until(lambda: silent.hits == 1, "the watch is silent")
    world.cluster.release(KEY)
    world.wait_for(KEY, ENDED)
    assert world.reports()[0].exit_code == 3


def test_k2_a_version_that_expired_is_answered_by_a_new_list(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    gone = world.proxy.add(
        Fault(path=OUR_PODS, is_watch=True, times=ALWAYS, answer=expired_event())
    )
    wait_until(lambda: gone.hits >= 1, "the watch has expired")
    force_away(world)
    world.wait_for(KEY, GONE)


def test_k2_a_version_that_expires_again_and_again_makes_no_tight_loop(world: FaultyWorld) -> None:
    maps = collection(world.place.namespace, "configmaps")
    gone = world.proxy.add(Fault(path=maps, is_watch=True, times=ALWAYS, answer=expired_event()))
    server = ApiServer(Access(kubeconfig=world.kubeconfig), Budget(100.0))
    times = replace(WATCH, retry_s_min=1.0, retry_s_max=1.0)
    reflector = Reflector(server, Resource(path=maps), ObjectCache(lambda _: None), times=times)
    reflector.start()
    wait_until(lambda: gone.hits >= 1, "the watch has expired")
    began, hits = time.monotonic(), gone.hits
    wait_until(lambda: gone.hits >= hits + 3, "it goes on trying")
    took_s = time.monotonic() - began
    reflector.close()
    server.close()
    assert took_s >= 3 * times.retry_s_min / 2


def test_k3_a_watch_that_ends_at_once_without_a_word_counts_as_expired(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    blink = world.proxy.add(Fault(path=OUR_PODS, is_watch=True, times=ALWAYS, answer=(200, b"")))
    wait_until(lambda: blink.hits >= 1, "the watch ends at once")
    force_away(world)
    world.wait_for(KEY, GONE)


def test_k5_a_deletion_that_no_event_told_is_found_by_the_next_list(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    world.proxy.add(Fault(path=OUR_PODS, is_watch=True, times=ALWAYS, each_line=without("DELETED")))
    lists = world.proxy.counts["GET pods"]
    wait_until(lambda: world.proxy.counts["GET pods"] > lists, "the watch is a new one")
    force_away(world)
    world.proxy.add(Fault(path=OUR_PODS, is_watch=True, answer=expired_event()))
    world.proxy.faults.reverse()
    world.wait_for(KEY, GONE)


def test_k6_a_watch_that_lags_behind_makes_no_pod_twice(world: FaultyWorld) -> None:
    lag = world.proxy.add(Fault(path=OUR_PODS, is_watch=True, times=ALWAYS, is_silent=True))
    wait_until(lambda: lag.hits >= 1, "the watch tells nothing")
    world.make(RUNS, RUNS, RUNS)
    world.inner.settle()
    assert world.proxy.counts["POST pods"] == 3


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(path="continue=", answer=status(410, "Expired", "")), id="expired"),
        pytest.param(Fault(path="continue=", rewrite=halved), id="cut off"),
        pytest.param(Fault(path="continue=", is_dropped=True), id="dropped"),
        pytest.param(Fault(path="continue=", answer=status(500, "", "")), id="error"),
        pytest.param(Fault(path="continue=", rewrite=emptied), id="empty"),
    ],
)
def test_k10_a_list_that_breaks_between_its_pages_loses_nothing(
    world: FaultyWorld, fault: Fault
) -> None:
    maps = collection(world.place.namespace, "configmaps")
    for number in range(5):
        world.place.objects.create(maps, {"metadata": {"name": f"m{number}"}})
    world.proxy.add(fault)
    gone: list[str] = []
    cache = ObjectCache(
        lambda changes: gone.extend(
            name_of(c.before) for c in changes if c.after is None and c.before is not None
        )
    )
    server = ApiServer(Access(kubeconfig=world.kubeconfig), Budget(100.0))
    reflector = Reflector(server, Resource(path=maps, page=2), cache, times=WATCH)
    reflector.start()
    wait_until(lambda: reflector.lists >= 1, "it has been listed")
    found = [name_of(each) for each in cache.all()]
    reflector.close()
    server.close()
    assert fault.hits == 1
    assert gone == []
    assert [name for name in found if name.startswith("m")] == [f"m{n}" for n in range(5)]


@pytest.mark.parametrize("lists", [1, 2], ids=["once", "twice"])
def test_k11_an_empty_list_takes_no_pod_away(world: FaultyWorld, lists: int) -> None:
    world.run(*[RUNS] * 3)
    world.wait_for(KEY, RUNNING, RUNNING, RUNNING)
    empty = world.proxy.add(Fault(path=OUR_PODS, rewrite=emptied, times=lists))
    world.proxy.add(Fault(path=OUR_PODS, is_watch=True, answer=expired_event()))
    wait_until(lambda: empty.hits > 0, "a list was empty")
    before = world.proxy.counts["GET pods"]
    wait_until(lambda: world.proxy.counts["GET pods"] > before + 2, "it was looked at again")
    assert world.states() == [RUNNING, RUNNING, RUNNING]


def test_k11_a_list_that_is_forbidden_says_nothing_of_pods(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    world.proxy.add(
        Fault(path=OUR_PODS, times=ALWAYS, answer=status(403, "Forbidden", "no rights"))
    )
    world.proxy.add(
        Fault(path=OUR_PODS, is_watch=True, times=ALWAYS, answer=status(403, "Forbidden", "no"))
    )
    wait_until(lambda: not world.cluster.observe().is_reachable, "it is told as an outage")
    assert world.states() == [RUNNING]
    world.proxy.clear()
    wait_until(lambda: world.cluster.observe().is_reachable, "it is over")
    assert world.states() == [RUNNING]


def test_a_watch_that_is_cut_in_the_middle_of_an_event_loses_none(world: FaultyWorld) -> None:
    world.proxy.add(Fault(path=OUR_PODS, is_watch=True, times=5, lines_max=1))
    world.run(exits(4), exits(4))
    world.wait_for(KEY, ENDED, ENDED)
    assert [report.exit_code for report in world.reports()] == [4, 4]


def test_k29_an_api_server_that_is_replaced_is_found_again(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    world.control_plane.restart_api_server()
    force_away(world)
    world.wait_for(KEY, GONE)


def test_p7_an_outage_changes_nothing_that_runs(world: FaultyWorld) -> None:
    world.run(RUNS)
    world.wait_for(KEY, RUNNING)
    before = world.pod()
    for method, is_watch in (("GET", False), ("GET", True), ("POST", False), ("DELETE", False)):
        world.proxy.add(Fault(method=method, is_watch=is_watch, is_dropped=True, times=ALWAYS))
    wait_until(lambda: not world.cluster.observe().is_reachable, "it is told")
    assert world.states() == [RUNNING]
    world.proxy.clear()
    wait_until(lambda: world.cluster.observe().is_reachable, "it is over")
    after = world.pod()
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert world.states() == [RUNNING]
