"""Closed forms of the network model against steps played one by one, for shapes drawn at random."""

from itertools import product
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.network.collectives import (
    Hop,
    best_pipelined_broadcast_s,
    binomial_broadcast_s,
    halving_doubling_all_reduce_s,
    pairwise_all_to_all_s,
    pipelined_broadcast_s,
    recursive_doubling_all_reduce_s,
    ring_all_gather_s,
    ring_all_reduce_s,
    ring_reduce_scatter_s,
)
from scheduler.network.ecmp import fullest_link_distribution
from scheduler.network.layered import Layer, layered_all_reduce_s
from scheduler.network.overlap import (
    Block,
    bucketed_step_s,
    equal_blocks_step_s,
    sharded_step_s,
)
from scheduler.network.pipeline import one_forward_one_backward_s
from scheduler.network.servers import colocated_exchange_s, synchronous_exchange_s
from tests.unit.network.streams import (
    play_buckets,
    play_one_forward_one_backward,
    play_sharded,
)
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
)

sizes = st.floats(0, 1e12)
seconds = st.floats(0, 1e3)
hops = st.builds(
    Hop,
    latency_s=st.floats(0, 1),
    bytes_per_s=st.floats(1e3, 1e12),
    reduce_s_per_byte=st.floats(0, 1e-9),
)
plain_hops = st.builds(Hop, latency_s=st.floats(0, 1), bytes_per_s=st.floats(1e3, 1e12))
blocks = st.builds(
    Block, forward_s=seconds, backward_s=seconds, gather_s=seconds, scatter_s=seconds
)
few = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize(
    ("form", "play"),
    [
        pytest.param(ring_reduce_scatter_s, play_ring_reduce_scatter, id="reduce-scatter"),
        pytest.param(ring_all_gather_s, play_ring_all_gather, id="all-gather"),
        pytest.param(ring_all_reduce_s, play_ring_all_reduce, id="all-reduce"),
        pytest.param(pairwise_all_to_all_s, play_pairwise_all_to_all, id="all-to-all"),
        pytest.param(binomial_broadcast_s, play_binomial_broadcast, id="broadcast"),
    ],
)
@given(size=sizes, ranks=st.integers(1, 33), hop=hops)
@few
def test_of_any_number_of_ranks(form, play, size: float, ranks: int, hop: Hop) -> None:  # type: ignore[no-untyped-def]  # forms of one shape
    assert form(size, ranks, hop) == pytest.approx(play(size, ranks, hop))


@pytest.mark.parametrize(
    ("form", "play"),
    [
        pytest.param(halving_doubling_all_reduce_s, play_halving_doubling, id="halving"),
        pytest.param(recursive_doubling_all_reduce_s, play_recursive_doubling, id="doubling"),
    ],
)
@given(size=sizes, doublings=st.integers(0, 6), hop=hops)
@few
def test_of_a_power_of_two(form, play, size: float, doublings: int, hop: Hop) -> None:  # type: ignore[no-untyped-def]  # forms of one shape
    assert form(size, 1 << doublings, hop) == pytest.approx(play(size, 1 << doublings, hop))


@given(size=st.floats(1, 1e12), depth=st.integers(1, 20), chunks=st.integers(1, 50), hop=plain_hops)
@few
def test_a_chain_in_chunks(size: float, depth: int, chunks: int, hop: Hop) -> None:
    chunk = size / chunks
    played = play_pipelined_chain(size, depth, hop, chunk)
    assert pipelined_broadcast_s(size, depth, hop, chunk) == pytest.approx(played)
    assert best_pipelined_broadcast_s(size, depth, hop) <= played * (1 + 1e-9)


@given(
    size=sizes,
    layers=st.lists(st.builds(Layer, members=st.integers(1, 9), hop=plain_hops), max_size=4),
)
@few
def test_layers_in_sequence(size: float, layers: list[Layer]) -> None:
    played, shard = 0.0, size
    for layer in layers:
        played += play_ring_all_reduce(shard, layer.members, layer.hop)
        shard /= layer.members
    assert layered_all_reduce_s(size, tuple(layers)) == pytest.approx(played)


@given(
    size=sizes,
    workers=st.integers(1, 12),
    servers=st.integers(1, 12),
    rate=st.floats(1e3, 1e12),
)
@few
def test_servers_beside_workers(size: float, workers: int, servers: int, rate: float) -> None:
    traffic: dict[tuple[str, str], float] = {}
    for worker, server in product(range(workers), range(servers)):
        for edge in ((f"n{worker}", f"n{server}"), (f"n{server}", f"n{worker}")):
            traffic[edge] = traffic.get(edge, 0.0) + size / servers
    busiest_s = busiest_port_s(traffic, Hop(latency_s=0.0, bytes_per_s=rate))
    found = colocated_exchange_s(size, workers=workers, servers=servers, bytes_per_s=rate)
    assert found == pytest.approx(busiest_s)


@given(
    size=sizes, workers=st.integers(1, 12), servers=st.integers(1, 12), rate=st.floats(1e3, 1e12)
)
@few
def test_servers_of_their_own(size: float, workers: int, servers: int, rate: float) -> None:
    push = {(f"w{w}", f"s{s}"): size / servers for w, s in product(range(workers), range(servers))}
    busiest_s = busiest_port_s(push, Hop(latency_s=0.0, bytes_per_s=rate))
    found = synchronous_exchange_s(
        size, workers=workers, servers=servers, worker_bytes_per_s=rate, server_bytes_per_s=rate
    )
    assert found == pytest.approx(busiest_s)


@given(
    forward_s=seconds,
    backward_s=seconds,
    buckets=st.lists(st.tuples(st.floats(0, 1), seconds), max_size=12),
)
@few
def test_buckets(forward_s: float, backward_s: float, buckets: list[tuple[float, float]]) -> None:
    shares = sorted(share for share, _ in buckets)
    exchange_s = [each for _, each in buckets]
    found = bucketed_step_s(
        forward_s=forward_s,
        backward_s=backward_s,
        optimizer_s=0.0,
        ready_s=[forward_s + share * backward_s for share in shares],
        exchange_s=exchange_s,
    )
    assert found == pytest.approx(play_buckets(forward_s, backward_s, shares, exchange_s))


@given(some=st.lists(blocks, min_size=1, max_size=12), keeps=st.booleans())
@few
def test_sharded_blocks(some: list[Block], *, keeps: bool) -> None:
    found = sharded_step_s(some, optimizer_s=0.1, is_resharded=not keeps)
    assert found == pytest.approx(play_sharded(some, optimizer_s=0.1, is_resharded=not keeps))


@given(block=blocks, count=st.integers(1, 40), keeps=st.booleans())
@few
def test_equal_blocks(block: Block, count: int, *, keeps: bool) -> None:
    found = equal_blocks_step_s(block, count, optimizer_s=0.0, is_resharded=not keeps)
    played = play_sharded([block] * count, optimizer_s=0.0, is_resharded=not keeps)
    assert found == pytest.approx(played)


@given(
    stages=st.integers(2, 7), rounds=st.integers(1, 4), batch_s=st.floats(0.1, 10), data=st.data()
)
@few
def test_pipelines(stages: int, rounds: int, batch_s: float, data: st.DataObject) -> None:
    # Exact where micro-batches are a multiple of the stages and a transfer is shorter than either
    # half of a micro-batch.
    transfer_s = data.draw(st.floats(0, batch_s / 3))
    micro_batches = stages * rounds
    found = one_forward_one_backward_s(
        stages=stages, micro_batches=micro_batches, micro_batch_s=batch_s, transfer_s=transfer_s
    )
    played = play_one_forward_one_backward(
        stages, micro_batches, batch_s / 3, 2 * batch_s / 3, transfer_s
    )
    assert found == pytest.approx(played)


@given(flows=st.integers(1, 6), links=st.integers(1, 4))
@few
def test_hashed_flows(flows: int, links: int) -> None:
    counts = [0] * (flows + 1)
    for choice in product(range(links), repeat=flows):
        counts[max(choice.count(link) for link in range(links))] += 1
    expected = [count / links**flows for count in counts]
    assert list(fullest_link_distribution(flows, links)) == pytest.approx(expected)
    assert min(most for most, count in enumerate(counts) if count) == ceil(flows / links)
