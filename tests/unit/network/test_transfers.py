"""Collectives on fabrics: which link sets the pace, latencies, and NICs of uneven placements."""

from dataclasses import replace

import pytest

from scheduler.domain.communication import Axis, Collective
from scheduler.network.collectives import bus_factor
from scheduler.network.fabric import Fabric, RankOrder
from scheduler.network.groups import groups_of, whole_gang
from scheduler.network.transfer import bus_rate, collective_cost
from tests.unit.network.toys import GBPS, a_fabric, a_shape

REDUCE = Collective.ALL_REDUCE


def rate_of(picture: str, fabric: Fabric, collective: Collective = REDUCE) -> float:
    group = whole_gang(a_shape(picture))
    return bus_rate(collective, group, fabric, fabric.default_node) / GBPS


@pytest.mark.parametrize(
    ("picture", "rate"),
    [
        pytest.param("4", 100, id="inside a node: NVLink"),
        pytest.param("4 4", 20, id="over two nodes: four NICs"),
        pytest.param("1 1", 20, id="one rank a node: all NICs of the node"),
        pytest.param("4 4 | 4 4", 20, id="over racks: the uplinks are wide"),
    ],
)
def test_the_slowest_link_sets_the_pace(picture: str, rate: float) -> None:
    assert rate_of(picture, a_fabric()) == pytest.approx(rate)


def play_flat_ring(counts: list[int], size: float, inside: float, nics: float) -> float:
    """Every step of a ring through all ranks: each rank sends a shard to the next."""
    homes = [node for node, ranks in enumerate(counts) for _ in range(ranks)]
    ranks = len(homes)
    step = 0.0
    for rank, home in enumerate(homes):
        following = homes[(rank + 1) % ranks]
        step = max(step, size / ranks / (inside if home == following else nics))
    return 2 * (ranks - 1) * step


@pytest.mark.parametrize("counts", [[4], [4, 4], [1, 1, 1], [4, 2, 4, 1]])
def test_a_ring_takes_as_long_as_its_steps(counts: list[int]) -> None:
    fabric = a_fabric()
    group = whole_gang(a_shape(" ".join(map(str, counts))))
    cost = collective_cost(REDUCE, 8e9, group, fabric, node=fabric.default_node)
    assert cost.total_s == pytest.approx(play_flat_ring(counts, 8e9, 100e9, 20e9))


def test_an_oversubscribed_uplink_is_felt_only_where_one_ring_fills_it() -> None:
    # Four nodes of 20 GB/s behind uplinks of 80/o.
    assert rate_of("4 4 | 4 4", a_fabric(oversubscription=4)) == pytest.approx(20)
    assert rate_of("4 4 | 4 4", a_fabric(oversubscription=8)) == pytest.approx(10)
    assert rate_of("4 4 4 4", a_fabric(oversubscription=8)) == pytest.approx(20)


def test_an_all_to_all_feels_an_oversubscribed_uplink_at_once() -> None:
    exchange = Collective.ALL_TO_ALL
    assert rate_of("4 4 | 4 4", a_fabric(), exchange) == pytest.approx(5)
    # 32 ranks, 16 a rack, half of all traffic leaves: 80/4 GB/s for 16 x 16/31 of it.
    assert rate_of("4 4 4 4 | 4 4 4 4", a_fabric(oversubscription=4), exchange) == pytest.approx(
        80 / 4 / 16 * 31 / 16
    )


@pytest.mark.parametrize(("sharing", "rate"), [(True, 10), (False, 2.5)])
def test_seven_and_one_runs_at_one_nic_unless_idle_ones_are_reached(
    rate: float, *, sharing: bool
) -> None:
    fabric = a_fabric(gpus=8, nics=4, nic=2.5)
    node = replace(fabric.default_node, shares_idle_nics=sharing)
    fabric = replace(fabric, default_node=node)
    assert rate_of("7 1", fabric) == pytest.approx(rate)
    assert rate_of("4 4", fabric) == pytest.approx(rate if sharing else 5.0)
    assert rate_of("8 8", fabric) == pytest.approx(10)


@pytest.mark.parametrize(
    ("order", "entries"),
    [
        (RankOrder.SORTED, 1.0),
        (RankOrder.RANDOM, 4 * 4 / 7),
        (RankOrder.ALTERNATING, 4.0),
    ],
)
def test_ranks_out_of_order_enter_a_rack_more_than_once(order: RankOrder, entries: float) -> None:
    fabric = replace(a_fabric(oversubscription=4), rank_order=order)
    assert rate_of("4 4 4 4 | 4 4 4 4", fabric) == pytest.approx(20 / entries)


def test_groups_side_by_side_share_the_nics_of_their_nodes() -> None:
    fabric = a_fabric()
    shape = a_shape("4 4")
    (group,) = groups_of(shape, ((Axis.TENSOR, 4), (Axis.DATA, 2)), frozenset({Axis.DATA}))
    assert bus_rate(REDUCE, group, fabric, fabric.default_node) == pytest.approx(5 * GBPS)
    (inner,) = groups_of(shape, ((Axis.TENSOR, 4), (Axis.DATA, 2)), frozenset({Axis.TENSOR}))
    assert bus_rate(REDUCE, inner, fabric, fabric.default_node) == pytest.approx(100 * GBPS)


def test_a_share_of_a_link_is_so_much_less_bandwidth() -> None:
    fabric = a_fabric()
    group = whole_gang(a_shape("4 4 | 4 4"))
    node = fabric.default_node
    assert bus_rate(REDUCE, group, fabric, node, (0.5,)) == pytest.approx(10 * GBPS)
    assert bus_rate(REDUCE, group, fabric, node, (1.0, 0.125)) == pytest.approx(10 * GBPS)


def test_latencies_add_up() -> None:
    fabric = a_fabric(base_s=1e-3, hop_s=1e-4, root_s=1e-8, ring_hop_s=1e-5)
    group = whole_gang(a_shape("4 4 4 4"))
    size = 1e6
    cost = collective_cost(REDUCE, size, group, fabric, node=fabric.default_node)
    assert cost.latency_s == pytest.approx(1e-3 + 2 * 1e-4 + 1e-8 * 1e3 + 6 * 1e-5)
    assert cost.wire_s == pytest.approx(2 * 15 / 16 * size / 20e9)


def test_a_domain_joined_by_nvlink_is_one_large_node() -> None:
    fabric = a_fabric()
    rack = replace(fabric.levels[0], is_nvlink=True)
    fabric = replace(fabric, levels=(rack, fabric.levels[1]))
    assert rate_of("4 4 4 4", fabric) == pytest.approx(100)
    # Out of it lead the NICs of the nodes that the job holds there.
    assert rate_of("4 4 | 4 4", fabric) == pytest.approx(40)
    assert rate_of("1 | 1", fabric) == pytest.approx(20)


@pytest.mark.parametrize("collective", list(Collective))
def test_nothing_costs_nothing(collective: Collective) -> None:
    fabric = a_fabric()
    node = fabric.default_node
    assert (
        collective_cost(collective, 0.0, whole_gang(a_shape("4 4")), fabric, node=node).total_s
        == 0.0
    )
    assert (
        collective_cost(collective, 1e9, whole_gang(a_shape("1")), fabric, node=node).total_s == 0.0
    )


@pytest.mark.parametrize("collective", [Collective.ALL_GATHER, Collective.REDUCE_SCATTER])
def test_half_an_all_reduce_moves_half_the_bytes(collective: Collective) -> None:
    fabric = a_fabric()
    group = whole_gang(a_shape("4 4"))
    whole = collective_cost(REDUCE, 1e9, group, fabric, node=fabric.default_node)
    half = collective_cost(collective, 1e9, group, fabric, node=fabric.default_node)
    assert half.wire_s == pytest.approx(whole.wire_s / 2)
    assert bus_factor(collective, 8) == pytest.approx(7 / 8)
