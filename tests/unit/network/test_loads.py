"""What a placed job puts on the uplinks of its nodes and racks, by strategy."""

from dataclasses import replace

import pytest

from scheduler.domain.communication import (
    Axis,
    Collective,
    Compression,
    ParallelAxes,
    Strategy,
    Traffic,
)
from scheduler.network.loads import LinkKey, Uplink, load_of
from scheduler.network.sharing import Load
from scheduler.network.workload import Workload
from tests.unit.network.toys import a_fabric, a_shape, a_workload, time_of

TWO_RACKS = "4 4 | 4 4"
UPLINKS = tuple(Uplink(level=1, domain=name, ranks=8) for name in ("r0", "r1"))
RING = 2 * 15 / 16 * 10e9


def a_load(workload: Workload, picture: str = TWO_RACKS) -> Load[LinkKey]:
    return load_of(workload, a_shape(picture), a_fabric(), UPLINKS)


@pytest.mark.parametrize(
    ("workload", "size"),
    [
        pytest.param(a_workload(), RING, id="ddp: as much as one ring"),
        pytest.param(a_workload(Strategy.ZERO1), RING, id="zero-1: scatter and gather"),
        pytest.param(a_workload(Strategy.FSDP), 1.5 * RING, id="fsdp: gathered twice"),
        pytest.param(
            a_workload(Strategy.FSDP, accumulation_steps=4),
            4 * 1.5 * RING,
            id="fsdp: in every micro-step",
        ),
        pytest.param(
            a_workload(Strategy.HSDP, parallel=ParallelAxes(shard=4)),
            # Shards stay on their nodes; four rings of a quarter cross.
            4 * 2 * 3 / 4 * 10e9 / 4,
            id="hsdp: the sum over replicas",
        ),
        pytest.param(
            a_workload(Strategy.LOCAL_SGD, local_steps=5), RING / 5, id="local sgd: now and then"
        ),
        pytest.param(
            a_workload(Strategy.PS),
            # 8 ranks send gradients to 8 of 16 servers while as many send weights out.
            2 * 8 * 10e9 * 8 / 16,
            id="servers beside workers: gradients and weights",
        ),
        pytest.param(a_workload(Strategy.PS, servers=4), 8 * 10e9 * 8 / 16, id="servers elsewhere"),
        pytest.param(
            a_workload(compression=Compression(ratio=0.1)), RING / 10, id="compressed gradients"
        ),
        pytest.param(
            a_workload(compression=Compression(ratio=0.01, is_sparse=True)),
            15 * 0.01 * 10e9,
            id="top-k: everybody's entries to everybody",
        ),
        pytest.param(a_workload(Strategy.NONE), 0.0, id="islands"),
    ],
)
def test_bytes_out_of_a_rack(workload: Workload, size: float) -> None:
    load = a_load(workload)
    found = {uplink.link: load.bytes_by_link.get(uplink.link, 0.0) for uplink in UPLINKS}
    assert found == pytest.approx({uplink.link: size for uplink in UPLINKS})


@pytest.mark.parametrize("strategy", list(Strategy))
def test_alone_a_load_steps_as_the_model_says(strategy: Strategy) -> None:
    workload = a_workload(strategy, overlap=0.3, parallel=ParallelAxes(shard=4))
    assert a_load(workload).step_s() == pytest.approx(time_of(workload, TWO_RACKS).total_s)


def test_what_blocks_inside_a_node_is_not_stretched_by_an_uplink() -> None:
    inside = Traffic(
        axis=Axis.TENSOR, collective=Collective.ALL_REDUCE, bytes_per_step=100_000_000_000
    )
    workload = a_workload(parallel=ParallelAxes(tensor=4), traffic=(inside,))
    tensor_s = 2 * 3 / 4 * 100 / 100
    assert a_load(workload).compute_s == pytest.approx(3.0 + tensor_s)
    # Eight ranks of a tensor group stand on two nodes, sixteen in two racks.
    wide = replace(workload, parallel=ParallelAxes(tensor=16))
    assert a_load(wide).compute_s == pytest.approx(3.0)


def test_inside_one_rack_nothing_leaves_it() -> None:
    uplinks = (Uplink(level=1, domain="r0", ranks=8),)
    assert load_of(a_workload(), a_shape("4 4"), a_fabric(), uplinks).bytes_by_link == {}
