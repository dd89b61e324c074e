"""A whole node: a kubelet with a containerd of its own, its pods on a bridge of its own."""

import json
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.api_objects import ApiObjects
from tests.cluster.pause_image import PAUSE_IMAGE
from tests.cluster.processes import Processes
from tests.cluster.remains import ADDRESSES, BRIDGES, kill_tree, processes_of
from tests.polling import wait_until

READY_S_MAX = 180.0
POD_NETS = "10.244"
GPU = "nvidia.com/gpu"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNode:
    """One node of the cluster."""

    number: int
    home: Path
    programs: dict[str, Path]
    processes: Processes
    objects: ApiObjects
    labels: dict[str, str] = field(default_factory=dict)
    gpus: int = 0
    snapshotter: str = "native"
    """`overlayfs` where the machine can: it does not copy every layer."""

    @property
    def name(self) -> str:
        """Its name in the cluster."""
        return f"node-{self.number}"

    @property
    def address(self) -> str:
        """Where its kubelet listens."""
        return ADDRESSES[self.number]

    @property
    def socket(self) -> Path:
        """Of its containerd."""
        return self.home / "containerd.sock"

    def write_configuration(self) -> None:
        """Of containerd and of the pods' network."""
        (self.home / "cni").mkdir(parents=True, exist_ok=True)
        (self.home / "containerd.toml").write_text(_CONTAINERD.format(**self._facts))
        (self.home / "cni/10-bridge.conflist").write_text(json.dumps(self._network))

    def stock(self, archives: Sequence[Path]) -> None:
        """Give it images before it starts."""
        self.start_containerd()
        for archive in archives:
            self.load(archive)
        self.processes.end(f"containerd-{self.number}", signal.SIGTERM)

    def stock_like(self, other: "WholeNode") -> None:
        """Give it the images of another node that is not running, by hard links.

        Layers are never written to, so that nodes may share the files; the books are copied.
        """
        command = ["cp", "-al", str(other.home / "root"), str(self.home / "root")]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own words
        for book in (self.home / "root").rglob("*.db"):
            book.unlink()
            shutil.copyfile(other.home / book.relative_to(self.home), book)

    def start_containerd(self) -> None:
        """Start containerd on what it has."""
        config = self.home / "containerd.toml"
        path = f"{self.programs['containerd'].parent}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.processes.start(
            f"containerd-{self.number}",
            self.programs["containerd"],
            f"--config={config}",
            env={"PATH": path},
        )
        wait_until(lambda: self._ctr("version").returncode == 0, f"containerd of {self.name}")

    def load(self, archive: Path) -> None:
        """Give it an image. Without --local, archives that name no platform are refused."""
        done = self._ctr(
            *("-n", "k8s.io", "images", "import", "--local"),
            *("--snapshotter", self.snapshotter),
            str(archive),
        )
        assert done.returncode == 0, done.stderr

    def start_kubelet(self, kubeconfig: Path) -> None:
        """Start or restart the kubelet."""
        (self.home / "kubelet.yaml").write_text(json.dumps(self._kubelet))
        labels = ",".join(f"{key}={value}" for key, value in self.labels.items())
        self.processes.start(
            f"kubelet-{self.number}",
            self.programs["kubelet"],
            f"--config={self.home / 'kubelet.yaml'}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}",
            f"--root-dir={self.home / 'kubelet'}",
            f"--node-ip={self.address}",
            f"--node-labels={labels}",
        )

    def wait_until_ready(self) -> None:
        """Until it takes pods; its GPUs are written into its status, which the kubelet keeps."""
        wait_until(self.is_ready, f"{self.name} is ready", deadline_s=READY_S_MAX)
        if self.gpus:
            amounts = {GPU: str(self.gpus)}
            self.objects.patch(
                f"/api/v1/nodes/{self.name}/status",
                {"status": {"capacity": amounts, "allocatable": amounts}},
            )

    def is_ready(self) -> bool:
        """Whether the cluster says so."""
        node = self.objects.find(f"/api/v1/nodes/{self.name}")
        conditions = node["status"].get("conditions", []) if node else []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def kill_kubelet(self) -> None:
        """SIGKILL to the kubelet: its pods run on."""
        self.processes.end(f"kubelet-{self.number}", signal.SIGKILL)

    def lose(self) -> None:
        """The machine is gone: kubelet, runtime and every container."""
        for name in (f"kubelet-{self.number}", f"containerd-{self.number}"):
            self.processes.end(name, signal.SIGKILL)
        kill_tree(processes_of(self.home))

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own words
            [self.programs["ctr"], "-a", self.socket, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def _facts(self) -> dict[str, str]:
        return {
            "home": str(self.home),
            "snapshotter": self.snapshotter,
            "pause": PAUSE_IMAGE,
            "plugins": str(self.programs["bridge"].parent),
        }

    @property
    def _network(self) -> dict[str, object]:
        subnet = f"{POD_NETS}.{self.number}.0/24"
        addresses = {
            "type": "host-local",
            "dataDir": str(self.home / "addresses"),
            "ranges": [[{"subnet": subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {
            "type": "bridge",
            "bridge": BRIDGES[self.number],
            "isGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": addresses,
        }
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}

    @property
    def _kubelet(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            # In the common folder each kubelet would remove the logs of the others' pods.
            "podLogsDir": str(self.home / "pod-logs"),
            "healthzPort": 0,
            "readOnlyPort": 0,
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "evictionHard": {},
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "clusterDNS": [ADDRESSES[0]],
            "clusterDomain": "cluster.local",
            "resolvConf": "/etc/resolv.conf",
            "nodeStatusUpdateFrequency": "3s",
            "nodeLeaseDurationSeconds": 8,
        }


_CONTAINERD = """version = 3
root = "{home}/root"
state = "{home}/state"
[grpc]
  address = "{home}/containerd.sock"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{snapshotter}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
  # Containers may not ask for less than the test's own score; that needs a right it may lack.
  restrict_oom_score_adj = true
  # Mounts of network namespaces lie where all else of the node lies.
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{home}/cni"
"""
