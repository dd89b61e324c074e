"""A whole Kubernetes cluster on one machine without Docker: root, Linux, and nothing left behind.

               kube-apiserver, etcd, controllers, scheduler, CoreDNS, kube-proxy
                                           │ 10.250.0.1
   ┌───────────────────────┬───────────────┴───────┬───────────────────────┐
node-0 (rack-0)         node-1 (rack-1)         node-2 (rack-0)         node-3 (rack-1)
kubelet, containerd     ...
pods on 10.244.0.0/24   10.244.1.0/24
"""

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.api_objects import ApiObjects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.in_memory import put_in_memory
from tests.cluster.node_programs import node_programs
from tests.cluster.pause_image import write_pause_image
from tests.cluster.processes import Processes
from tests.cluster.remains import ADDRESSES, remove_remains
from tests.cluster.whole_node import POD_NETS, WholeNode

RACK_LABEL = "example.com/rack"
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
DNS_CONFIG = """.:53 {{
    bind {address}
    errors
    kubernetes cluster.local {{
        endpoint {url}
        kubeconfig {kubeconfig}
    }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large the cluster is."""

    nodes: int = 4
    racks: int = 2
    gpus: int = 2
    """Of each node; nobody has them: they are written into its status."""


class WholeCluster:
    """A running cluster; leaving the context removes every process, mount and address of it.

    There is one on a machine at a time: addresses and bridges have fixed names.
    """

    def __init__(self, shape: Shape | None = None, *, images: Sequence[Path] = ()) -> None:
        """`images` are archives that every node has from the start."""
        self.shape = shape or Shape()
        self._images = images
        self.folder = Path(tempfile.gettempdir()).resolve() / "dally-whole-cluster"
        self.nodes: tuple[WholeNode, ...] = ()
        self._at_end = ExitStack()

    def __enter__(self) -> Self:
        """Start everything and wait until all nodes take pods."""
        programs = node_programs()
        with ExitStack() as stack:
            stack.enter_context(_alone(self.folder))
            stack.callback(self._remove)
            self._remove()
            self.folder.mkdir()
            put_in_memory(self.folder)
            stack.enter_context(_forwarding())
            self._add_addresses()
            plane_folder = self.folder / "control-plane"
            self.control_plane = ControlPlane(plane_folder, address=ADDRESSES[0])
            stack.enter_context(self.control_plane)
            processes = stack.enter_context(Processes(self.folder / "logs"))
            self.nodes = tuple(self._node(number, programs, processes) for number in self._numbers)
            self._start_nodes(programs["pause"])
            self._start_network(programs, processes)
            self._at_end = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End everything."""
        self._at_end.close()

    @property
    def objects(self) -> ApiObjects:
        """An admin's client."""
        return self.control_plane.objects

    @property
    def kubeconfig(self) -> Path:
        """An admin's kubeconfig."""
        return self.control_plane.kubeconfig

    def bring_back(self, node: WholeNode) -> None:
        """Start a node again that was lost."""
        node.start_containerd()
        node.start_kubelet(self.kubeconfig)
        node.wait_until_ready()

    @property
    def _numbers(self) -> range:
        return range(self.shape.nodes)

    def _node(self, number: int, programs: dict[str, Path], processes: Processes) -> WholeNode:
        return WholeNode(
            number=number,
            home=self.folder / f"node-{number}",
            programs=programs,
            processes=processes,
            objects=self.objects,
            labels={RACK_LABEL: f"rack-{number % self.shape.racks}"},
            gpus=self.shape.gpus,
            snapshotter="overlayfs" if self._can_overlay else "native",
        )

    @cached_property
    def _can_overlay(self) -> bool:
        """Whether file systems can be laid over each other where the nodes' files are."""
        trial = self.folder / "overlay"
        lower, upper, work, merged = (trial / each for each in ("lower", "upper", "work", "merged"))
        for each in (lower, upper, work, merged):
            each.mkdir(parents=True)
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        command = ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)]
        if subprocess.run(command, check=False, capture_output=True).returncode:  # noqa: S603 - our own words
            return False
        subprocess.run(["umount", str(merged)], check=True)  # noqa: S603, S607 - our own words
        return True

    def _start_nodes(self, pause: Path) -> None:
        for node in self.nodes:
            node.write_configuration()
        first, *others = self.nodes
        first.stock([write_pause_image(pause, self.folder / "pause.tar"), *self._images])
        for node in others:
            node.stock_like(first)
        for node in self.nodes:
            node.start_containerd()
            node.start_kubelet(self.kubeconfig)
        for node in self.nodes:
            node.wait_until_ready()

    def _start_network(self, programs: dict[str, Path], processes: Processes) -> None:
        config = self.folder / "Corefile"
        config.write_text(
            DNS_CONFIG.format(
                address=ADDRESSES[0], url=self.control_plane.url, kubeconfig=self.kubeconfig
            )
        )
        processes.start("coredns", programs["coredns"], "-conf", config)
        processes.start(
            "kube-proxy",
            programs["kube-proxy"],
            f"--kubeconfig={self.kubeconfig}",
            f"--hostname-override={self.nodes[0].name}",
            "--proxy-mode=nftables",
            f"--cluster-cidr={POD_NETS}.0.0/16",
            # It may not write the system's settings, and need not.
            "--conntrack-max-per-core=0",
        )

    def _add_addresses(self) -> None:
        for number in self._numbers:
            address = f"{ADDRESSES[number]}/32"
            command = ["ip", "address", "replace", address, "dev", "lo"]
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own words

    def _remove(self) -> None:
        remove_remains(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for another cluster on this machine to end."""
    with folder.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _forwarding() -> Iterator[None]:
    """Let packets pass between the bridges; afterwards it is as it was."""
    before = FORWARDING.read_text()
    FORWARDING.write_text("1")
    try:
        yield
    finally:
        FORWARDING.write_text(before)
