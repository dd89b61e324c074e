"""Topology files and the clusters they describe."""

from pathlib import Path

import pytest

from scheduler.domain.ids import GpuModel
from simulator.errors import TopologyError
from simulator.fabric import NetworkOptions, fabric_of
from simulator.topology_file import as_counter, plain_topology, read_topology


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    return file


def test_a_file_names_levels_nodes_and_fabric(tmp_path: Path) -> None:
    topology = read_topology(
        written(
            tmp_path,
            "fabric: v100-edr\n"
            "levels:\n- {name: rack, nodes: 2, oversubscription: 4}\n- {name: block, nodes: 4}\n"
            "nodes:\n- {count: 5, gpus: 8, gpuModel: V100}\n"
            "- {count: 1, gpus: 2, gpuModel: P100}\n",
        )
    )
    assert (topology.name, topology.fabric, topology.gpus) == ("t", "v100-edr", 42)
    assert [level.name for level in topology.domain_levels()] == ["rack", "block"]
    assert [level.oversubscription for level in topology.levels] == [4.0, 1.0]
    assert [(node.name, node.gpus, node.path) for node in topology.nodes()] == [
        ("n1", 8, ("block-1", "rack-1")),
        ("n2", 8, ("block-1", "rack-1")),
        ("n3", 8, ("block-1", "rack-2")),
        ("n4", 8, ("block-1", "rack-2")),
        ("n5", 8, ("block-2", "rack-3")),
        ("n6", 2, ("block-3", "rack-4")),
    ]


def test_a_file_says_the_links_as_dallyd_yaml_does(tmp_path: Path) -> None:
    topology = read_topology(
        written(
            tmp_path,
            "fabric: h100-ndr\n"
            "levels:\n"
            "- {name: rack, nodes: 2, bandwidth: 400GB, latencySeconds: 1.0e-6, uplinks: 4}\n"
            "- {name: pod, nodes: 4, nvlink: false}\n"
            "links: [{gpuModel: H100, nics: 4, nicBandwidth: 25GB}]\n"
            "nodes: [{count: 4, gpus: 8, gpuModel: H100}]\n",
        )
    )
    fabric = fabric_of(topology, NetworkOptions(congestion=2.0))
    rack, pod, _ = fabric.levels
    assert (rack.uplink_bytes_per_s, rack.hop_s, rack.uplinks) == (200e9, 1e-6, 4)
    assert (pod.uplink_bytes_per_s, pod.oversubscription, pod.is_nvlink) == (0.0, 2.0, False)
    node = fabric.node(GpuModel("H100"))
    assert (node.nics, node.nic_bytes_per_s) == (4, 25e9)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("nodes: [", "t.yaml:1: is not YAML", id="not YAML"),
        pytest.param("nodes: " + "[" * 3000, "t.yaml: is not YAML", id="too deep"),
        pytest.param("nodes: 2026-13-45", "t.yaml: is not YAML", id="no date"),
        pytest.param("- a", "is not a mapping", id="a list"),
        pytest.param("nodes: []", "field nodes: names no nodes", id="no nodes"),
        pytest.param("nodes: [{gpus: 8}]", r"field nodes\[0\].count: None", id="no count"),
        pytest.param(
            "nodes: [{count: 1, gpus: 0}]", r"field nodes\[0\].gpus: 0 is not", id="no GPUs"
        ),
        pytest.param("racks: 2\nnodes: [{count: 1, gpus: 1}]", "field racks: is not known", id="x"),
        pytest.param(
            "levels: [{name: node, nodes: 2}]\nnodes: [{count: 1, gpus: 1}]",
            r"field levels\[0\].name",
            id="a level of a reserved name",
        ),
        pytest.param(
            "levels: [{name: a, nodes: 4}, {name: b, nodes: 6}]\nnodes: [{count: 1, gpus: 1}]",
            "field levels: a b of 6 nodes is not made of whole as",
            id="levels that do not nest",
        ),
        pytest.param(
            "levels: [{name: a, nodes: 4, oversubscription: 0}]\nnodes: [{count: 1, gpus: 1}]",
            r"field levels\[0\].oversubscription: 0 is not",
            id="no uplink",
        ),
        pytest.param(
            "levels: [{name: a, nodes: 4, oversubscription: 2, bandwidth: 1GB}]\n"
            "nodes: [{count: 1, gpus: 1}]",
            r"field levels\[0\].oversubscription: says the same",
            id="a rate said twice",
        ),
        pytest.param(
            "links: [{gpuModel: A, nicBandwidth: fast}]\nnodes: [{count: 1, gpus: 1}]",
            r"field links\[0\].nicBandwidth",
            id="no rate",
        ),
    ],
)
def test_a_broken_file_is_refused_with_its_field(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(TopologyError, match=place):
        read_topology(written(tmp_path, text))


def test_plain_nodes_are_spread_evenly_over_racks() -> None:
    nodes = plain_topology(nodes=5, gpus_per_node=4, racks=2).nodes()
    assert [node.path for node in nodes] == [("rack-1",)] * 3 + [("rack-2",)] * 2
    assert {node.gpus for node in nodes} == {4}


@pytest.mark.parametrize(("nodes", "gpus", "racks"), [(0, 8, 1), (4, 0, 1), (4, 8, 5)])
def test_a_cluster_without_nodes_gpus_or_with_empty_racks_is_refused(
    nodes: int, gpus: int, racks: int
) -> None:
    with pytest.raises(TopologyError):
        plain_topology(nodes=nodes, gpus_per_node=gpus, racks=racks)


def test_a_counter_is_one_node_with_all_gpus() -> None:
    (only,) = as_counter(plain_topology(nodes=16, gpus_per_node=8)).nodes()
    assert (only.gpus, only.path) == (128, ())


@pytest.mark.parametrize(
    ("name", "gpus"),
    [("philly-2490", 2_490), ("v100-512", 512), ("h100-1024", 1_024), ("t4-64", 64)],
)
def test_every_example_has_the_gpus_its_name_says(name: str, gpus: int) -> None:
    examples = Path(__file__).parents[3] / "examples" / "topologies"
    assert read_topology(examples / f"{name}.yaml").gpus == gpus
