"""Closed forms of collectives against playing them message by message."""

from collections.abc import Callable

import pytest

from scheduler.domain.communication import Collective
from scheduler.network.collectives import (
    Hop,
    best_chunk,
    best_pipelined_broadcast_s,
    binomial_broadcast_s,
    bus_bytes_per_s,
    double_tree_all_reduce_s,
    halving_doubling_all_reduce_s,
    in_network_all_reduce_s,
    pairwise_all_to_all_s,
    pipelined_broadcast_s,
    recursive_doubling_all_reduce_s,
    ring_all_gather_s,
    ring_all_reduce_s,
    ring_reduce_scatter_s,
    single_tree_all_reduce_s,
    switch_all_reduce_s,
    time_at_bus_rate_s,
)
from scheduler.network.units import GB, GIB, MIB, gigabits_per_s
from tests.unit.network.wires import (
    busiest_port_s,
    play_binomial_broadcast,
    play_halving_doubling,
    play_pairwise_all_to_all,
    play_pipelined_chain,
    play_recursive_doubling,
    play_ring_all_gather,
    play_ring_all_reduce,
    play_ring_reduce_scatter,
    tree_edges,
)

HOP = Hop(latency_s=5e-6, bytes_per_s=10e9, reduce_s_per_byte=1e-12)

Form = Callable[[float, int, Hop], float]


@pytest.mark.parametrize(
    ("form", "play"),
    [
        pytest.param(ring_reduce_scatter_s, play_ring_reduce_scatter, id="ring reduce-scatter"),
        pytest.param(ring_all_gather_s, play_ring_all_gather, id="ring all-gather"),
        pytest.param(ring_all_reduce_s, play_ring_all_reduce, id="ring all-reduce"),
        pytest.param(halving_doubling_all_reduce_s, play_halving_doubling, id="halving-doubling"),
        pytest.param(
            recursive_doubling_all_reduce_s, play_recursive_doubling, id="recursive doubling"
        ),
        pytest.param(binomial_broadcast_s, play_binomial_broadcast, id="binomial broadcast"),
        pytest.param(pairwise_all_to_all_s, play_pairwise_all_to_all, id="pairwise all-to-all"),
    ],
)
@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("size", [4096.0, 64.0 * MIB])
def test_a_closed_form_takes_as_long_as_its_messages(
    form: Form, play: Form, ranks: int, size: float
) -> None:
    assert form(size, ranks, HOP) == pytest.approx(play(size, ranks, HOP), rel=1e-9)


@pytest.mark.parametrize("depth", [1, 2, 5, 9])
@pytest.mark.parametrize("chunks", [1, 4, 32])
def test_a_pipelined_broadcast_takes_as_long_as_its_chunks(depth: int, chunks: int) -> None:
    size = 32.0 * MIB
    chunk = size / chunks
    assert pipelined_broadcast_s(size, depth, HOP, chunk) == pytest.approx(
        play_pipelined_chain(size, depth, HOP, chunk)
    )


def test_no_chunk_is_faster_than_the_best_one() -> None:
    size, depth = 64.0 * MIB, 6
    best = best_pipelined_broadcast_s(size, depth, HOP)
    others = [(depth + n - 1) * (HOP.latency_s + size / n / HOP.bytes_per_s) for n in range(1, 400)]
    assert best <= min(others) * (1 + 1e-12)
    assert best == pytest.approx(min(others), rel=1e-3)


def test_the_best_chunk_is_never_more_than_the_message() -> None:
    assert best_chunk(100.0, 8, HOP) == 100.0
    assert best_pipelined_broadcast_s(100.0, 8, HOP) == pytest.approx(8 * (5e-6 + 1e-8))


def test_a_double_tree_moves_twice_the_buffer_through_every_port() -> None:
    # Each rank is an inner one of one tree and a leaf of the other; each tree carries half.
    size, ranks = 8.0 * MIB, 16
    up_and_down: dict[tuple[str, str], float] = {}
    for parent, child in tree_edges(ranks):
        for one, other in (
            (parent, child),
            # The mirrored tree makes leaves of inner ranks.
            (ranks - 1 - parent, ranks - 1 - child),
        ):
            for edge in ((f"{other}", f"{one}"), (f"{one}", f"{other}")):
                up_and_down[edge] = up_and_down.get(edge, 0.0) + size / 2
    wire = busiest_port_s(up_and_down, HOP)
    assert double_tree_all_reduce_s(size, ranks, HOP) - 2 * 4 * HOP.latency_s == pytest.approx(wire)


def test_a_single_tree_moves_three_buffers_or_four_through_its_inner_ports() -> None:
    size, ranks = 8.0 * MIB, 15
    up = {(f"{child}", f"{parent}"): size for parent, child in tree_edges(ranks)}
    down = {(f"{parent}", f"{child}"): size for parent, child in tree_edges(ranks)}
    latency = 2 * 3 * HOP.latency_s
    sequential = busiest_port_s(up, HOP) + busiest_port_s(down, HOP)
    assert single_tree_all_reduce_s(size, 3, HOP, is_overlapped=False) == pytest.approx(
        latency + sequential
    )
    assert single_tree_all_reduce_s(size, 3, HOP, is_overlapped=True) == pytest.approx(
        latency + busiest_port_s({**up, **down}, HOP)
    )


def test_switches_that_add_up_move_little_more_than_the_buffer() -> None:
    size = 8.0 * GIB
    wire = in_network_all_reduce_s(size, HOP) - 2 * HOP.latency_s
    assert wire == pytest.approx(size / HOP.bytes_per_s)
    assert switch_all_reduce_s(size, 8, HOP) - 2 * HOP.latency_s == pytest.approx(9 / 8 * wire)


@pytest.mark.parametrize("collective", list(Collective))
@pytest.mark.parametrize("ranks", [2, 7, 64])
def test_bus_rate_and_time_are_two_ways_to_say_it(collective: Collective, ranks: int) -> None:
    rate = 12.3 * GB
    time_s = time_at_bus_rate_s(collective, size=3.0 * GIB, ranks=ranks, rate=rate)
    assert bus_bytes_per_s(collective, size=3.0 * GIB, ranks=ranks, time_s=time_s) == pytest.approx(
        rate
    )


def test_a_gibibyte_over_gigabytes_is_seven_percent_more() -> None:
    assert time_at_bus_rate_s(
        Collective.BROADCAST, size=GIB, ranks=2, rate=gigabits_per_s(8)
    ) == pytest.approx(1.0737, abs=1e-4)
