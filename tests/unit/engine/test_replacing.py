"""Gangs that change while they keep what they have."""

import pytest

from scheduler.domain.gang import GangRequest
from scheduler.domain.ids import NodeName
from scheduler.domain.placement import NeverFits, Placement, TooFewGpus
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import placement_of
from scheduler.engine.replacing import replace_lost, resize_gang
from tests.pads import a_gang, a_pad, a_role_request, spots
from tests.placements import broken_promises


def running(free: FreeGpus, gang: GangRequest, **workers_by_node: int) -> Placement:
    """The gang runs there (names with _ for -) and holds its GPUs."""
    role = gang.roles[0].name
    nodes = {NodeName(name.replace("_", "-")): count for name, count in workers_by_node.items()}
    placement = placement_of({role: nodes}, gang, free.tree)
    free.take(placement, gang)
    return placement


def replaced(
    gang: GangRequest, before: Placement, lost: str, free: FreeGpus
) -> dict[str, int] | None:
    """Where the workers are after the node is lost; None if they find no place."""
    name = NodeName(lost)
    for assignment in before.assignments:
        if assignment.node == name:
            free.release_worker(name, assignment.workers * gang.roles[0].gpus)
    answer = replace_lost(gang, before, frozenset({name}), free)
    if not isinstance(answer, Placement):
        return None
    assert NodeName(lost) not in spots(answer)
    return spots(answer)


@pytest.mark.parametrize(
    ("picture", "gang", "before", "expected"),
    [
        pytest.param(
            "r1: 8 8 8\nr2: 8",
            a_gang(2),
            {"r1_n0": 1, "r1_n1": 1},
            {"r1-n1": 1, "r1-n2": 1},
            id="near the workers that stay, though another rack is tighter",
        ),
        pytest.param(
            "r1: 8 8\nr2: 8",
            a_gang(2),
            {"r1_n0": 1, "r1_n1": 1},
            {"r1-n1": 1, "r2-n0": 1},
            id="in another rack if need be",
        ),
        pytest.param(
            "r1: 8 8\nr2: 8",
            a_gang(2, required="rack"),
            {"r1_n0": 1, "r1_n1": 1},
            None,
            id="not outside the required rack",
        ),
        pytest.param(
            "r1: 8 8\nr2: 8\nr3: 8",
            a_gang(3, 1, spread=("rack", 2)),
            {"r1_n0": 2, "r2_n0": 1},
            {"r2-n0": 2, "r1-n1": 1},
            id="no more in a rack than the spread allows, those that stay counted",
        ),
        pytest.param(
            "r1: 8\nr2: 8",
            a_gang(2, 1, spread=("rack", 1)),
            {"r1_n0": 1, "r2_n0": 1},
            None,
            id="not beside the one that stays, if the spread says so",
        ),
        pytest.param(
            "r1: 1 1 1\nr2: 1 1",
            a_gang(4, 1, slices=[(2, "rack")]),
            {"r1_n0": 1, "r1_n1": 1, "r2_n0": 1, "r2_n1": 1},
            {"r1-n1": 1, "r1-n2": 1, "r2-n0": 1, "r2-n1": 1},
            id="inside the slice that is broken",
        ),
        pytest.param(
            "r1: 1 1\nr2: 1 1\nr3: 1 1",
            a_gang(4, 1, slices=[(2, "rack")]),
            {"r1_n0": 1, "r1_n1": 1, "r2_n0": 1, "r2_n1": 1},
            None,
            id="not outside it",
        ),
        pytest.param(
            "r1: 2\nr2: 2\nr3: 2",
            a_gang(4, 1, slices=[(2, "rack")]),
            {"r1_n0": 2, "r2_n0": 2},
            {"r2-n0": 2, "r3-n0": 2},
            id="a whole slice may move",
        ),
    ],
)
def test_a_lost_node_is_replaced(
    picture: str, gang: GangRequest, before: dict[str, int], expected: dict[str, int] | None
) -> None:
    free = a_pad(picture)
    placement = running(free, gang, **before)

    assert replaced(gang, placement, "r1-n0", free) == expected


def test_several_lost_nodes_mend_each_their_slice() -> None:
    gang = a_gang(4, 1, slices=[(2, "rack")])
    free = a_pad("r1: 1 1 1\nr2: 1 1 1")
    before = running(free, gang, r1_n0=1, r1_n1=1, r2_n0=1, r2_n1=1)
    lost = frozenset({NodeName("r1-n0"), NodeName("r2-n1")})
    answer = replace_lost(gang, before, lost, free)

    assert isinstance(answer, Placement)
    assert spots(answer) == {"r1-n1": 1, "r1-n2": 1, "r2-n0": 1, "r2-n2": 1}


def test_nothing_is_taken_by_asking() -> None:
    gang = a_gang(2)
    free = a_pad("r1: 8 8 8")
    before = running(free, gang, r1_n0=1, r1_n1=1)
    left = list(free.gpus)
    replace_lost(gang, before, frozenset({NodeName("r1-n0")}), free)

    assert free.gpus == left


def test_added_workers_go_beside_the_others() -> None:
    free = a_pad("r1: 8 8\nr2: 8")
    before = running(free, a_gang(1), r1_n0=1)
    grown = resize_gang(a_gang(2), before, free)

    assert isinstance(grown, Placement)
    assert spots(grown) == {"r1-n0": 1, "r1-n1": 1}
    assert isinstance(resize_gang(a_gang(4), before, free), TooFewGpus | NeverFits)


def test_given_up_are_the_last_in_rank_order() -> None:
    free = a_pad("r1: 8 8 8")
    gang = a_gang(3)
    shrunk = resize_gang(a_gang(2), running(free, gang, r1_n0=1, r1_n1=1, r1_n2=1), free)

    assert isinstance(shrunk, Placement)
    assert spots(shrunk) == {"r1-n0": 1, "r1-n1": 1}


def test_a_replacement_keeps_the_model_of_the_others() -> None:
    gang = a_gang(2)
    free = a_pad("r1: 8 8 8")
    before = running(free, gang, r1_n0=1, r1_n1=1)
    free.release_worker(NodeName("r1-n0"), 8)
    answer = replace_lost(gang, before, frozenset({NodeName("r1-n0")}), free)

    assert isinstance(answer, Placement)
    fresh = a_pad("r1: 8 8 8")
    assert broken_promises(answer, gang, fresh) == []


def test_other_roles_stay_where_they_are() -> None:
    gang = a_gang(roles=[a_role_request("chief", gpus=0), a_role_request(workers=2)])
    free = a_pad("r1: 8 8 8")
    before = placement_of(
        {
            gang.roles[0].name: {NodeName("r1-n2"): 1},
            gang.roles[1].name: {NodeName("r1-n0"): 1, NodeName("r1-n1"): 1},
        },
        gang,
        free.tree,
    )
    free.take(before, gang)
    answer = replace_lost(gang, before, frozenset({NodeName("r1-n0")}), free)

    assert isinstance(answer, Placement)
    assert spots(answer, "chief") == {"r1-n2": 1}
    assert spots(answer) == {"r1-n1": 1, "r1-n2": 1}


def test_added_workers_count_with_the_kept_ones_under_a_spread() -> None:
    free = a_pad("r1: 8\nr2: 8")
    before = running(free, a_gang(1, 1), r1_n0=1)
    grown = resize_gang(a_gang(2, 1, spread=("rack", 1)), before, free)

    assert isinstance(grown, Placement)
    assert spots(grown) == {"r1-n0": 1, "r2-n0": 1}


def test_an_unknown_rack_is_no_required_rack_for_added_workers() -> None:
    free = a_pad("?: 2 2\nr1: 8")
    before = running(free, a_gang(1, 2, required="rack"), **{"?_n0": 1})

    assert not isinstance(resize_gang(a_gang(2, 2, required="rack"), before, free), Placement)
