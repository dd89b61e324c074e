"""The fabric of a cluster: its own levels and sizes, links as an admin says or as is usual."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.ids import GpuModel, LevelName
from scheduler.domain.links import FabricPlan, NodeLinksPlan
from scheduler.domain.topology import Level, Node, Uplink
from scheduler.network.cluster_fabric import fabric_of_cluster
from scheduler.network.fabric import Fabric
from scheduler.network.iteration import iteration_time
from scheduler.network.presets import PRESETS
from scheduler.network.shape import Shape, shape_of_counts
from tests.builders import a_node

A100, H100 = GpuModel("A100-80GB"), GpuModel("H100-80GB")
RACK, BLOCK = LevelName("rack"), LevelName("block")
LEVELS = (Level(name=RACK), Level(name=BLOCK))
NODES = tuple(
    a_node(f"n{n}", gpus=8, gpu_model=H100, path=(f"b{n // 4}", f"r{n // 2}")) for n in range(8)
)
GRADIENTS = CommunicationProfile(gradient_bytes=4 * 10**9, compute_s=0.001, overlap=0.0)
TWO_RACKS = shape_of_counts([8] * 4, paths=[("r0", "b0"), ("r0", "b0"), ("r1", "b0"), ("r1", "b0")])
ONE_RACK = shape_of_counts([8] * 2, paths=[("r0", "b0"), ("r0", "b0")])


def with_uplink(uplink: Uplink) -> tuple[Level, ...]:
    """The levels, with what leads out of a rack."""
    return (replace(LEVELS[0], uplink=uplink), LEVELS[1])


def step_s(fabric: Fabric, shape: Shape = TWO_RACKS) -> float:
    return iteration_time(GRADIENTS, shape, fabric, gpu_model=H100).total_s


def test_levels_and_sizes_are_those_of_the_cluster() -> None:
    fabric = fabric_of_cluster(LEVELS, NODES)
    assert [(level.name, level.nodes) for level in fabric.levels] == [
        ("rack", 2),
        ("block", 4),
        ("cluster", 8),
    ]
    assert fabric.network == PRESETS["h100-ndr"].network
    assert fabric.node(H100) == PRESETS["h100-ndr"].default_node


@pytest.mark.parametrize(
    ("uplink", "as_slow_as"),
    [
        pytest.param(Uplink(oversubscription=8.0), 8.0, id="oversubscribed"),
        # 2 nodes of 8 NICs at 50 GB/s, through an eighth of that.
        pytest.param(Uplink(bytes_per_s=100e9), 8.0, id="by its rate"),
    ],
)
def test_a_narrow_way_out_of_a_rack_costs_gangs_over_racks(
    uplink: Uplink, as_slow_as: float
) -> None:
    wide = fabric_of_cluster(LEVELS, NODES)
    narrow = fabric_of_cluster(with_uplink(uplink), NODES)
    assert step_s(narrow) > 2 * step_s(wide)
    assert step_s(narrow, ONE_RACK) == step_s(wide, ONE_RACK)
    assert narrow.uplink_bytes_per_s(1, H100) == pytest.approx(
        wide.uplink_bytes_per_s(1, H100) / as_slow_as
    )


def test_latency_out_of_a_rack_is_added() -> None:
    slow = fabric_of_cluster(with_uplink(Uplink(latency_s=1.0)), NODES)
    assert step_s(slow) > 1.0 + step_s(fabric_of_cluster(LEVELS, NODES))


def test_parallel_uplinks_collide() -> None:
    fat = fabric_of_cluster(with_uplink(Uplink(bytes_per_s=400e9)), NODES)
    hashed = fabric_of_cluster(with_uplink(Uplink(bytes_per_s=400e9, parallel=8)), NODES)
    assert step_s(hashed) > step_s(fat)


def test_an_nvlink_domain_needs_no_nics() -> None:
    plain = fabric_of_cluster(LEVELS, NODES)
    joined = fabric_of_cluster(with_uplink(Uplink(is_nvlink=True)), NODES)
    assert joined.nvlink_tier == 1
    assert step_s(joined, ONE_RACK) < step_s(plain, ONE_RACK)


def test_a_named_preset_gives_the_network_and_its_nodes() -> None:
    fabric = fabric_of_cluster(LEVELS, NODES, FabricPlan(preset="h100-efa"))
    assert fabric.network == PRESETS["h100-efa"].network
    assert fabric.node(H100) == PRESETS["h100-efa"].default_node


def mixed(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with two more of another GPU model."""
    return (*nodes, a_node("a0", gpus=4, gpu_model=A100), a_node("a1", gpus=4, gpu_model=A100))


def test_other_gpu_models_keep_their_usual_nodes() -> None:
    fabric = fabric_of_cluster(LEVELS, mixed(NODES), FabricPlan(preset="h100-efa"))
    usual = PRESETS["a100-hdr"].default_node
    assert fabric.node(A100) == replace(usual, gpus=4)


def test_nics_and_presets_are_said_by_gpu_model() -> None:
    said = (
        NodeLinksPlan(gpu_model=H100, nics=2, nic_bytes_per_s=12.5e9),
        NodeLinksPlan(gpu_model=A100, fabric="a100-efa"),
    )
    fabric = fabric_of_cluster(LEVELS, mixed(NODES), FabricPlan(nodes=said))
    assert (fabric.node(H100).nics, fabric.node(H100).nic_bytes_per_s) == (2, 12.5e9)
    assert fabric.node(H100).inside == PRESETS["h100-ndr"].default_node.inside
    assert fabric.node(A100) == replace(PRESETS["a100-efa"].default_node, gpus=4)
    assert step_s(fabric) > step_s(fabric_of_cluster(LEVELS, NODES))


def test_a_cluster_without_nodes_has_a_fabric_too() -> None:
    fabric = fabric_of_cluster((), ())
    assert [level.nodes for level in fabric.levels] == [1]
