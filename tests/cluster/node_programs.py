"""The programs of a node, and what they need of the machine."""

import os
import shutil
from pathlib import Path

from tests.cluster.tools import ToolSet, programs
from tests.not_run import not_run

_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"

KUBELET = ToolSet(
    name="kubernetes",
    packages=("k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kube-proxy"),
)
NODE = ToolSet(
    name="node",
    packages=(
        *(f"{_CONTAINERD}/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")),
        *(f"{_CNI}/{name}" for name in ("main/bridge", "main/loopback", "ipam/host-local")),
    ),
    tags="no_btrfs no_zfs no_devmapper",
)
DNS = ToolSet(name="coredns", packages=(".",))
PAUSE = ToolSet(name="pause", packages=(".",))
FROM_DEBIAN = {"runc": "runc", "nft": "nftables", "ip": "iproute2"}
"""Programs of the system, with the package of each."""
SYSTEM_PATHS = "/usr/sbin:/sbin"


def node_programs() -> dict[str, Path]:
    """All of them by name; where something is missing, the test is reported as not run."""
    require_root()
    search = f"{os.environ['PATH']}:{SYSTEM_PATHS}"
    missing = [
        package for name, package in FROM_DEBIAN.items() if shutil.which(name, path=search) is None
    ]
    if missing:
        not_run(f"whole nodes need the Debian packages {' '.join(missing)}")
    return programs(KUBELET, NODE, DNS, PAUSE)


def require_root() -> None:
    """Nodes make network namespaces, mounts and addresses."""
    if os.geteuid() != 0:
        not_run("whole nodes need root")
