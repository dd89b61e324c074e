"""Every line of the network design's corrections, with numbers worked out by hand."""

from dataclasses import replace
from math import inf

import pytest

from scheduler.domain.communication import Collective, Strategy
from scheduler.network.collectives import (
    Hop,
    best_chunk,
    pipelined_broadcast_s,
    single_tree_all_reduce_s,
    switch_bus_bytes_per_s,
)
from scheduler.network.demand import (
    random_ring_bytes,
    rings_without_loss,
    tree_bytes,
)
from scheduler.network.groups import whole_gang
from scheduler.network.jitter import barrier_factor, expected_largest
from scheduler.network.layered import (
    node_rate_two_nodes,
    tree_rate_two_nodes,
    uneven_inter_node_s,
)
from scheduler.network.links import INSIDE, NETWORK
from scheduler.network.nccl import NcclLinks, all_reduce_prior_s, applies_plateau_factor
from scheduler.network.neighbours import gossip_degree
from scheduler.network.overlap import (
    Block,
    exposed_s,
    gather_exposed_s,
    local_sgd_step_s,
    pipelined_sgd_step_s,
    sharded_step_s,
)
from scheduler.network.pipeline import (
    bubble_of_ideal,
    bubble_of_step,
    one_forward_one_backward_s,
)
from scheduler.network.sensitivity import (
    GangShape,
    elasticity,
    sensitivity,
    wanted_bandwidth,
)
from scheduler.network.servers import asynchronous_period_s, colocated_exchange_s
from scheduler.network.sharing import Load, SharedLinks
from scheduler.network.sparse import density_without_gain, gathered_bytes
from scheduler.network.strategies import StepParts
from scheduler.network.transfer import Cost, collective_cost
from tests.unit.network.toys import a_fabric, a_shape, a_workload, time_of

HOP = Hop(latency_s=0.0, bytes_per_s=1.0)


def two_jobs_on_the_link(busy: float) -> float:
    links: SharedLinks[str, str] = SharedLinks({"x": 1.0})
    load = Load(compute_s=1 - busy, exchange_s=busy, bytes_by_link={"x": busy})
    links.start("a", load)
    links.start("b", load)
    return links.stretch("a")


def a_step(exchange_s: float) -> StepParts:
    """Four seconds of compute of which one hides; a bucket of 0.3 s; a fifth of all is latency."""
    return StepParts(
        compute_s=4.0,
        exchange=Cost(0.2 * exchange_s, 0.8 * exchange_s),
        last=Cost(0.06, 0.24),
        hideable_s=1.0,
    )


def an_exchange_s(picture: str, collective: Collective, size: float) -> float:
    """On nodes of 4 GPUs at 100 GB/s with 4 NICs of 5 GB/s."""
    fabric = a_fabric()
    group = whole_gang(a_shape(picture))
    return collective_cost(collective, size, group, fabric, node=fabric.default_node).total_s


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(two_jobs_on_the_link(0.10), 1.1, id="two jobs at 10 % each: 1.1x, not 2x"),
        pytest.param(two_jobs_on_the_link(1.0), 2.0, id="always-on is the upper bound"),
        pytest.param(
            switch_bus_bytes_per_s(8, ring=363e9, switch=305e9) / 1e9,
            474.4,
            id="NVLS on H200, n = 8: 473 measured",
        ),
        pytest.param(
            switch_bus_bytes_per_s(5, ring=363e9, switch=305e9) / 1e9,
            406.7,
            id="NVLS on H200, n = 5: 414 measured",
        ),
        pytest.param(
            switch_bus_bytes_per_s(4, ring=363e9, switch=305e9) / 1e9,
            366.0,
            id="NVLS on H200, n = 4: 363 measured",
        ),
        pytest.param(
            switch_bus_bytes_per_s(8, ring=680e9, switch=540e9) / 1e9,
            840.0,
            id="NVLS on B200, n = 8: 838 measured",
        ),
        pytest.param(
            node_rate_two_nodes(inner=370.0, nics=400.0, efficiency=0.95),
            370.0,
            id="two nodes: the inside links where they are slower",
        ),
        pytest.param(
            node_rate_two_nodes(inner=370.0, nics=200.0, efficiency=0.95),
            190.0,
            id="two nodes: else the NICs",
        ),
        pytest.param(
            tree_rate_two_nodes(ranks=16, nics=50.0), 77.8, id="tree gain over two p4de: 78"
        ),
        pytest.param(
            uneven_inter_node_s(1.0, (7.0, 1.0)), 1.0, id="uneven nodes: the weakest's NICs"
        ),
        *(
            pytest.param(
                switch_bus_bytes_per_s(ranks, ring=363e9, switch=305e9) / 1e9,
                measured,
                id=f"NVLS on H200, n = {ranks}: {measured} measured",
            )
            for ranks, measured in ((6, 435.6), (7, 460.0))
        ),
        *(
            pytest.param(
                switch_bus_bytes_per_s(ranks, ring=680e9, switch=540e9) / 1e9,
                measured,
                id=f"NVLS on B200, n = {ranks}: {measured} measured",
            )
            for ranks, measured in ((6, 778.2), (7, 811.2))
        ),
        pytest.param(
            an_exchange_s("4 4", Collective.ALL_TO_ALL, 16e9),
            7 / 8 * 16 / 5,
            id="all-to-all over nodes: (n-1)/n of S at each rank's part of the NICs",
        ),
        pytest.param(
            elasticity(a_step(exchange_s=2.0)),
            0.8 * 2.0 / (4.0 + 1.0),
            id="elasticity while V - rho T_b > v_last: V_bw / T",
        ),
        pytest.param(
            elasticity(a_step(exchange_s=1.1)),
            0.24 / (4.0 + 0.3),
            id="elasticity else: v_last,bw / T",
        ),
        pytest.param(
            time_of(
                a_workload(gradient_bytes=20e9, overlap=0.25, accumulation_steps=4), "4 4"
            ).total_s,
            3 + 2 * 7 / 8 - 0.25 * 2 / 4,
            id="accumulation: rho T_b of the last micro-step only",
        ),
        pytest.param(
            time_of(a_workload(), "1", replace(a_fabric(), busy_kernels_factor=1.2)).total_s,
            3.0,
            id="mu = 1 when V = 0",
        ),
        pytest.param(
            time_of(a_workload(), "4 4", replace(a_fabric(), compute_variation=0.1)).total_s
            - 2 * 7 / 8 * 10 / 20,
            3 * 1.142,
            id="the barrier stretches the compute part only",
        ),
        pytest.param(
            gathered_bytes(100.0, ranks=16, value_bytes=4, index_bytes=4),
            15 * 100 * 8,
            id="top-k goes by all-gather",
        ),
        pytest.param(
            pipelined_broadcast_s(8.0, 3, HOP, 2.0, children=2),
            (3 + 4 - 1) * 2 * 2.0,
            id="binary tree: 2c/B a step",
        ),
        pytest.param(
            single_tree_all_reduce_s(10.0, 3, HOP, is_overlapped=False),
            40.0,
            id="single tree: 4S/B in sequence",
        ),
        pytest.param(
            single_tree_all_reduce_s(10.0, 3, HOP, is_overlapped=True),
            30.0,
            id="single tree: 3S/B overlapped",
        ),
        pytest.param(barrier_factor(8, 0.1), 1.142, id="barrier: 1 + cv x ..."),
        pytest.param(
            sharded_step_s(
                [Block(forward_s=1, backward_s=2, gather_s=3, scatter_s=4)] * 3,
                optimizer_s=0.5,
                is_resharded=True,
            ),
            # forward: 3 | max(1,3) max(1,3) 1 | gathered again 3 | backward max(2, 3),
            # max(2, 3 + 4), max(2, 4) | scatter 4 | optimizer
            3 + 3 + 3 + 1 + 3 + 3 + 7 + 4 + 4 + 0.5,
            id="FSDP by blocks",
        ),
        pytest.param(
            sharded_step_s(
                [Block(forward_s=1, backward_s=2, gather_s=3, scatter_s=4)] * 3,
                optimizer_s=0.0,
                is_resharded=False,
            ),
            3 + 3 + 3 + 1 + 2 + 4 + 4 + 4,
            id="FSDP that keeps parameters",
        ),
        pytest.param(
            exposed_s(exchange_s=5, last_s=1, hideable_s=3)
            + gather_exposed_s(gather_s=5, hideable_s=0),
            7.0,
            id="ZeRO-1/2: only the scatter overlaps backward",
        ),
        pytest.param(
            gather_exposed_s(gather_s=5, hideable_s=4), 1.0, id="or the next forward hides it"
        ),
        pytest.param(
            wanted_bandwidth(exchange=10.0, last=0.1, blocking=0.0, hideable_s=1.0, compute_s=4.0),
            10 / (1.0 + 0.2),
            id="B*: bytes / (rho T_b + 0.05 T_1)",
        ),
        pytest.param(
            wanted_bandwidth(exchange=10.0, last=5.0, blocking=0.0, hideable_s=1.0, compute_s=4.0),
            5 / 0.2,
            id="B*: or the last bucket's bytes / 0.05 T_1",
        ),
        pytest.param(
            colocated_exchange_s(8.0, workers=6, servers=3, bytes_per_s=1.0),
            (6 + 3 - 2) * 8 / 3,
            id="parameter servers beside workers",
        ),
        pytest.param(
            asynchronous_period_s(
                1.0,
                compute_s=1.0,
                workers=4,
                servers=4,
                worker_bytes_per_s=2.0,
                server_bytes_per_s=100.0,
            ),
            2.0,
            id="asynchronous: T_1 + 2S/B_w while uncontended",
        ),
        pytest.param(
            asynchronous_period_s(
                1.0,
                compute_s=1.0,
                workers=4,
                servers=1,
                worker_bytes_per_s=2.0,
                server_bytes_per_s=0.5,
            ),
            8.0,
            id="asynchronous: contention once, not twice",
        ),
        pytest.param(
            one_forward_one_backward_s(
                stages=4, micro_batches=8, micro_batch_s=3.0, transfer_s=0.1
            ),
            (8 + 3) * 3.0 + 2 * 0.1 * (3 * 8 / 4 + 2),
            id="1F1B without overlap",
        ),
        pytest.param(
            bubble_of_ideal(stages=4, micro_batches=8, chunks=2), 3 / 16, id="bubble of the ideal"
        ),
        pytest.param(
            bubble_of_step(stages=4, micro_batches=8, chunks=2), 3 / 19, id="bubble of the step"
        ),
        pytest.param(expected_largest(2), 0.59, id="barrier of 2 (exactly 0.564)"),
        pytest.param(expected_largest(8), 1.42, id="barrier of 8"),
        pytest.param(expected_largest(64), 2.34, id="barrier of 64"),
        pytest.param(expected_largest(1), 0.0, id="barrier of one"),
        pytest.param(
            local_sgd_step_s(compute_s=1.0, exchange_s=6.0, local_steps=4, overlap=1.0),
            1.5,
            id="overlapped local SGD",
        ),
        pytest.param(pipelined_sgd_step_s(compute_s=1.0, exchange_s=2.5), 2.5, id="Pipe-SGD"),
        pytest.param(
            density_without_gain(ranks=16, value_bytes=4, index_bytes=4),
            2 * 4 / (16 * 8),
            id="top-k gains nothing above 2w / (n (w + index))",
        ),
        pytest.param(best_chunk(10.0, 5, HOP), 0.0, id="without latency chunks may be tiny"),
        pytest.param(
            best_chunk(10.0, 5, Hop(latency_s=1e3, bytes_per_s=1.0)), 10.0, id="chunk <= S"
        ),
        pytest.param(
            random_ring_bytes(1.0, ranks=8, nodes=1, nodes_in_rack=1), 0.0, id="random ring, k = 1"
        ),
        pytest.param(
            random_ring_bytes(1.0, ranks=32, nodes=4, nodes_in_rack=2),
            2 * 31 / 32 * 4 / 3,
            id="random ring, k = 4",
        ),
        pytest.param(gossip_degree(2, 4), 1, id="gossip of two"),
        pytest.param(gossip_degree(1, 4), 0, id="gossip of one"),
        pytest.param(rings_without_loss(16, 3.0), 5, id="at most N_r / o jobs"),
        pytest.param(
            tree_bytes(1.0, child_racks=2, has_parent=True), 2.0, id="2S out of an inner rack"
        ),
        pytest.param(
            tree_bytes(1.0, child_racks=0, has_parent=True), 1.0, id="S out of a leaf rack"
        ),
    ],
)
def test_a_corrected_form(found: float, expected: float) -> None:
    assert found == pytest.approx(expected, rel=0.02, abs=1e-9)


def test_a_message_costs_a_base_its_root_and_its_bytes() -> None:
    fabric = a_fabric(base_s=1e-3, root_s=2e-8)
    for size in (32 << 10, 64 << 20, 4 << 30):
        group = whole_gang(a_shape("4 4"))
        cost = collective_cost(Collective.ALL_REDUCE, size, group, fabric, node=fabric.default_node)
        assert cost.total_s == pytest.approx(1e-3 + 2e-8 * size**0.5 + 2 * 7 / 8 * size / 20e9)


def test_a_tier_with_the_bandwidth_wanted_is_where_a_job_is_insensitive() -> None:
    workload = a_workload(Strategy.DDP, overlap=0.5)
    found = sensitivity(workload, GangShape(ranks=8), a_fabric())
    # 17.5 GB on the wire behind 1 s of backward and 0.15 s; the bus has 20 GB/s.
    assert found.bandwidth_wanted == pytest.approx(17.5e9 / 1.15)
    assert all(found.is_insensitive(tier.tier) for tier in found.tiers)
    plain = sensitivity(a_workload(), GangShape(ranks=8), a_fabric())
    assert not any(plain.is_insensitive(tier.tier) for tier in plain.tiers)


def test_nccls_own_estimate_takes_the_cheapest_algorithm_and_protocol() -> None:
    links = NcclLinks(inside_bytes_per_s=370e9, network_bytes_per_s=370e9, channels=16)
    # 1 KiB over 4 x 8: tree LL, 6.8 + 2 (7 x 0.6 + 2 x 5) us and 2 S over 92 % / 3.8 of the rate.
    small = all_reduce_prior_s(1024, nodes=4, ranks=32, links=links)
    assert small == pytest.approx(35.2e-6 + 2 * 1024 / (370e9 * 0.92 / 3.8))
    # 4 GiB: ring Simple, whose latency of 8.4 + 56 x 3.4 + 6 x 14 us grows on its plateau.
    large = all_reduce_prior_s(4 << 30, nodes=4, ranks=32, links=links)
    assert large == pytest.approx(282.8e-6 * 1.4 + 2 * 31 / 32 * (4 << 30) / 370e9)
    assert all_reduce_prior_s(4 << 30, nodes=1, ranks=1, links=links) == 0.0


@pytest.mark.parametrize(
    ("size", "applies"),
    [pytest.param(1 << 30, True, id="large"), pytest.param(64 << 10, False, id="small")],
)
def test_nccl_bandwidth_factors_need_enough_bytes_a_channel(size: int, *, applies: bool) -> None:
    assert applies_plateau_factor(size, channels=32, ranks=64) is applies


def test_small_messages_have_a_root_term_in_every_class_that_was_swept() -> None:
    for name in ("nvlink3", "nvlink4", "nvlink4-p5", "nvlink4-azure", "nvlink4-h200", "nvlink5"):
        assert INSIDE[name].root_s > 0, name
    for name in ("infiniband", "efa", "efa-p4", "efa-p5", "efa-p6"):
        links = NETWORK[name]
        assert links.root_s + links.root_hop_s > 0, name


def test_a_tree_gain_over_two_nodes_is_a_flag_and_not_the_rule() -> None:
    gains = {name for name, links in NETWORK.items() if links.two_node_factor > 1}
    assert gains <= {"efa", "efa-p4", "efa-p5", "efa-p6"}


def test_without_compute_any_communication_wants_all_bandwidth() -> None:
    wanted = wanted_bandwidth(exchange=1.0, last=0.0, blocking=0.0, hideable_s=0.0, compute_s=0.0)
    assert wanted == inf
