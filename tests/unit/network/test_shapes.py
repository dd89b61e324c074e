"""Shapes of placements, reference shapes, and the groups that parallel axes cut out of them."""

from collections import Counter

import pytest

from scheduler.domain.communication import Axis
from scheduler.domain.ids import LevelName, NodeName, RoleName
from scheduler.domain.placement import Assignment, Placement
from scheduler.network.groups import Group, Part, groups_of, whole_gang
from scheduler.network.shape import (
    even_split,
    nodes_by_domain,
    reference_shape,
    shape_of_placement,
)
from tests.unit.network.toys import a_shape


def a_placement(*workers_on: tuple[str, str, int]) -> Placement:
    return Placement(
        assignments=tuple(
            Assignment(role=RoleName(role), node=NodeName(node), workers=workers)
            for role, node, workers in workers_on
        ),
        tier=0,
        tier_name=LevelName("node"),
    )


PATHS = {
    NodeName("a1"): ("b1", "ra"),
    NodeName("a2"): ("b1", "ra"),
    NodeName("b1"): ("b1", "rb"),
    NodeName("c1"): ("b2", "ra"),
}


@pytest.mark.parametrize(
    ("placement", "levels"),
    [
        pytest.param([("w", "a1", 2)], ((8,),), id="one node"),
        pytest.param([("w", "a1", 1), ("w", "a2", 1)], ((4, 4), (8,)), id="one rack"),
        pytest.param(
            [("w", "b1", 1), ("w", "a1", 2), ("w", "a2", 1)],
            ((8, 4, 4), (12, 4), (16,)),
            id="two racks, sorted rack by rack",
        ),
        pytest.param(
            [("w", "a1", 1), ("w", "c1", 1)],
            ((4, 4), (4, 4), (4, 4), (8,)),
            id="racks of one name under two blocks are two racks",
        ),
        pytest.param(
            [("w", "a1", 1), ("ps", "b1", 3)], ((4,),), id="workers without GPUs are no ranks"
        ),
    ],
)
def test_a_placement_has_a_shape(
    placement: list[tuple[str, str, int]], levels: tuple[tuple[int, ...], ...]
) -> None:
    shape = shape_of_placement(
        a_placement(*placement), gpus_by_role={"w": 4, "ps": 0}, paths_by_node=PATHS
    )
    assert shape is not None
    assert shape.ranks_by_level == levels


def test_a_gang_without_gpus_counts_workers() -> None:
    shape = shape_of_placement(
        a_placement(("ps", "a1", 2), ("ps", "b1", 1)),
        gpus_by_role={"ps": 0},
        paths_by_node=PATHS,
    )
    assert shape is not None
    assert shape.ranks == 3


@pytest.mark.parametrize(
    ("ranks", "tier", "per_worker", "levels"),
    [
        pytest.param(8, 0, 1, ((8,),), id="one node"),
        pytest.param(8, 1, 1, ((4, 4), (8,)), id="a rack means at least two nodes"),
        pytest.param(9, 0, 1, None, id="does not fit a node"),
        pytest.param(16, 1, 8, ((8, 8), (16,)), id="fewest nodes"),
        pytest.param(20, 1, 4, ((8, 8, 4), (20,)), id="even by workers"),
        pytest.param(16, 2, 8, ((8, 8), (8, 8), (16,)), id="two racks with a node each"),
        pytest.param(64, 1, 8, None, id="does not fit a rack"),
        pytest.param(64, 2, 8, ((8,) * 8, (32, 32), (64,)), id="two full racks"),
        pytest.param(8, 1, 8, None, id="one worker can not be spread"),
        pytest.param(4096, 2, 8, None, id="does not fit the cluster"),
        pytest.param(8, 0, 16, None, id="a worker larger than a node"),
    ],
)
def test_the_reference_shape_of_a_tier(
    ranks: int, tier: int, per_worker: int, levels: tuple[tuple[int, ...], ...] | None
) -> None:
    # Nodes of 8 GPUs, racks of 4 nodes, 8 racks.
    shape = reference_shape(ranks, tier, (8, 4, 8), ranks_per_worker=per_worker)
    assert (shape and shape.ranks_by_level) == levels


def test_shares_are_as_even_as_can_be() -> None:
    assert even_split(10, 4) == (3, 3, 2, 2)


def test_nodes_of_a_placement_are_counted_by_rack() -> None:
    assert nodes_by_domain(a_shape("4 4 | 4 4 4"), 1) == (2, 3)


ORDER = (Axis.TENSOR, Axis.SHARD, Axis.PIPELINE, Axis.DATA)


def slow_groups(
    picture: str, sizes: dict[Axis, int], axes: frozenset[Axis]
) -> Counter[tuple[tuple[int, ...], ...]]:
    """Every group by looking at every pair of ranks: members per domain, level by level."""
    shape = a_shape(picture)
    coordinates = []
    for rank in range(shape.ranks):
        rest, place = rank, {}
        for axis in ORDER:
            place[axis] = rest % sizes[axis]
            rest //= sizes[axis]
        coordinates.append(place)
    homes = [
        [domain for domain, ranks in enumerate(level) for _ in range(ranks)]
        for level in shape.ranks_by_level
    ]
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, place in enumerate(coordinates):
        fixed = tuple(place[axis] for axis in ORDER if axis not in axes)
        groups.setdefault(fixed, []).append(rank)
    return Counter(
        tuple(tuple(sorted(Counter(home[r] for r in members).values())) for home in homes)
        for members in groups.values()
    )


@pytest.mark.parametrize("picture", ["4 4 | 4 4", "8 8", "2 2 2 2 2 2 2 2", "7 1 4 4", "16"])
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((4, 1, 1, 4), id="tensor"),
        pytest.param((2, 4, 1, 2), id="tensor and shard"),
        pytest.param((2, 1, 4, 2), id="tensor and pipeline"),
        pytest.param((1, 1, 1, 16), id="data only"),
        pytest.param((1, 8, 2, 1), id="shard and pipeline"),
    ],
)
@pytest.mark.parametrize(
    "axes",
    [frozenset({axis}) for axis in ORDER] + [frozenset({Axis.SHARD, Axis.DATA})],
    ids=lambda axes: "+".join(sorted(axes)),
)
def test_groups_are_those_of_the_strides(
    picture: str, sizes: tuple[int, ...], axes: frozenset[Axis]
) -> None:
    by_axis = dict(zip(ORDER, sizes, strict=True))
    expected = slow_groups(picture, by_axis, axes)
    found = groups_of(a_shape(picture), tuple(by_axis.items()), axes)
    assert {_members(group) for group in found} == {
        tuple((len(level), frozenset(level)) for level in _cut(kind)) for kind in expected
    }


def _cut(kind: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Levels up to the first with one domain."""
    tier = next(index for index, level in enumerate(kind) if len(level) == 1)
    return list(kind[: tier + 1])


def _members(group: Group) -> tuple[tuple[int, frozenset[int]], ...]:
    return tuple(
        (count, frozenset(part.ranks for part in parts))
        for count, parts in zip(group.domains_by_level, group.parts_by_level, strict=True)
    )


def test_the_whole_gang_is_a_group() -> None:
    group = whole_gang(a_shape("7 1"))
    assert group.ranks == 8
    assert group.parts_by_level[0] == {Part(7, 7), Part(1, 1)}
