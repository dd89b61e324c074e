"""Fitted constants of links inside nodes and of networks between them, by class.

`python -m bench.fit_network` finds them again in shared/data/network; docs/network-model.md lists
what each class rests on. Rates are asymptotic: the latency terms keep real messages below them.
"""

from collections.abc import Mapping

from scheduler.network.fabric import InsideLinks, NetworkLinks
from scheduler.network.units import MIB, gigabytes_per_s

_NDR_NODE = gigabytes_per_s(400)
"""NICs of a node that the network's roots were fitted at."""

INSIDE: Mapping[str, InsideLinks] = {
    # The vendor's ring plateau of 8 V100; latencies are a guess.
    "nvlink2": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(123.1),
        pairwise_bytes_per_s=gigabytes_per_s(108),
        base_s=35e-6,
        root_s=12e-9,
        overlap=0.22,
    ),
    # 8 A100 with NVSwitch: three systems with sweeps.
    "nvlink3": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(240.4),
        pairwise_bytes_per_s=gigabytes_per_s(220.7),
        base_s=40.01e-6,
        root_s=18.33e-9,
    ),
    # 8 H100 or H200, any system.
    "nvlink4": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(376.8),
        switch_bytes_per_s=gigabytes_per_s(322.1),
        pairwise_bytes_per_s=gigabytes_per_s(337.6),
        base_s=16e-6,
        root_s=13.02e-9,
    ),
    # AWS p5.
    "nvlink4-p5": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(376.8),
        switch_bytes_per_s=gigabytes_per_s(319.6),
        pairwise_bytes_per_s=gigabytes_per_s(337.6),
        base_s=15.51e-6,
        root_s=11.83e-9,
    ),
    # Azure ND H100 v5.
    "nvlink4-azure": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(376.8),
        switch_bytes_per_s=gigabytes_per_s(321.4),
        pairwise_bytes_per_s=gigabytes_per_s(337.6),
        base_s=28.88e-6,
        root_s=8.843e-9,
    ),
    # 8 H200.
    "nvlink4-h200": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(372.5),
        switch_bytes_per_s=gigabytes_per_s(316.3),
        pairwise_bytes_per_s=gigabytes_per_s(337.6),
        base_s=36.35e-6,
        root_s=8.406e-9,
    ),
    # 8 B200.
    "nvlink5": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(713),
        switch_bytes_per_s=gigabytes_per_s(572),
        pairwise_bytes_per_s=gigabytes_per_s(699.6),
        base_s=42.74e-6,
        root_s=10.33e-9,
    ),
    # Vendor plateaus of 8 GPUs (PCIe 3: a rule of thumb); latencies are a guess.
    "pcie3": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(12),
        base_s=30e-6,
    ),
    "pcie4": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(23.61),
        base_s=30e-6,
    ),
    "pcie5": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(48),
        base_s=30e-6,
    ),
    # 72 GPUs: a published sweep, fitted as 208 us + 0.022 us a root byte + bus bytes at 973 GB/s.
    # The latency per step is what 72 GPUs need beyond 8.
    "nvlink5-nvl72": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(713),
        switch_bytes_per_s=gigabytes_per_s(500),
        pairwise_bytes_per_s=gigabytes_per_s(699.6),
        base_s=42.74e-6,
        hop_s=1.16e-6,
        root_s=22e-9,
    ),
    # Half the links of V100, at 20 instead of 25 GB/s.
    "nvlink1": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(60),
        base_s=35e-6,
        root_s=12e-9,
    ),
    # Two consumer cards: a bridge of 50 GB/s one way.
    "nvlink-bridge": InsideLinks(ring_bytes_per_s=gigabytes_per_s(45), base_s=30e-6),
    # Cards that copy through the host: fitted to step times.
    "pcie-t4": InsideLinks(ring_bytes_per_s=gigabytes_per_s(1.55), base_s=30e-6, overlap=0.76),
    "pcie-rtx": InsideLinks(
        ring_bytes_per_s=gigabytes_per_s(1.79), base_s=30e-6, hop_s=349e-6, overlap=0.37
    ),
    "pcie-p100": InsideLinks(ring_bytes_per_s=gigabytes_per_s(2.64), base_s=30e-6, overlap=0.47),
    "pcie-k80": InsideLinks(ring_bytes_per_s=gigabytes_per_s(1.65), base_s=30e-6, overlap=0.52),
}

NETWORK: Mapping[str, NetworkLinks] = {
    # Latency per doubling: NCCL's tuner constants, halved; the rest is fitted.
    "infiniband": NetworkLinks(
        efficiency=0.9553,
        base_s=21.28e-6,
        hop_s=5e-6,
        root_hop_s=11.47e-9,
        root_bytes_max=64 * MIB,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "infiniband-sharp": NetworkLinks(
        efficiency=0.9553,
        switch_factor=1.256,
        base_s=21.28e-6,
        hop_s=5e-6,
        root_hop_s=11.47e-9,
        root_bytes_max=64 * MIB,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "roce": NetworkLinks(
        efficiency=0.9614,
        base_s=21.28e-6,
        hop_s=5e-6,
        root_hop_s=11.47e-9,
        root_bytes_max=64 * MIB,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "roce-50": NetworkLinks(
        efficiency=0.9566,
        base_s=29.27e-6,
        hop_s=5e-6,
        root_bytes_max=64 * MIB,
        root_nic_bytes_per_s=_NDR_NODE,
        ring_hop_s=4.879e-6,
    ),
    "efa": NetworkLinks(
        efficiency=1,
        two_node_factor=1.351,
        base_s=90.76e-6,
        root_hop_s=34.37e-9,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "efa-p4": NetworkLinks(
        efficiency=1,
        two_node_factor=1.963,
        base_s=161.9e-6,
        root_s=49.61e-9,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "efa-p5": NetworkLinks(
        efficiency=1,
        two_node_factor=1.374,
        base_s=72.95e-6,
        root_s=45.32e-9,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "efa-p6": NetworkLinks(
        efficiency=1,
        two_node_factor=1.351,
        base_s=360.2e-6,
        root_s=18.31e-9,
        root_nic_bytes_per_s=_NDR_NODE,
    ),
    "tcp": NetworkLinks(
        efficiency=0.9508,
        base_s=200e-6,
    ),
    # Fitted to step times: 50 Gb/s nominal of which one job's few flows get a tenth.
    "tcp-cloud": NetworkLinks(
        efficiency=0.105, two_node_factor=0.634, base_s=200e-6, ring_hop_s=107e-6, overlap=0.76
    ),
    "tcp-lab": NetworkLinks(efficiency=0.519, base_s=200e-6, ring_hop_s=1.14e-3, overlap=0.37),
}
