"""The numbers of a no."""

from dataclasses import replace

import pytest

from scheduler.domain.explain import explain
from scheduler.domain.gang import GangRequest, NodeFilter
from scheduler.domain.ids import LevelName, NodeName
from scheduler.domain.placement import Blocked, NeverFits, TooFewGpus
from scheduler.domain.resources import Resources
from scheduler.domain.topology import Level, Node, topology_tree
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang
from tests.builders import a_node, an_exclusion
from tests.pads import a_gang, a_pad, a_role_request
from tests.placements import any_way

BIG = Resources(cpu_milli=64_000, memory_bytes=64)


def a_free(*nodes: Node) -> FreeGpus:
    """A pad of these nodes, all free; one level of racks."""
    return FreeGpus(topology_tree([Level(name=LevelName("rack"), label="rack")], nodes), nodes)


def refused(gang: GangRequest, free: FreeGpus) -> TooFewGpus | NeverFits:
    """The answer, which is no, and whose counts add up."""
    answer: object = place_gang(gang, free)
    assert isinstance(answer, TooFewGpus | NeverFits), answer
    assert sum(answer.nodes_by_reason.values()) == answer.nodes == len(free.nodes)
    return answer


def test_each_node_is_counted_once_by_what_keeps_it_away() -> None:
    free = a_free(
        a_node("full", gpus=2, resources=BIG),
        a_node("cordoned", is_cordoned=True),
        a_node("lost", is_ready=False),
        replace(a_node("tainted"), taints=("a=b:NoSchedule",)),
        replace(a_node("alone"), exclusion=an_exclusion()),
        a_node("pool", pool="other"),
        a_node("cpu", resources=Resources(memory_bytes=64)),
        a_node("memory", resources=Resources(cpu_milli=64_000)),
        replace(a_node("seats", resources=BIG), workers_max=0),
        a_node("plain", gpus=0),
        a_node("fits", resources=BIG),
        a_node("out", resources=BIG),
        a_node("filtered", resources=BIG),
        replace(a_node("beyond", resources=BIG), volumes_beyond=frozenset({"jobs/c"})),
    )
    names = frozenset(NodeName(node.name) for node in free.nodes if node.name != "filtered")
    role = replace(
        a_role_request(workers=2, gpus=4, resources=Resources(cpu_milli=40_000, memory_bytes=1)),
        pool=free.nodes[0].pool,
        filters=(NodeFilter(reason="OutsideTheRoom", allowed=names),),
        claims=("jobs/a", "jobs/c"),
    )

    assert refused(
        a_gang(roles=[role], excluded=["out"], required="node"), free
    ).nodes_by_reason == {
        "BoundVolume": 1,
        "Cordoned": 1,
        "Excluded": 1,
        "Fits": 1,
        "LeftAlone": 1,
        "NoGpus": 1,
        "NotReady": 1,
        "OtherPool": 1,
        "OutsideTheRoom": 1,
        "Tainted": 1,
        "TooFewGpus": 1,
        "TooLittleCpu": 1,
        "TooLittleMemory": 1,
        "TooManyWorkers": 1,
    }


def test_workers_that_fit_are_told_for_each_level() -> None:
    answer = refused(a_gang(8), a_pad("b1/r1: 8 8 4\nb1/r2: 8\nb2/r3: 8"))

    assert isinstance(answer, NeverFits)
    free = a_pad("b1/r1: 8 8 0/8\nb1/r2: 8 0/8 0/8\nb2/r3: 8 0/8")
    answer = refused(a_gang(5), free)
    assert isinstance(answer, TooFewGpus)
    assert answer.workers_fit_by_level == {"node": 1, "rack": 2, "block": 3, "cluster": 4}
    assert (answer.level, answer.workers_wanted, answer.workers_fit_max) == ("cluster", 5, 4)


def test_the_role_that_finds_the_least_room_is_named() -> None:
    servers = a_role_request("ps", workers=3, gpus=0, resources=Resources(cpu_milli=4_000))
    gang = a_gang(roles=[a_role_request(), servers])
    answer = refused(gang, a_free(a_node("n0", resources=Resources(cpu_milli=8_000))))

    assert (answer.role, answer.workers_wanted, answer.workers_fit_max) == ("ps", 3, 2)


def test_roles_that_fit_alone_and_not_together_say_so() -> None:
    each = Resources(cpu_milli=6_000)
    gang = a_gang(
        roles=[a_role_request(resources=each), a_role_request("b", gpus=0, resources=each)]
    )
    answer = refused(gang, a_free(a_node("n0", resources=Resources(cpu_milli=8_000))))

    assert answer.workers_fit_max == answer.workers_wanted - 1


def test_waiting_helps_unless_the_empty_cluster_is_too_small() -> None:
    out_of_use = a_free(a_node("n0", is_cordoned=True), a_node("n1", is_ready=False))
    foreign = a_free(replace(a_node("n0", gpus=2), gpus_foreign=6))

    assert isinstance(place_gang(a_gang(2), out_of_use), TooFewGpus)
    assert isinstance(place_gang(a_gang(3), out_of_use), NeverFits)
    assert isinstance(place_gang(a_gang(1), foreign), TooFewGpus)
    assert isinstance(place_gang(a_gang(1, 9), foreign), NeverFits)


def test_equal_needs_are_told_anew_when_something_has_changed() -> None:
    free = a_pad("r1: 8 4")
    before = refused(a_gang(2, 8), free)
    free.take_worker(NodeName("r1-n0"), 1)
    after = refused(a_gang(2, 8), free)

    assert before.nodes_by_reason == {"Fits": 1, "TooFewGpus": 1}
    assert after.nodes_by_reason == {"TooFewGpus": 2}


@pytest.mark.parametrize(
    "reason", ["BoundVolume", "Tainted", "LeftAlone", "TooLittleCpu", "TooManyWorkers", "NoGpus"]
)
def test_every_reason_has_words(reason: str) -> None:
    blocked: Blocked = NeverFits(
        level=LevelName("rack"),
        workers_wanted=2,
        workers_fit_max=0,
        nodes=1,
        nodes_by_reason={reason: 1},
    )

    assert reason not in explain(blocked)


def test_never_is_not_said_of_roles_that_another_order_would_have_seated() -> None:
    # The servers are seated first and take the seats beside the only GPU; on n1 they would not.
    seats = [
        Node(name=NodeName(f"n{number}"), gpus=1 - number, workers_max=2, path=(f"r{number}",))
        for number in range(2)
    ]
    free = a_free(*seats)
    gang = a_gang(
        roles=[
            a_role_request("servers", workers=2, gpus=0, slices=[(2, "rack")]),
            a_role_request("trainer", workers=1, gpus=1),
            a_role_request("logger", workers=1, gpus=0),
        ]
    )
    assert any_way(gang, free)

    assert not isinstance(place_gang(gang, free), NeverFits)
