"""Layers of links, parameter servers, gossip and hashed paths against brute force."""

from itertools import product
from random import Random

import pytest

from scheduler.network.collectives import Hop
from scheduler.network.ecmp import fullest_link_distribution, fullest_link_over_draws
from scheduler.network.layered import (
    Layer,
    layered_all_reduce_s,
    pipelined_layered_all_reduce_s,
    ring_bytes_out_of_node,
    ring_bytes_out_of_rack,
    uneven_inter_node_s,
)
from scheduler.network.neighbours import (
    gossip_s,
    one_peer_exponential_s,
    static_exponential_degree,
)
from scheduler.network.servers import (
    asynchronous_period_s,
    byteps_exchange_s,
    colocated_exchange_s,
    synchronous_exchange_s,
    update_rate_per_s,
)
from tests.unit.network.streams import play_servers
from tests.unit.network.wires import (
    busiest_port_s,
    play_ring_all_gather,
    play_ring_reduce_scatter,
)

HOP = Hop(latency_s=2e-6, bytes_per_s=1e9)


@pytest.mark.parametrize("members", [(8,), (8, 4), (8, 4, 3)])
def test_layers_take_as_long_as_their_rings_in_sequence(members: tuple[int, ...]) -> None:
    size = 64e6
    hops = [Hop(latency_s=1e-6 * (n + 1), bytes_per_s=100e9 / (n + 1)) for n in range(3)]
    layers = tuple(Layer(members=m, hop=h) for m, h in zip(members, hops, strict=False))
    played, shard = 0.0, size
    for layer in layers:
        played += play_ring_reduce_scatter(shard, layer.members, layer.hop)
        played += play_ring_all_gather(shard, layer.members, layer.hop)
        shard /= layer.members
    assert layered_all_reduce_s(size, layers) == pytest.approx(played)


def test_pipelined_layers_cost_the_slower_one_and_a_chunk_of_the_other() -> None:
    inner, outer, chunks = 3.0, 5.0, 10
    # Chunk by chunk: the outer layer starts when the first chunk left the inner one.
    free_inner = free_outer = 0.0
    for _ in range(chunks):
        free_inner += inner / chunks
        free_outer = max(free_outer, free_inner) + outer / chunks
    assert pipelined_layered_all_reduce_s(inner, outer, chunks) == pytest.approx(free_outer)


def test_a_ring_leaves_each_node_once_however_many_ranks_it_has() -> None:
    ranks, per_node, size = 12, 4, 12e6
    sent = 0.0
    for rank in range(ranks):
        if rank // per_node == 0 and (rank + 1) % ranks // per_node != 0:
            sent += 2 * (ranks - 1) * size / ranks
    assert ring_bytes_out_of_node(size, ranks) == pytest.approx(sent)
    assert ring_bytes_out_of_rack(size, 1) == 0.0


def test_the_weakest_node_sets_the_pace() -> None:
    assert uneven_inter_node_s(1e9, (8e9, 1e9)) == pytest.approx(1.0)
    assert uneven_inter_node_s(1e9, (4e9, 4e9)) == pytest.approx(0.25)


@pytest.mark.parametrize(("workers", "servers"), [(4, 1), (8, 2), (2, 6)])
def test_synchronous_servers_cost_the_busiest_port(workers: int, servers: int) -> None:
    size = 1e9
    push = {(f"w{w}", f"s{s}"): size / servers for w, s in product(range(workers), range(servers))}
    one_way = busiest_port_s(push, HOP)
    for is_full_duplex, expected in ((True, one_way), (False, 2 * one_way)):
        found = synchronous_exchange_s(
            size,
            workers=workers,
            servers=servers,
            worker_bytes_per_s=1e9,
            server_bytes_per_s=1e9,
            is_full_duplex=is_full_duplex,
        )
        assert found == pytest.approx(expected)


@pytest.mark.parametrize(("workers", "servers"), [(4, 4), (8, 2), (6, 3)])
def test_colocated_servers_cost_the_busiest_port(workers: int, servers: int) -> None:
    # Server s shares node s with worker s; what stays on a node costs nothing.
    size = 1e9
    traffic: dict[tuple[str, str], float] = {}
    for worker, server in product(range(workers), range(servers)):
        for edge in ((f"n{worker}", f"n{server}"), (f"n{server}", f"n{worker}")):
            traffic[edge] = traffic.get(edge, 0.0) + size / servers
    assert colocated_exchange_s(
        size, workers=workers, servers=servers, bytes_per_s=1e9
    ) == pytest.approx(busiest_port_s(traffic, HOP))


@pytest.mark.parametrize(
    ("workers", "servers"),
    [
        pytest.param(16, 1, id="the server is the bottleneck"),
        pytest.param(6, 6, id="nobody hinders anybody"),
    ],
)
def test_asynchronous_workers_step_as_often_as_servers_let_them(workers: int, servers: int) -> None:
    period = asynchronous_period_s(
        1.0,
        compute_s=1.0,
        workers=workers,
        servers=servers,
        worker_bytes_per_s=4.0,
        server_bytes_per_s=4.0,
    )
    played = play_servers(workers, servers, 1.0, compute_s=1.0, rate=4.0, server_rate=4.0)
    # Now and then one direction idles while the other is crowded.
    assert period <= played * 1.001
    assert period == pytest.approx(played, rel=0.07)


def test_the_update_rate_counts_all_workers() -> None:
    rate = update_rate_per_s(
        1.0,
        compute_s=1.0,
        workers=6,
        servers=6,
        worker_bytes_per_s=4.0,
        server_bytes_per_s=4.0,
    )
    assert rate == pytest.approx(6 / 1.5)


def test_byteps_without_helpers_is_a_ring_and_with_as_many_is_twice_as_fast() -> None:
    ring = 2 * 7 / 8
    assert byteps_exchange_s(1.0, workers=8, helpers=0, bytes_per_s=1.0) == pytest.approx(ring)
    full = byteps_exchange_s(1.0, workers=8, helpers=8, bytes_per_s=1.0)
    assert full == pytest.approx(1.0, rel=1e-9)


def test_gossip_costs_its_neighbours_and_not_the_gang() -> None:
    assert gossip_s(1e9, 1000, 2, HOP) == pytest.approx(gossip_s(1e9, 10, 2, HOP))
    assert gossip_s(1e9, 10, 2, HOP) == pytest.approx(2.0 + 2e-6)
    assert one_peer_exponential_s(1e9, 64, HOP) == pytest.approx(1.0 + 2e-6)
    assert static_exponential_degree(64) == 6


@pytest.mark.parametrize(("flows", "links"), [(2, 2), (4, 2), (5, 3), (3, 8)])
def test_hashed_flows_pile_up_as_often_as_counting_says(flows: int, links: int) -> None:
    counts = [0] * (flows + 1)
    for choice in product(range(links), repeat=flows):
        counts[max(choice.count(link) for link in range(links))] += 1
    expected = [count / links**flows for count in counts]
    assert list(fullest_link_distribution(flows, links)) == pytest.approx(expected)


def test_the_fullest_link_over_two_draws_agrees_with_drawing() -> None:
    rng = Random(7)
    draws = 20_000
    counts = [0] * 5
    for _ in range(draws):
        fullest = 0
        for _ in range(2):
            loads = [0, 0]
            for _ in range(4):
                loads[rng.randrange(2)] += 1
            fullest = max(fullest, *loads)
        counts[fullest] += 1
    drawn = [count / draws for count in counts]
    assert list(fullest_link_over_draws(4, 2, 2)) == pytest.approx(drawn, abs=0.02)
