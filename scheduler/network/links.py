"""Fitted constants of links inside nodes and of networks between them, by class."""

from collections.abc import Mapping

from scheduler.network.fabric import InsideLinks, NetworkLinks
from scheduler.network.units import MIB, gigabytes_per_s

_NDR_NODE = gigabytes_per_s(400)

INSIDE: Mapping[str, InsideLinks] = {
    # 8 A100 with NVSwitch: 45 rows of three systems.
    "nvlink3": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(241.3),
        pairwise_bytes_per_s=gigabytes_per_s(220.8),
        base_s=39.95e-6,
        root_s=18.52e-9,
    ),
    # No sweep of V100: the vendor's ring plateau (122 GB/s), and latencies as on A100.
    "nvlink2": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(126),
        base_s=40e-6,
        root_s=25.6e-9,
    ),
    # Half the links of V100 at 20 against 25 GB/s.
    "nvlink1": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(60),
        base_s=40e-6,
        root_s=37e-9,
    ),
    "nvlink4": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(376.9),
        switch_bytes_per_s=gigabytes_per_s(324.5),
        pairwise_bytes_per_s=gigabytes_per_s(337.7),
        base_s=16.0e-6,
        root_s=13.09e-9,
    ),
    "nvlink4-p5": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(376.9),
        switch_bytes_per_s=gigabytes_per_s(319.6),
        pairwise_bytes_per_s=gigabytes_per_s(337.7),
        base_s=15.51e-6,
        root_s=11.83e-9,
    ),
    "nvlink4-azure": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(376.9),
        switch_bytes_per_s=gigabytes_per_s(321.4),
        pairwise_bytes_per_s=gigabytes_per_s(337.7),
        base_s=28.88e-6,
        root_s=8.843e-9,
    ),
    "nvlink4-h200": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(372.5),
        switch_bytes_per_s=gigabytes_per_s(317.3),
        pairwise_bytes_per_s=gigabytes_per_s(337.7),
        base_s=36.31e-6,
        root_s=8.473e-9,
    ),
    "nvlink5": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(712.0),
        switch_bytes_per_s=gigabytes_per_s(566.6),
        pairwise_bytes_per_s=gigabytes_per_s(697.9),
        base_s=42.87e-6,
        root_s=10.05e-9,
    ),
    # 72 GPUs: a published fit of 208 us, 0.022 us per root byte and 973 GB/s (design/network.md,
    # section 11); latency per step is what 72 GPUs need beyond 8.
    "nvlink5-nvl72": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(712.0),
        switch_bytes_per_s=gigabytes_per_s(500.0),
        pairwise_bytes_per_s=gigabytes_per_s(697.9),
        base_s=42.87e-6,
        hop_s=1.16e-6,
        root_s=22.0e-9,
    ),
    "pcie3": InsideLinks(ring_bytes_per_s=gigabytes_per_s(12), base_s=30e-6),
    "pcie4": InsideLinks(ring_bytes_per_s=gigabytes_per_s(24), base_s=30e-6),
    "pcie5": InsideLinks(ring_bytes_per_s=gigabytes_per_s(48), base_s=30e-6),
    "nvlink-bridge": InsideLinks(ring_bytes_per_s=gigabytes_per_s(45), base_s=30e-6),
    "pcie-t4": InsideLinks(ring_bytes_per_s=gigabytes_per_s(2.0), base_s=30e-6, overlap=0.6),
    "pcie-rtx": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(1.78), base_s=30e-6, hop_s=350e-6, overlap=0.37
    ),
    "pcie-p100": InsideLinks(ring_bytes_per_s=gigabytes_per_s(8), base_s=30e-6),
    "pcie-k80": InsideLinks(ring_bytes_per_s=gigabytes_per_s(5), base_s=30e-6),
}

NETWORK: Mapping[str, NetworkLinks] = {
    "infiniband": NetworkLinks(
        efficiency=0.94,
        base_s=63.2e-6,
        hop_s=5e-6,
        root_hop_s=10.48e-9,
        root_bytes_max=64 * MIB,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "roce": NetworkLinks(
        efficiency=0.94,
        base_s=63.2e-6,
        hop_s=5e-6,
        root_hop_s=10.48e-9,
        root_bytes_max=64 * MIB,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "roce-50": NetworkLinks(efficiency=0.93, base_s=60e-6),
    "efa": NetworkLinks(
        efficiency=0.95, base_s=77e-6, root_hop_s=30e-9, root_nic_bytes_per_s=_NDR_NODE
    ),
    "efa-p4": NetworkLinks(
        efficiency=0.95,
        two_node_factor=2.07,
        base_s=161.9e-6,
        root_s=49.61e-9,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "efa-p5": NetworkLinks(
        efficiency=0.95,
        two_node_factor=1.63,
        base_s=73.77e-6,
        root_s=40.54e-9,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "efa-p6": NetworkLinks(
        efficiency=1.02, base_s=356.7e-6, root_s=20.34e-9, root_nic_bytes_per_s=_NDR_NODE
    ),
    "tcp": NetworkLinks(efficiency=0.8, base_s=200e-6, overlap=0.5),
    "tcp-cloud": NetworkLinks(
        efficiency=0.105, two_node_factor=0.62, base_s=100e-6, ring_hop_s=100e-6, overlap=0.72
    ),
    "tcp-lab": NetworkLinks(efficiency=0.55, ring_hop_s=400e-6, overlap=0.33),
}
