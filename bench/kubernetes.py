"""The Kubernetes adapter on a real API server: a gang of 512 pods within the budget, and a resync.

Starts a control plane (tests/cluster) on this machine and writes its nodes and pods; the adapter
that takes everything in runs in a process of its own, whose memory is told. References: the budget
of requests (the setting), and for the resync the bars of the design, 30 s and 1 GiB.
"""

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.queues import Queue
from pathlib import Path

from bench.reporting import Options, Report, run_bench
from scheduler.adapters.kubernetes import manifests
from scheduler.adapters.kubernetes.access import Access
from scheduler.adapters.kubernetes.cluster import KubernetesCluster, KubernetesSettings
from scheduler.adapters.kubernetes.manifests import PodRenderer, RenderSettings
from scheduler.adapters.kubernetes.objects import Uid
from scheduler.adapters.memory.log_archive import MemoryLogArchive
from scheduler.adapters.system_clock import SystemClock
from scheduler.domain.ids import (
    AttemptNumber,
    Epoch,
    JobId,
    JobName,
    LevelName,
    NodeName,
    ProjectName,
    QueueName,
    Rank,
    RoleName,
)
from scheduler.domain.instants import Instant
from scheduler.domain.job import JobSpec, Role
from scheduler.domain.placement import Assignment, Placement
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.ports.cluster import GangOrder, WorkerState
from tests.cluster.api_objects import ApiObjects
from tests.cluster.cluster_fixtures import new_namespace
from tests.cluster.control_plane import ControlPlane
from tests.cluster.nodes import NODES, a_node

NAMESPACE = "bench"
INSTANCE = "bench"
REQUESTS_PER_S = 100.0
RESYNC_S_MAX = 30.0
RESYNC_MIB_MAX = 1024.0
PODS_OF_GANG = 100
GPUS_OF_NODE = 8
WRITERS = 8
PATIENCE_S = 900.0
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything."""

    launched: int
    """Pods of the gang that is launched."""
    nodes: int
    pods: int
    """Pods that a resync finds."""


WHOLE = Size(launched=512, nodes=1000, pods=5000)
QUICK = Size(launched=64, nodes=100, pods=500)


def measure(options: Options, report: Report) -> None:
    """Launch first, on what is then nearly empty; then the resync."""
    size = QUICK if options.quick else WHOLE
    with (
        tempfile.TemporaryDirectory(prefix="dally-bench-") as folder,
        ControlPlane(Path(folder) / "control-plane") as plane,
    ):
        new_namespace(plane.objects, NAMESPACE)
        _many(lambda n: plane.objects.create(NODES, a_node(_node(n))), range(size.nodes))
        _launch(report, plane, size)
        _fill(plane.objects, size)
        _resync(report, plane, size)


def _launch(report: Report, plane: ControlPlane, size: Size) -> None:
    case = {"pods": size.launched}
    order = _order("launched", size.launched, nodes=size.nodes)
    with _adapter(plane.kubeconfig) as cluster:
        _wait(lambda: cluster.is_well, "everything is listed")
        time.sleep(1.0)  # The bucket is full again: its burst is part of the budget.
        before, began = cluster.requests, time.monotonic()
        cluster.prepare(order)
        _wait(lambda: _states(cluster) == {WorkerState.MADE: size.launched}, "all are made")
        made_s = time.monotonic() - began
        cluster.release(order.attempt)
        gated = {"labelSelector": f"dally.internal/job-uid={order.attempt.job_id}"}
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

        def are_open() -> bool:
            found = plane.objects.items(pods, **gated)
            return not any("schedulingGates" in pod["spec"] for pod in found)

        _wait(are_open, "all gates are open")
        took_s, asked = time.monotonic() - began, cluster.requests - before
        # One request makes a pod, one opens its gate; anchor, Service and a few looks come on top.
        report.add("launch_requests", asked, "", reference=2 * size.launched + 2, case=case)
        report.add("launch_made", made_s, "s", case=case)
        report.add("launch", took_s, "s", reference=asked / REQUESTS_PER_S, case=case)
        report.add("launch_rate", asked / took_s, "1/s", reference=REQUESTS_PER_S, case=case)
        cluster.stop(order.attempt, kill_at=Instant(0))
    plane.objects.delete(pods, grace_s=0)


def _resync(report: Report, plane: ControlPlane, size: Size) -> None:
    case = {"pods": size.pods, "nodes": size.nodes}
    context = multiprocessing.get_context("spawn")
    answers: Queue[tuple[float, float]] = context.Queue()
    child = context.Process(target=_take_in, args=(str(plane.kubeconfig), size, answers))
    child.start()
    took_s, mib = answers.get(timeout=PATIENCE_S)
    child.join()
    report.add("resync", took_s, "s", reference=RESYNC_S_MAX, case=case)
    report.add("resync_memory", mib, "MiB", reference=RESYNC_MIB_MAX, case=case)


def _take_in(kubeconfig: str, size: Size, answers: "Queue[tuple[float, float]]") -> None:
    """In a process of its own: be a new adapter until it knows everything."""
    began = time.monotonic()
    with _adapter(Path(kubeconfig)) as cluster:
        _wait(lambda: cluster.is_well, "everything is listed")
        view = cluster.observe()
        took_s = time.monotonic() - began
        assert (len(view.nodes), len(view.workers)) == (size.nodes, size.pods)
        kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers.put((took_s, kib / 1024))


def _fill(objects: ApiObjects, size: Size) -> None:
    """Pods of gangs that run, written as they would stand there."""
    maps, pods = (
        f"/api/v1/namespaces/{NAMESPACE}/configmaps",
        f"/api/v1/namespaces/{NAMESPACE}/pods",
    )
    for number in range(size.pods // PODS_OF_GANG):
        order = _order(f"filled-{number}", PODS_OF_GANG, nodes=size.nodes, first=number)
        anchor = objects.create(maps, dict(manifests.anchor(order, _render())))
        renderer = PodRenderer(order, _render())
        owner = Uid(anchor["metadata"]["uid"])

        def write(rank: int, order: GangOrder = order, renderer: PodRenderer = renderer) -> None:
            pod = dict(renderer.pod(Rank(rank), owner))  # noqa: B023 - used in this round only
            spec = pod["spec"]
            assert isinstance(spec, dict)
            del spec["schedulingGates"]
            spec["nodeName"] = order.reservations[rank].node
            objects.create(pods, pod)

        _many(write, range(PODS_OF_GANG))


def _adapter(kubeconfig: Path) -> KubernetesCluster:
    return KubernetesCluster(
        KubernetesSettings(
            access=Access(kubeconfig=kubeconfig),
            namespaces=(NAMESPACE,),
            render=_render(),
            requests_per_second=REQUESTS_PER_S,
        ),
        SystemClock(),
        MemoryLogArchive(),
    )


def _render() -> RenderSettings:
    return RenderSettings(instance=INSTANCE, namespace_of=lambda _project: NAMESPACE)


def _order(job: str, workers: int, *, nodes: int, first: int = 0) -> GangOrder:
    """A gang of workers with one GPU, so many on a node."""
    role = RoleName("worker")
    key = AttemptKey(JobId(job), AttemptNumber(0))
    places = [
        NodeName(_node((first * PODS_OF_GANG + rank) // GPUS_OF_NODE % nodes))
        for rank in range(workers)
    ]
    counts = {node: places.count(node) for node in dict.fromkeys(places)}
    assignments = tuple(
        Assignment(role=role, node=node, workers=count) for node, count in counts.items()
    )
    spec = JobSpec(
        queue=QueueName("default"),
        roles=(Role(name=role, workers=workers, gpus_per_worker=1, command=("sleep", "600")),),
        image="localhost/bench:1",
    )
    held = Reservation(attempt=key, role=role, rank=Rank(0), node=places[0], gpus=1)
    return GangOrder(
        attempt=key,
        epoch=Epoch(0),
        project=ProjectName("default"),
        name=JobName(job),
        spec=spec,
        placement=Placement(assignments=assignments, tier=1, tier_name=LevelName("rack")),
        reservations=tuple(
            replace(held, rank=Rank(rank), node=node) for rank, node in enumerate(places)
        ),
    )


def _states(cluster: KubernetesCluster) -> dict[WorkerState, int]:
    counts: dict[WorkerState, int] = {}
    for report in cluster.observe().workers:
        counts[report.state] = counts.get(report.state, 0) + 1
    return counts


def _node(number: int) -> str:
    return f"n{number:04}"


def _many(write: Callable[[int], object], numbers: range) -> None:
    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(write, numbers))


def _wait(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    run_bench("The Kubernetes adapter: launching within the budget, taking everything in.", measure)
