"""`make cluster-demo`: a whole cluster on this machine, the chart, a training job, trouble.

Ends with 0 only if every step held and nothing was left behind.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.cluster.images import EXAMPLES, SERVER, built
from tests.cluster.release import Release, a_volume
from tests.cluster.remains import remains
from tests.cluster.tools import programs
from tests.cluster.training import PYTORCH, RUN_S_MAX, Training
from tests.cluster.whole_cluster import RACK_LABEL, WholeCluster
from tests.helm.helm_program import HELM, Helm
from tests.polling import wait_until

NAMESPACE = "demo-jobs"
SERVERS_NODE = "node-0"
TIGHT = "tight"
ONE_RACK: dict[str, object] = {"topology": {"required": "rack"}}


class Demo:
    """The steps, each said before it is done."""

    def __init__(self, cluster: WholeCluster, training: Training, folder: Path) -> None:
        self._cluster = cluster
        self._training = training
        self._environment = {
            **os.environ,
            "DALLY_CONFIG": str(folder / "dally.yaml"),
            "DALLY_SERVER": training.release.url,
            "DALLY_TOKEN": training.release.token,
        }

    def run(self) -> None:
        """From the training job to the lost node."""
        self.dally("get", "nodes")
        step("A PyTorch job of four workers trains in four pods")
        self.dally("apply", "-f", str(PYTORCH))
        self.dally("logs", "-f", "pytorch-ddp")
        self.dally(
            "wait", "job/pytorch-ddp", "--for=phase=Succeeded", f"--timeout={RUN_S_MAX:.0f}s"
        )
        self.dally("describe", "job", "pytorch-ddp")
        self._training.wait_until_gone("pytorch-ddp")
        self.show_distance()
        self.lose_a_node()

    def show_distance(self) -> None:
        """One GPU is free in each rack."""
        step("A job that must stay in one rack waits; one that need not spreads over both")
        for name in ("first", "second"):
            self._training.sleepers(name, workers=3, **ONE_RACK)
            self._training.wait_for(name, "Running")
        # In a queue of its own: who waits there holds nobody else up.
        self._training.sleepers("sensitive", workers=2, queue=TIGHT, **ONE_RACK)
        self._training.sleepers("insensitive", workers=2)
        self._training.wait_for("insensitive", "Running")
        self.dally("get", "jobs")
        self.dally("why", "sensitive")
        self.dally("describe", "placement", "insensitive")
        racks = set(self._training.racks("insensitive"))
        assert len(racks) == 2, f"the insensitive job is in {racks}"
        assert self._training.job("sensitive")["status"]["phase"] == "Pending"
        for name in ("first", "second", "insensitive"):
            self._training.cancel(name, now=True)
        self._training.wait_for("sensitive", "Running")
        assert len(set(self._training.racks("sensitive"))) == 1
        self._training.cancel("sensitive", now=True)

    def lose_a_node(self) -> None:
        """Its gang starts again elsewhere."""
        step("A node is lost; its gang starts again on others, and the node comes back")
        self._training.sleepers("lasting", workers=4)
        self._training.wait_for("lasting", "Running")
        held = {pod["spec"]["nodeName"] for pod in self._training.pods("lasting")}
        node = next(node for node in self._cluster.nodes if node.name in held - {SERVERS_NODE})
        sys.stdout.write(f"{node.name} is gone: kubelet, runtime and containers are killed\n")
        node.lose()
        wait_until(
            lambda: self._training.job("lasting").get("status", {}).get("attempts") == 2,
            "the gang starts again",
            deadline_s=RUN_S_MAX,
        )
        self._training.wait_for("lasting", "Running")
        self.dally("events", "--for", "job/lasting")
        self._cluster.bring_back(node)
        self.dally("get", "nodes")
        self._training.cancel("lasting", now=True)

    def dally(self, *arguments: str) -> None:
        """A command of the client, shown and run."""
        sys.stdout.write(f"\n$ dally {' '.join(arguments)}\n")
        sys.stdout.flush()
        program = Path(sys.executable).with_name("dally")
        subprocess.run([program, *arguments], env=self._environment, check=True)  # noqa: S603 - our own words


def step(text: str) -> None:
    """Say what comes."""
    sys.stdout.write(f"\n== {text}\n")
    sys.stdout.flush()


def timed(text: str, act: Callable[[], object]) -> None:
    """Do it and say how long it took."""
    step(text)
    started = time.monotonic()
    act()
    sys.stdout.write(f"({time.monotonic() - started:.0f} s)\n")


def main() -> int:
    """The exit code; what is missing is said in a line."""
    try:
        return demonstrate()
    except pytest.fail.Exception as missing:
        sys.stderr.write(f"{missing}\n")
        return 1


def demonstrate() -> int:
    """Run the demo; 1 if something was left behind."""
    os.environ["CI"] = "true"  # What is missing is said and fails.
    server, examples = built(SERVER), built(EXAMPLES)
    program = programs(HELM)["helm"]
    cluster = WholeCluster(images=[server.archive, examples.archive])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dally-demo-")))
        timed("Four nodes in two racks come up", lambda: stack.enter_context(cluster))
        persistence = stack.enter_context(a_volume(cluster, "demo"))
        release = Release(
            name="demo",
            helm=Helm(program=program, home=folder, kubeconfig=cluster.kubeconfig),
            cluster=cluster,
            image=server,
            values={
                "persistence": persistence,
                "nodeSelector": {"kubernetes.io/hostname": SERVERS_NODE},
                "jobNamespaces": {"names": [NAMESPACE]},
                "config": {
                    "topology": {"levels": [{"name": "rack", "label": RACK_LABEL}]},
                    "policy": {"nodeLostAfter": "20s"},
                    "queues": [{"name": TIGHT}],
                    "projects": [{"name": "default", "queues": ["default", TIGHT]}],
                },
            },
        )
        sys.stdout.write(yaml.safe_dump(release.values))
        timed("helm install", release.install)
        timed("helm test", release.test)
        Demo(cluster, Training(release=release, namespace=NAMESPACE), folder).run()
        timed("helm uninstall", release.uninstall)
        step("Everything is taken down")
    left = remains(cluster.folder)
    sys.stdout.write(
        "".join(f"left behind: {each}\n" for each in left) or "Nothing is left behind.\n"
    )
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
