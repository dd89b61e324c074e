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
from simulator.fabric import NetworkOptions, fabric_of
from simulator.topology_file import LevelPlan, NodeGroup, Topology
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


def test_a_preset_is_of_the_nodes_of_its_gpus_even_where_others_are_more() -> None:
    nodes = [
        *(a_node(f"a{n}", gpus=8, gpu_model=A100) for n in range(6)),
        a_node("b0", gpus=8, gpu_model=GpuModel("A100-40GB")),
        a_node("h0", gpus=8, gpu_model=H100),
    ]
    fabric = fabric_of_cluster((), nodes, FabricPlan(preset="h100-roce"))
    assert fabric.network == PRESETS["h100-roce"].network
    assert fabric.node(H100) == PRESETS["h100-roce"].default_node
    assert fabric.node(A100) == PRESETS["a100-hdr"].default_node
    # Memory sizes are one family: all A100 have the NICs of p4d.
    efa = fabric_of_cluster((), nodes, FabricPlan(preset="a100-efa"))
    for model in (A100, GpuModel("A100-40GB")):
        assert efa.node(model) == PRESETS["a100-efa"].default_node


def test_a_preset_of_gpus_that_are_not_there_is_of_the_model_most_gpus_are_of() -> None:
    fabric = fabric_of_cluster(LEVELS, mixed(NODES), FabricPlan(preset="v100-tcp"))
    assert fabric.node(H100) == PRESETS["v100-tcp"].default_node
    assert fabric.node(A100) == replace(PRESETS["a100-hdr"].default_node, gpus=4)


@pytest.mark.parametrize(
    ("uplink", "is_nvlink"),
    [
        pytest.param(Uplink(), True, id="as the fabric has it"),
        pytest.param(Uplink(is_nvlink=False), False, id="said not to be"),
    ],
)
def test_a_level_that_says_nothing_is_as_the_fabric_has_it(
    uplink: Uplink, *, is_nvlink: bool
) -> None:
    # The name that nodes' NVLink cliques have in Kubernetes.
    level = Level(name=LevelName("nvlink-domain"), uplink=uplink)
    nodes = [
        a_node(f"n{n}", gpus=4, gpu_model=GpuModel("GB200"), path=(f"d{n // 18}",))
        for n in range(36)
    ]
    fabric = fabric_of_cluster((level,), nodes)
    assert fabric.levels[0].is_nvlink is is_nvlink
    assert fabric.levels[0].nodes == 18


def test_live_and_simulated_clusters_have_one_fabric() -> None:
    rack = LevelPlan(name=RACK, nodes=4, oversubscription=4.0, latency_s=1e-6, uplinks=2)
    groups = (
        NodeGroup(count=8, gpus=8, gpu_model=H100),
        NodeGroup(count=4, gpus=4, gpu_model=A100),
    )
    links = (NodeLinksPlan(gpu_model=A100, nics=2),)
    topology = Topology(
        name="two kinds", levels=(rack,), groups=groups, fabric="h100-roce", links=links
    )
    live = fabric_of_cluster(
        topology.domain_levels(), topology.nodes(), FabricPlan(preset="h100-roce", nodes=links)
    )
    assert fabric_of(topology, NetworkOptions()) == live
    assert live.node(A100).nics == 2
    congested = fabric_of(topology, NetworkOptions(congestion=3.0, jitter=0.1))
    assert congested.levels[0].oversubscription == 12.0
    assert congested.compute_variation == 0.1


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
