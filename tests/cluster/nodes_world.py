"""The Kubernetes adapter on whole nodes, for the Cluster suite: nothing is done but by real means.

what the suite asks for         how it comes about here
a worker ends with a code       its container's first process does, as that of any program
a signal of a stranger          as in any container with an init process: the program under it dies
a worker heeds the stop signal  the init process hands it on (a first process alone would not)
a worker that can not be made   an admission policy of the API server refuses its pod
how often user code ran         workers write it into a folder of their node, by a pod profile
the server dies                 its adapter is closed and another one is made
"""

import itertools
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from scheduler.adapters.kubernetes.nodes import NodeRules
from scheduler.domain.ids import LevelName
from scheduler.domain.pod_policy import PodPolicy, PodProfile, PodUser, ProfileMount, ProjectPods
from scheduler.domain.queue import DEFAULT_PROJECT
from scheduler.domain.topology import Level
from tests.builders import a_node
from tests.cluster.cluster_fixtures import new_namespace
from tests.cluster.remains import processes_of, words_of
from tests.cluster.whole_cluster import RACK_LABEL, WholeCluster
from tests.cluster.whole_node import WholeNode
from tests.contract.pods_world import Ground, PodsWorld
from tests.polling import wait_until

REAL_S_MAX = 240.0
"""The machine may be busy; alone, everything takes seconds."""
RULES = NodeRules(
    levels=(Level(name=LevelName("rack"), label=RACK_LABEL),), ready_after_s=1.0, shrunk_after_s=1.0
)
SEEN_LEDGER = Path("/ledger")
INIT = """
trap 'stopped=1; kill -TERM $child 2>/dev/null' TERM
sh -c "$1" &
child=$!
exec >/dev/null 2>&1
[ -z "$stopped" ] || kill -TERM $child
while :; do
    wait $child
    code=$?
    kill -0 $child 2>/dev/null || exit $code
done
"""
"""What a container's first process is for: it hands signals on and ends as its program does."""

_numbers = itertools.count()


class NodesWorld(PodsWorld):
    """Pods in containers of real nodes; each world begins with another node."""

    def __init__(self, cluster: WholeCluster, image: str) -> None:
        number = next(_numbers)
        first = number % len(cluster.nodes)
        self.whole_nodes: tuple[WholeNode, ...] = (
            *cluster.nodes[first:],
            *cluster.nodes[:first],
        )
        namespace = f"contract-{number}"
        new_namespace(cluster.objects, namespace)
        ledger = cluster.folder / "ledgers" / namespace
        ledger.mkdir(parents=True)
        user = PodUser()
        assert user.uid is not None
        os.chown(ledger, user.uid, user.uid)
        self._objects = cluster.objects
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self._namespace_path = f"/api/v1/namespaces/{namespace}"
        super().__init__(
            Ground(
                objects=cluster.objects,
                namespace=namespace,
                kubeconfig=cluster.kubeconfig,
                nodes=tuple(
                    a_node(node.name, gpus=node.gpus, path=(node.labels[RACK_LABEL],))
                    for node in self.whole_nodes
                ),
                image=image,
                ledger=ledger,
                policy=_shows(ledger),
            ),
            RULES,
        )

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        wait_until(is_so, what, deadline_s=REAL_S_MAX)

    def shell(self, script: str) -> Sequence[str]:
        return ("sh", "-c", INIT, "init", script)

    @property
    def seen_ledger(self) -> Path:
        return SEEN_LEDGER

    def kill_first_process(self, node: WholeNode) -> None:
        """SIGKILL from the node to a container's first process: the container is no more."""
        os.kill(next(self._first_processes(node)), signal.SIGKILL)

    def _first_processes(self, node: WholeNode) -> Iterator[int]:
        """Of this world's containers: those of an earlier one may still be on their way out."""
        for pid in processes_of(node.home):
            if words_of(pid)[:3] == ["sh", "-c", INIT] and self._sees_our_ledger(pid):
                yield pid

    def _sees_our_ledger(self, pid: int) -> bool:
        try:
            mounts = Path(f"/proc/{pid}/mountinfo").read_text()
        except OSError:
            return False  # It is gone.
        return f"/{self._ground.ledger.name} {SEEN_LEDGER} " in mounts

    def close(self) -> None:
        super().close()
        self._objects.delete(self.pods_path, grace_s=0)
        self._objects.remove(self._namespace_path)


def _shows(ledger: Path) -> PodPolicy:
    """Every pod of the project sees the ledger."""
    mount = ProfileMount(name="ledger", host_path=str(ledger), mount_path=str(SEEN_LEDGER))
    pods = ProjectPods(profiles=frozenset({"ledger"}), profile="ledger")
    return PodPolicy(
        projects={DEFAULT_PROJECT: pods}, profiles={"ledger": PodProfile(mounts=(mount,))}
    )
