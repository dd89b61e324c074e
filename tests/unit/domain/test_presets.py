"""Levels read off the labels that real clusters carry."""

import pytest

from scheduler.domain.presets import PRESETS, find_topology, preset
from scheduler.domain.topology import path_of

AWS = "topology.k8s.aws/network-node-layer-"
OCI = "oci.oraclecloud.com/rdma."
ZONE = "topology.kubernetes.io/zone"
CLIQUE = "nvidia.com/gpu.clique"


@pytest.mark.parametrize(
    ("labels", "name", "levels"),
    [
        pytest.param(
            {AWS + "1": "a", AWS + "2": "b", AWS + "3": "c", ZONE: "z"},
            "aws",
            ["layer-3", "layer-2", "layer-1", "zone"],
            id="aws with three layers",
        ),
        pytest.param(
            {AWS + "1": "a", AWS + "2": "b", AWS + "3": "c", AWS + "4": "d"},
            "aws",
            ["layer-4", "layer-3", "layer-2", "layer-1"],
            id="aws with a fourth layer, which is the closest",
        ),
        pytest.param(
            {
                "cloud.google.com/gce-topology-block": "b",
                "cloud.google.com/gce-topology-subblock": "s",
            },
            "gcp",
            ["subblock", "block"],
            id="gcp",
        ),
        pytest.param(
            {
                OCI + "hpc_island_id": "i",
                OCI + "network_block_id": "n",
                OCI + "local_block_id": "l",
            },
            "oci",
            ["local-block", "network-block", "hpc-island"],
            id="oci",
        ),
        pytest.param(
            {
                "backend.coreweave.cloud/fabric": "f",
                "backend.coreweave.cloud/leafgroup": "g",
            },
            "coreweave",
            ["leafgroup", "fabric"],
            id="coreweave",
        ),
        pytest.param(
            {
                "accelerator.topograph.run/domain": "d",
                "fabric.topograph.run/tier-0": "t0",
                "fabric.topograph.run/tier-1": "t1",
            },
            "topograph-v1",
            ["nvlink-domain", "tier-0", "tier-1"],
            id="topograph since version 1",
        ),
        pytest.param(
            {
                "network.topology.nvidia.com/accelerator": "a",
                "network.topology.nvidia.com/leaf": "l",
                "network.topology.nvidia.com/spine": "s",
            },
            "topograph-v0",
            ["nvlink-domain", "leaf", "spine"],
            id="topograph before version 1",
        ),
        pytest.param(
            {ZONE: "z", CLIQUE: "u.1"}, "zones", ["nvlink-domain", "zone"], id="cliques in a zone"
        ),
        pytest.param({CLIQUE: "u.1"}, "nvlink", ["nvlink-domain"], id="cliques alone"),
        pytest.param(
            {CLIQUE: "u.1", AWS + "1": "a"},
            "aws",
            ["nvlink-domain", "layer-1"],
            id="cliques are closer than any network level",
        ),
        pytest.param({"kubernetes.io/hostname": "n"}, "", [], id="no topology at all"),
    ],
)
def test_levels_come_from_the_labels(labels: dict[str, str], name: str, levels: list[str]) -> None:
    found = find_topology([labels])

    assert found.preset == name
    assert [level.name for level in found.levels] == levels
    assert found.nodes_without == {}


def test_nodes_that_miss_a_label_are_counted() -> None:
    found = find_topology([{AWS + "1": "a", AWS + "2": "b"}, {AWS + "1": "a"}, {}])

    assert found.nodes_without == {"layer-2": 2, "layer-1": 1}


def test_a_cloud_that_does_not_know_is_as_if_it_said_nothing() -> None:
    known = {OCI + "network_block_id": "n", OCI + "local_block_id": "l"}
    unknown = {OCI + "network_block_id": "n", OCI + "local_block_id": "no-imds-data"}
    found = find_topology([known, unknown])

    assert found.nodes_without == {"local-block": 1}
    assert path_of(unknown, found.levels) == ("n", "")


def test_every_preset_has_a_name_of_its_own() -> None:
    assert len({found.name for found in PRESETS}) == len(PRESETS)
    assert all(preset(found.name) is found for found in PRESETS)
    assert preset("nothing") is None
