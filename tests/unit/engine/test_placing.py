"""Where gangs go on small clusters."""

from dataclasses import replace

import pytest

from scheduler.domain.gang import GangRequest, NodeFilter
from scheduler.domain.ids import GpuModel, LevelName, NodeName, PoolName, RoleName
from scheduler.domain.job import Slice
from scheduler.domain.knobs import Algorithm
from scheduler.domain.placement import (
    LevelMissing,
    NeverFits,
    Placement,
    PoolMissing,
    TooFewGpus,
)
from scheduler.domain.resources import Resources
from scheduler.domain.topology import Level, Node, topology_tree
from scheduler.engine.choosing import Rules
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang, placement_of
from tests.builders import a_node
from tests.pads import a_gang, a_pad, a_role_request, spots
from tests.placements import broken_promises

NODE, RACK, BLOCK, CLUSTER = range(4)


def placed(gang: GangRequest, free: FreeGpus, rules: Rules | None = None) -> Placement:
    """The placement, which keeps all promises."""
    answer = place_gang(gang, free, rules) if rules else place_gang(gang, free)
    assert isinstance(answer, Placement), answer
    assert broken_promises(answer, gang, free) == []
    return answer


def a_free(*nodes: Node) -> FreeGpus:
    """A pad of these nodes, all free; one level of racks."""
    levels = [Level(name=LevelName("rack"), label="rack")]
    return FreeGpus(topology_tree(levels, nodes), nodes)


@pytest.mark.parametrize(
    ("picture", "gang", "expected", "tier"),
    [
        pytest.param("r1: 4 8", a_gang(1, 4), {"r1-n0": 1}, NODE, id="tightest node wins"),
        pytest.param("r1: 8 4", a_gang(2, 2), {"r1-n1": 2}, NODE, id="workers share a node"),
        pytest.param("r1: 8\nr2: 8", a_gang(2), {"r1-n0": 1, "r2-n0": 1}, 2, id="across racks"),
        pytest.param(
            "r1: 8 8 8\nr2: 8 8", a_gang(2), {"r2-n0": 1, "r2-n1": 1}, RACK, id="tightest rack"
        ),
        pytest.param(
            "b1/r1: 8\nb1/r2: 8\nb2/r3: 8 8\nb2/r4: 8",
            a_gang(2),
            {"b2-r3-n0": 1, "b2-r3-n1": 1},
            RACK,
            id="a rack before a tighter block",
        ),
        pytest.param(
            "b1/r1: 8 8\nb1/r2: 8 8\nb2/r3: 8 8\nb2/r4: 8",
            a_gang(3),
            {"b2-r3-n0": 1, "b2-r3-n1": 1, "b2-r4-n0": 1},
            BLOCK,
            id="tightest block, fullest rack first",
        ),
        pytest.param(
            "r1: 8 2 4", a_gang(10, 1), {"r1-n0": 8, "r1-n1": 2}, RACK, id="the last node is tight"
        ),
        pytest.param(
            "r1: 7 4 5", a_gang(2, 4), {"r1-n1": 1, "r1-n2": 1}, RACK, id="little is left over"
        ),
        pytest.param(
            "?: 8 8\nr1: 8\nr2: 8",
            a_gang(2),
            {"?-n0": 1, "?-n1": 1},
            2,
            id="an unknown rack promises nothing, so the tier is the cluster",
        ),
        pytest.param(
            "?: 8 8\nr1: 8 8", a_gang(2, required="rack"), {"r1-n0": 1, "r1-n1": 1}, RACK,
            id="an unknown rack is no rack",
        ),
        pytest.param(
            "r1: 8 8\nr2: 8 8",
            a_gang(2, excluded=["r1-n1"]),
            {"r2-n0": 1, "r2-n1": 1},
            RACK,
            id="around an excluded node",
        ),
    ],
)  # fmt: skip
def test_a_gang_goes_to(
    picture: str, gang: GangRequest, expected: dict[str, int], tier: int
) -> None:
    placement = placed(gang, a_pad(picture))

    assert spots(placement) == expected
    assert placement.tier == tier


@pytest.mark.parametrize(
    ("picture", "gang", "expected"),
    [
        pytest.param(
            "r1: 3 1\nr2: 4",
            a_gang(4, 1, slices=[(2, "rack")]),
            {"r2-n0": 4},
            id="a gang on one node needs no rule",
        ),
        pytest.param(
            "r1: 3\nr2: 3\nr3: 2",
            a_gang(4, 1, slices=[(2, "rack")]),
            {"r1-n0": 2, "r3-n0": 2},
            id="slices stay whole",
        ),
        pytest.param(
            "r1: 3 3 2\nr2: 8",
            a_gang(8, 1, slices=[(4, "rack"), (2, "node")]),
            {"r2-n0": 8},
            id="inner slices as well",
        ),
        pytest.param(
            "b1/r1: 3 3\nb1/r2: 2 2\nb1/r3: 3 1",
            a_gang(8, 1, slices=[(4, "rack"), (2, "node")]),
            {"b1-r1-n0": 2, "b1-r1-n1": 2, "b1-r2-n0": 2, "b1-r2-n1": 2},
            id="a host with room for one and a half holds one",
        ),
        pytest.param(
            "r1: 8\nr2: 8\nr3: 8",
            a_gang(6, 1, spread=("rack", 2)),
            {"r1-n0": 2, "r2-n0": 2, "r3-n0": 2},
            id="no rack gets more than the spread allows",
        ),
        pytest.param(
            "b1/?: 8\nb2/r1: 8",
            a_gang(2, 1, spread=("block", 1)),
            {"b1-?-n0": 1, "b2-r1-n0": 1},
            id="a spread over blocks does not ask for the rack",
        ),
        pytest.param(
            "b1/?: 3 3",
            a_gang(4, 1, slices=[(4, "block"), (2, "node")]),
            {"b1-?-n0": 2, "b1-?-n1": 2},
            id="slices within block and node do not ask for the rack",
        ),
        pytest.param(
            "r1: 8",
            a_gang(2, 1, spread=("rack", 4)),
            {"r1-n0": 2},
            id="no bound",
        ),
    ],
)
def test_workers_stay_together_or_apart(
    picture: str, gang: GangRequest, expected: dict[str, int]
) -> None:
    assert spots(placed(gang, a_pad(picture))) == expected


@pytest.mark.parametrize(
    ("picture", "gang"),
    [
        pytest.param("r1: 3\nr2: 1", a_gang(4, 1, slices=[(2, "rack")]), id="half a slice is none"),
        pytest.param("?: 3\nr1: 2", a_gang(4, 1, slices=[(2, "rack")]), id="not in an unknown"),
        pytest.param("r1: 8\nr2: 8", a_gang(5, 1, spread=("rack", 2)), id="too few racks"),
        pytest.param("?: 8\nr1: 8", a_gang(4, 1, spread=("rack", 2)), id="unknown may be the same"),
        pytest.param("r1: 8\nr2: 8", a_gang(2, required="rack"), id="not within one rack"),
        pytest.param("r1: 4 4", a_gang(2, 4, required="node"), id="not on one node"),
    ],
)
def test_a_gang_has_no_place(picture: str, gang: GangRequest) -> None:
    assert isinstance(place_gang(gang, a_pad(picture)), TooFewGpus | NeverFits)


ANY_RULES = [
    pytest.param(
        Rules(algorithm=algorithm, is_anywhere=is_anywhere),
        id=f"{algorithm.value}{' anywhere' * is_anywhere}",
    )
    for algorithm in Algorithm
    for is_anywhere in (False, True)
]


@pytest.mark.parametrize("rules", ANY_RULES)
@pytest.mark.parametrize("gpus", [0, 1])
def test_a_spread_holds_however_nodes_are_chosen(rules: Rules, gpus: int) -> None:
    gang = a_gang(2, gpus, spread=("rack", 1))

    apart = spots(placed(gang, a_pad("b1/r1: 1 1\nb1/r2: 1 1"), rules))
    assert sorted(name.rpartition("-")[0] for name in apart) == ["b1-r1", "b1-r2"]
    assert not isinstance(place_gang(gang, a_pad("b1/r1: 1 1"), rules), Placement)
    within = replace(gang, required=LevelName("rack"))
    assert not isinstance(place_gang(within, a_pad("b1/r1: 1 1\nb1/r2: 1 1"), rules), Placement)


def test_slices_of_one_worker_bind_nothing() -> None:
    alone = (Slice(workers=1, within=LevelName("rack")),)
    large = replace(a_role_request("large", gpus=3), slices=alone)
    gang = a_gang(roles=[a_role_request(gpus=1), large])

    assert spots(placed(gang, a_pad("?: 3\nr1: 1")), "large") == {"?-n0": 1}


def test_gangs_on_the_uplink_decide_between_equal_racks() -> None:
    pair = a_gang(2, 4)
    free = a_pad("r1: 8 8\nr2: 8 8\nr3: 8 8")
    free.take(_across(free, "r1-n0", "r3-n0"), pair)
    # The same GPUs are free everywhere again; only the uplinks of r1 and r3 are in use.
    for name in ("r1-n0", "r3-n0"):
        free.release_worker(NodeName(name), 4)

    assert spots(placed(a_gang(2), free)) == {"r2-n0": 1, "r2-n1": 1}


def test_gangs_on_the_uplink_decide_between_equal_nodes() -> None:
    free = a_pad("r1: 8 8 4/8")
    free.take(_across(free, "r1-n0", "r1-n1"), a_gang(2, 4))

    assert spots(placed(a_gang(1, 4), free)) == {"r1-n2": 1}


def _across(free: FreeGpus, *names: str) -> Placement:
    """A gang with one worker on each of these nodes."""
    return placement_of(
        {RoleName("worker"): {NodeName(name): 1 for name in names}},
        a_gang(len(names), 4),
        free.tree,
    )


def test_ranks_follow_roles_then_topology() -> None:
    launcher = a_role_request("launcher", gpus=0)
    gang = a_gang(roles=[launcher, a_role_request(workers=3)])
    ranks = list(placed(gang, a_pad("r2: 8\nr1: 8 8")).node_of_ranks())

    assert [role for role, _ in ranks] == ["launcher", "worker", "worker", "worker"]
    assert [node for _, node in ranks[1:]] == ["r1-n0", "r1-n1", "r2-n0"]


def test_a_lone_worker_goes_where_it_displaces_nobody() -> None:
    nodes = [
        a_node("n0", gpus=2, resources=Resources(cpu_milli=2_000)),
        a_node("n1", gpus=2, resources=Resources(cpu_milli=3_000)),
    ]
    each = Resources(cpu_milli=1_000)
    gang = a_gang(
        roles=[
            a_role_request("launcher", gpus=0, resources=each),
            a_role_request(workers=4, gpus=1, resources=each),
        ]
    )
    placement = placed(gang, a_free(*nodes))

    assert spots(placement, "launcher") == {"n1": 1}
    assert spots(placement) == {"n0": 2, "n1": 2}


def test_several_roles_share_the_closest_domain() -> None:
    servers = a_role_request("ps", workers=2, gpus=0, resources=Resources(cpu_milli=4_000))
    gang = a_gang(roles=[a_role_request(workers=2), servers, a_role_request("chief", gpus=0)])
    big = Resources(cpu_milli=4_000)
    free = a_free(
        *(a_node(f"a{n}", path=("r1",), resources=big) for n in range(2)),
        *(a_node(f"b{n}", path=("r2",)) for n in range(2)),
    )

    assert set(spots(placed(gang, free))) == {"a0", "a1"}
    assert set(spots(placed(gang, free), "ps")) == {"a0", "a1"}


def test_when_one_role_after_another_fails_every_way_is_tried() -> None:
    trainer = a_role_request("trainer", workers=2, gpus=1, resources=Resources(cpu_milli=1))
    servers = a_role_request("ps", workers=2, gpus=0, resources=Resources(cpu_milli=3))
    gang = a_gang(roles=[trainer, servers])
    free = a_free(
        a_node("n0", gpus=2, resources=Resources(cpu_milli=3)),
        a_node("n1", gpus=2, resources=Resources(cpu_milli=3)),
        a_node("n2", gpus=2, resources=Resources(cpu_milli=2)),
    )

    assert placed(gang, free).tier == RACK


def test_models_are_not_mixed_unless_the_job_says_so() -> None:
    free = a_free(a_node("n0", gpu_model="A"), a_node("n1", gpu_model="B"))
    pair = a_gang(2)

    assert isinstance(place_gang(pair, free), NeverFits)
    assert spots(placed(replace(pair, mixes_models=True), free)) == {"n0": 1, "n1": 1}
    assert spots(placed(a_gang(models=["B", "A"]), free)) == {"n1": 1}
    assert isinstance(place_gang(a_gang(models=["C"]), free), NeverFits)


def test_the_first_acceptable_model_is_taken_at_the_closest_level_only() -> None:
    free = a_free(
        a_node("n0", gpu_model="A", gpus=4),
        a_node("n1", gpu_model="A", gpus=4),
        a_node("n2", gpu_model="B", gpus=8),
    )

    assert spots(placed(a_gang(2, 4, models=["A", "B"]), free)) == {"n2": 2}


def test_pools_and_filters_fence_nodes() -> None:
    free = a_free(a_node("n0"), a_node("n1", pool="other"), a_node("n2"))
    role = a_role_request()

    assert spots(placed(a_gang(roles=[replace(role, pool=PoolName("other"))]), free)) == {"n1": 1}
    only = NodeFilter(reason="BoundVolume", allowed=frozenset({NodeName("n2")}))
    assert spots(placed(a_gang(roles=[replace(role, filters=(only,))]), free)) == {"n2": 1}
    assert place_gang(a_gang(roles=[replace(role, pool=PoolName("none"))]), free) == PoolMissing(
        pool=PoolName("none")
    )


def test_a_level_the_cluster_has_not_is_named() -> None:
    answer = place_gang(a_gang(required="spine"), a_pad("r1: 8"))

    assert answer == LevelMissing(
        level=LevelName("spine"),
        levels=(LevelName("node"), LevelName("rack"), LevelName("cluster")),
    )


def test_other_resources_and_seats_bind() -> None:
    rdma = Resources(extended=(("rdma", 2),))
    free = a_free(
        replace(a_node("n0", gpus=4), resources=Resources(extended=(("rdma", 3),))),
        replace(a_node("n1", gpus=4), resources=Resources(extended=(("rdma", 8),)), workers_max=2),
    )

    assert spots(placed(a_gang(3, 1, resources=rdma), free)) == {"n0": 1, "n1": 2}


def test_least_free_fills_the_smallest_holes_first() -> None:
    rules = Rules(algorithm=Algorithm.LEAST_FREE, is_anywhere=True)
    free = a_pad("r1: 1 4\nr2: 1 2")

    assert spots(placed(a_gang(5, 1), free, rules)) == {
        "r1-n0": 1,
        "r1-n1": 1,
        "r2-n0": 1,
        "r2-n1": 2,
    }
    assert spots(placed(a_gang(3, 1), free, rules)) == {"r1-n1": 3}


def test_balanced_gives_the_used_domains_nearly_the_same() -> None:
    rules = Rules(algorithm=Algorithm.BALANCED, starts_at=LevelName("rack"))
    free = a_pad("b1/r1: 15\nb1/r2: 15\nb1/r3: 15")

    assert spots(placed(a_gang(25, 1), free, rules)) == {"b1-r1-n0": 13, "b1-r2-n0": 12}


def test_preferred_nodes_come_before_the_tightest() -> None:
    gang = replace(a_gang(1, 2), preferences={NodeName("r1-n1"): 5})

    assert spots(placed(gang, a_pad("r1: 2 8"))) == {"r1-n1": 1}


def test_a_trial_undoes_itself() -> None:
    free = a_pad("r1: 8")
    placement = placed(a_gang(), free)

    with free.trial():
        free.take(placement, a_gang())
        assert isinstance(place_gang(a_gang(), free), TooFewGpus)

    assert place_gang(a_gang(), free) == placement


def test_more_held_than_there_is_counts_as_nothing_and_is_told() -> None:
    free = a_pad("r1: 2/2")
    free.take_worker(NodeName("r1-n0"), 3)

    assert free.gpus_on(NodeName("r1-n0")) == 0
    assert free.overdrawn() == ((NodeName("r1-n0"), "gpus"),)
    free.release_worker(NodeName("r1-n0"), 3)
    assert free.gpus_on(NodeName("r1-n0")) == 2
    assert free.overdrawn() == ()


def test_models_of_nodes_without_gpus_do_not_count() -> None:
    free = a_free(a_node("n0", gpus=0, gpu_model="X"), a_node("n1", gpu_model="A"))

    assert free.models == (GpuModel("A"),)
