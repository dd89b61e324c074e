"""One step of every training style on a toy fabric with round numbers."""

from dataclasses import replace

import pytest

from scheduler.domain.communication import (
    STALENESS_UNBOUNDED,
    Axis,
    Collective,
    CommunicationProfile,
    Compression,
    ParallelAxes,
    Strategy,
    Traffic,
)
from scheduler.network.jitter import barrier_factor
from scheduler.network.overlap import Block
from scheduler.network.profiles import BUILT_IN
from scheduler.network.strategies import dimensions_of
from scheduler.network.workload import Workload, resolve
from tests.unit.network.streams import play_one_forward_one_backward, play_sharded
from tests.unit.network.toys import a_fabric, a_shape, a_workload, time_of

# Two nodes of 4: 8 ranks, a bus of 20 GB/s; 10 GB of gradients; 3 s of compute, 2 s of it backward.
ALL_REDUCE_S = 2 * 7 / 8 * 10 / 20
LAST_S = ALL_REDUCE_S / 400


@pytest.mark.parametrize(
    ("workload", "seconds"),
    [
        pytest.param(a_workload(), 3 + ALL_REDUCE_S, id="ddp, nothing hidden"),
        pytest.param(a_workload(overlap=0.25), 3 + ALL_REDUCE_S - 0.5, id="ddp, half a second"),
        pytest.param(a_workload(overlap=1.0), 3 + LAST_S, id="ddp, all but the last bucket"),
        pytest.param(
            a_workload(overlap=1.0, accumulation_steps=4),
            3 + ALL_REDUCE_S - 0.5,
            id="accumulation: only the last micro-step's backward hides",
        ),
        pytest.param(
            a_workload(Strategy.ZERO1, overlap=1.0),
            3 + LAST_S / 2 + ALL_REDUCE_S / 2,
            id="zero-1: the gather shows",
        ),
        pytest.param(
            a_workload(Strategy.ZERO2, overlap=0.0),
            3 + ALL_REDUCE_S,
            id="zero-2: as many bytes as ddp",
        ),
        pytest.param(
            a_workload(Strategy.FSDP), 3 + 1.5 * ALL_REDUCE_S, id="fsdp in one block hides nothing"
        ),
        pytest.param(
            a_workload(Strategy.ZERO3, blocks=10_000),
            pytest.approx(3, rel=1e-3),
            id="zero-3 in many blocks hides all",
        ),
        pytest.param(
            a_workload(Strategy.PS),
            3 + 2 * 7 / 8 * 10 / 5,
            id="servers beside workers: a slow ring",
        ),
        pytest.param(
            a_workload(Strategy.PS, servers=2),
            3 + 8 * 10 / (2 * 20),
            id="two servers on nodes of their own serve eight workers",
        ),
        pytest.param(
            a_workload(Strategy.PS, servers=8, staleness=STALENESS_UNBOUNDED),
            3 + 2 * 10 / 5,
            id="asynchronous: push and pull, nobody waits",
        ),
        pytest.param(
            a_workload(Strategy.PS, servers=1, staleness=STALENESS_UNBOUNDED, compute_s=0.0),
            8 * 10 / 20,
            id="asynchronous: one server sets the pace",
        ),
        pytest.param(
            a_workload(Strategy.LOCAL_SGD, local_steps=10), 3 + ALL_REDUCE_S / 10, id="local sgd"
        ),
        pytest.param(
            a_workload(Strategy.LOCAL_SGD, local_steps=10, overlap=1.0),
            3,
            id="local sgd, overlapped",
        ),
        pytest.param(a_workload(Strategy.PIPE_SGD), 3, id="pipe-sgd hides below the next step"),
        pytest.param(
            a_workload(Strategy.PIPE_SGD, compute_s=0.5), ALL_REDUCE_S, id="pipe-sgd, exposed"
        ),
        pytest.param(a_workload(Strategy.GOSSIP), 3 + 2 * 10 / 20, id="gossip with two neighbours"),
        pytest.param(
            a_workload(Strategy.GOSSIP, degree=1), 3 + 10 / 20, id="gossip with one neighbour"
        ),
        pytest.param(
            a_workload(Strategy.GOSSIP, degree=3), 3 + 3 * 10 / 5, id="gossip with far neighbours"
        ),
        pytest.param(a_workload(Strategy.NONE), 3, id="islands"),
        pytest.param(
            a_workload(compression=Compression(ratio=0.1, codec_s=0.2)),
            3 + 0.2 + ALL_REDUCE_S / 10,
            id="compression",
        ),
        pytest.param(
            a_workload(compression=Compression(ratio=0.01, is_sparse=True)),
            3 + 7 * 0.01 * 10 / 20,
            id="top-k goes by all-gather",
        ),
        pytest.param(a_workload(encrypted_factor=1.5), 3 + 1.5 * ALL_REDUCE_S, id="encrypted hops"),
    ],
)
def test_a_step_on_two_nodes(workload: Workload, seconds: float) -> None:
    assert time_of(workload, "4 4").total_s == pytest.approx(seconds)


def test_alone_every_strategy_only_computes() -> None:
    for strategy in Strategy:
        time = time_of(a_workload(strategy), "1")
        assert time.total_s == pytest.approx(3.0), strategy
        assert time.exposed_s == pytest.approx(0.0), strategy


def test_the_parts_of_a_step() -> None:
    time = time_of(a_workload(overlap=0.25), "4 4")
    assert time.compute_s == pytest.approx(3.0)
    assert time.communication_s == pytest.approx(ALL_REDUCE_S)
    assert time.exposed_s == pytest.approx(ALL_REDUCE_S - 0.5)
    assert time.exposed_share == pytest.approx(time.exposed_s / time.total_s)


@pytest.mark.parametrize("blocks", [1, 2, 7, 32])
@pytest.mark.parametrize("micro_steps", [1, 3])
def test_a_sharded_step_takes_as_long_as_its_streams(blocks: int, micro_steps: int) -> None:
    workload = a_workload(Strategy.FSDP, blocks=blocks, accumulation_steps=micro_steps)
    gather_s = 7 / 8 * 10 / 20 / blocks
    block = Block(
        forward_s=1 / (blocks * micro_steps),
        backward_s=2 / (blocks * micro_steps),
        gather_s=gather_s,
        scatter_s=gather_s,
    )
    played = micro_steps * play_sharded([block] * blocks, optimizer_s=0.0, is_resharded=True)
    assert time_of(workload, "4 4").total_s == pytest.approx(played)


def test_hybrid_sharding_gathers_in_the_node_and_sums_over_nodes() -> None:
    axes = ParallelAxes(shard=4)
    time = time_of(a_workload(Strategy.HSDP, parallel=axes), "4 4")
    # A quarter of the gradients of each rank over its NIC of 5 GB/s, pair by pair.
    between_s = 2 * 1 / 2 * 2.5 / 5
    within_s = 3 * 3 / 4 * 10 / 100
    assert time.total_s == pytest.approx(3 + within_s + between_s)


def test_tensor_parallel_blocks_and_stays_in_the_node() -> None:
    traffic = Traffic(
        axis=Axis.TENSOR, collective=Collective.ALL_REDUCE, bytes_per_step=40_000_000_000
    )
    workload = a_workload(
        Strategy.NONE, parallel=ParallelAxes(tensor=4), traffic=(traffic,), gradient_bytes=0.0
    )
    assert time_of(workload, "4 4").total_s == pytest.approx(3 + 2 * 3 / 4 * 40 / 100)
    # Eight ranks of one tensor group over two nodes: NICs instead of NVLink.
    wide = replace(workload, parallel=ParallelAxes(tensor=8))
    assert time_of(wide, "4 4").total_s == pytest.approx(3 + 2 * 7 / 8 * 40 / 20)


def test_an_axis_in_the_outer_place_leaves_the_node() -> None:
    traffic = Traffic(
        axis=Axis.TENSOR, collective=Collective.ALL_REDUCE, bytes_per_step=40_000_000_000
    )
    outer = ParallelAxes(tensor=2, shard=4, order=(Axis.SHARD, Axis.TENSOR))
    workload = a_workload(Strategy.NONE, parallel=outer, traffic=(traffic,), gradient_bytes=0.0)
    # Four pairs side by side, each over its own NIC.
    assert time_of(workload, "4 4").total_s == pytest.approx(3 + 40 / 5)


def test_gradients_of_a_cut_model_go_over_its_replicas_only() -> None:
    workload = a_workload(parallel=ParallelAxes(tensor=4))
    # Each rank holds a quarter and has one partner on the other node, four pairs side by side.
    assert time_of(workload, "4 4").total_s == pytest.approx(3 + 2 * 1 / 2 * 2.5 / 5)


def test_experts_exchange_all_to_all() -> None:
    traffic = Traffic(
        axis=Axis.EXPERT, collective=Collective.ALL_TO_ALL, bytes_per_step=8_000_000_000
    )
    workload = a_workload(
        Strategy.NONE, parallel=ParallelAxes(expert=8), traffic=(traffic,), gradient_bytes=0.0
    )
    assert time_of(workload, "4 4").total_s == pytest.approx(3 + 7 / 8 * 8 / 5)


@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_takes_as_long_as_its_schedule(stages: int) -> None:
    micro_batches = 2 * stages
    messages = 2 * micro_batches
    traffic = Traffic(
        axis=Axis.PIPELINE,
        collective=Collective.SEND_RECEIVE,
        bytes_per_step=messages * 500_000_000,
        messages_per_step=messages,
    )
    workload = a_workload(
        Strategy.NONE,
        parallel=ParallelAxes(pipeline=stages),
        traffic=(traffic,),
        gradient_bytes=0.0,
        accumulation_steps=micro_batches,
    )
    # One rank a node: an activation of 0.5 GB over 20 GB/s.
    played = play_one_forward_one_backward(
        stages, micro_batches, 1 / micro_batches, 2 / micro_batches, 0.5 / 20
    )
    assert time_of(workload, " ".join("1" * stages)).total_s == pytest.approx(played)


def test_declared_traffic_of_the_data_axis_replaces_the_strategy() -> None:
    traffic = Traffic(
        axis=Axis.DATA,
        collective=Collective.ALL_REDUCE,
        bytes_per_step=4_000_000_000,
        is_blocking=False,
    )
    workload = a_workload(traffic=(traffic,), overlap=0.1)
    assert time_of(workload, "4 4").total_s == pytest.approx(3 + 2 * 7 / 8 * 4 / 20 - 0.2)


def test_the_crowd_on_a_node_slows_its_ranks() -> None:
    fabric = a_fabric()
    node = replace(fabric.default_node, packing_factor=1.3)
    fabric = replace(fabric, default_node=node)
    lonely = a_workload(Strategy.NONE)
    assert time_of(lonely, "1 1", fabric).total_s == pytest.approx(3.0)
    assert time_of(lonely, "4", fabric).total_s == pytest.approx(3.9)


@pytest.mark.parametrize(
    ("strategy", "fields", "members", "rounds"),
    [
        pytest.param(Strategy.DDP, {}, 8, 1, id="all wait for all"),
        pytest.param(Strategy.NONE, {}, 1, 1, id="nobody waits"),
        pytest.param(Strategy.GOSSIP, {"degree": 2}, 3, 1, id="neighbours wait"),
        pytest.param(Strategy.LOCAL_SGD, {"local_steps": 4}, 8, 4, id="many steps even it out"),
        pytest.param(
            Strategy.PS, {"servers": 8, "staleness": STALENESS_UNBOUNDED}, 1, 1, id="asynchronous"
        ),
        pytest.param(Strategy.PS, {"servers": 8, "staleness": 3}, 8, 4, id="bounded staleness"),
    ],
)
def test_who_waits_for_whom(
    strategy: Strategy, fields: dict[str, int], members: int, rounds: int
) -> None:
    fabric = replace(a_fabric(), compute_variation=0.1)
    workload = a_workload(strategy, gradient_bytes=0.0, **fields)
    assert time_of(workload, "4 4", fabric).compute_s == pytest.approx(
        3 * barrier_factor(members, 0.1 / rounds**0.5)
    )


def test_kernels_slow_down_only_while_something_is_sent() -> None:
    fabric = replace(a_fabric(), busy_kernels_factor=1.1)
    assert time_of(a_workload(), "1", fabric).total_s == pytest.approx(3.0)
    assert time_of(a_workload(), "4 4", fabric).compute_s == pytest.approx(3.3)


def test_ranks_that_are_over_belong_to_no_group() -> None:
    # Eight trainers on two nodes and a chief with a GPU of its own.
    sizes = dict(dimensions_of(ParallelAxes(tensor=4), 9))
    assert (sizes[Axis.TENSOR], sizes[Axis.DATA]) == (4, 2)
    workload = a_workload(parallel=ParallelAxes(tensor=4))
    assert time_of(workload, "4 4 1").total_s == time_of(workload, "4 4").total_s


def test_a_gang_too_small_for_its_axes_is_data_parallel() -> None:
    assert dimensions_of(ParallelAxes(tensor=16), 8) == ((Axis.DATA, 8),)
    profile = CommunicationProfile(
        model="llama3.1-8b", batch_per_gpu=1, parallel=ParallelAxes(tensor=16)
    )
    found = resolve(profile, ranks=8, gpu_model="H100", models=BUILT_IN)
    plain = replace(profile, parallel=ParallelAxes())
    assert found == resolve(plain, ranks=8, gpu_model="H100", models=BUILT_IN)


@pytest.mark.parametrize("picture", ["4 4", "4 4 | 4 4", "4"])
def test_even_placements_are_never_slower_than_uneven_ones(picture: str) -> None:
    even = time_of(a_workload(), picture).total_s
    fabric = a_fabric()
    node = replace(fabric.default_node, shares_idle_nics=False)
    fabric = replace(fabric, default_node=node)
    assert a_shape(picture).is_even
    assert (
        time_of(a_workload(), "3 1", fabric).total_s >= time_of(a_workload(), "2 2", fabric).total_s
    )
    assert even > 3.0
