"""Builders: a test names only what it is about, the rest is filled in here; clusters are pictures.

a_cluster("r1: 8 8\nr2: 4 8")        two racks of two nodes with so many GPUs each
a_cluster("b1/r1: 8 8\nb2/r2: 8")    racks inside blocks
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from scheduler.domain import ids
from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.instants import SECOND, Duration, Instant
from scheduler.domain.job import (
    Attempt,
    AttemptPhase,
    CheckpointRequest,
    FailurePolicy,
    Job,
    JobPhase,
    JobSpec,
    Role,
    StopCause,
    TopologyRequest,
)
from scheduler.domain.knob_sheet import KnobSheet
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import Assignment, Placement
from scheduler.domain.queue import DEFAULT_PROJECT, DEFAULT_QUEUE, Queue
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.resources import NOTHING, Resources
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.domain.topology import Level, Node, topology_tree

LEVEL_NAMES = ("rack", "block", "zone")
"""Names of the levels of a picture, closest first; `cluster` lies above them all by itself."""

A_COMMAND = ("python", "train.py")


def at(seconds: float) -> Instant:
    """The instant `seconds` after the start of the test's time."""
    return Instant(round(seconds * SECOND))


def a_role(
    name: str = "worker", *, workers: int = 1, gpus: int = 8, resources: Resources = NOTHING
) -> Role:
    """A role of so many workers with `gpus` GPUs each."""
    return Role(
        name=ids.RoleName(name),
        workers=workers,
        gpus_per_worker=gpus,
        command=A_COMMAND,
        resources=resources,
    )


class SpecFields(TypedDict, total=False):
    """Fields of a JobSpec a test may name besides its roles and queue."""

    working_dir: str
    is_preemptible: bool
    gpu_models: tuple[ids.GpuModel, ...]
    mixes_gpu_models: bool
    pool: ids.PoolName | None
    topology: TopologyRequest
    communication: CommunicationProfile | None
    iterations: int | None
    checkpoint: CheckpointRequest
    run_time_max: Duration | None
    hang_timeout: Duration | None
    failure_policy: FailurePolicy
    success_policy: str
    labels: Mapping[str, str]


def a_spec(
    *,
    workers: int = 1,
    gpus: int = 8,
    resources: Resources = NOTHING,
    roles: Sequence[Role] = (),
    queue: str = DEFAULT_QUEUE,
    **fields: Unpack[SpecFields],
) -> JobSpec:
    """A spec; `roles` replaces the one role that `workers`, `gpus` and `resources` describe."""
    made = tuple(roles) or (a_role(workers=workers, gpus=gpus, resources=resources),)
    return JobSpec(queue=ids.QueueName(queue), roles=made, **fields)


def a_job(
    name: str = "job",
    *,
    workers: int = 1,
    gpus: int = 8,
    resources: Resources = NOTHING,
    roles: Sequence[Role] = (),
    queue: str = DEFAULT_QUEUE,
    project: str = DEFAULT_PROJECT,
    priority: int = 0,
    submitted_at: Instant = Instant(0),
    phase: JobPhase = JobPhase.PENDING,
    not_before: Instant | None = None,
    stop_requested: StopCause | None = None,
    attempts: int = 0,
    revision: int = 0,
    **fields: Unpack[SpecFields],
) -> Job:
    """A job of one worker with 8 GPUs, pending since the start; its id is made from its name."""
    return Job(
        id=ids.JobId(f"id-{name}"),
        project=ids.ProjectName(project),
        name=ids.JobName(name),
        spec=a_spec(
            workers=workers, gpus=gpus, resources=resources, roles=roles, queue=queue, **fields
        ),
        priority=priority,
        submitted_at=submitted_at,
        phase=phase,
        phase_since=submitted_at,
        not_before=not_before,
        stop_requested=stop_requested,
        attempts=attempts,
        revision=revision,
    )


def a_node(
    name: str = "n0",
    *,
    gpus: int = 8,
    gpu_model: str = "",
    resources: Resources = NOTHING,
    path: tuple[str, ...] = ("r1",),
    pool: str = "default",
    labels: Mapping[str, str] | None = None,
    is_ready: bool = True,
    is_cordoned: bool = False,
    numbers_gpus: bool = False,
) -> Node:
    """A healthy node with 8 GPUs in rack r1."""
    return Node(
        name=ids.NodeName(name),
        gpus=gpus,
        gpu_indices=tuple(range(gpus)) if numbers_gpus else None,
        gpu_model=ids.GpuModel(gpu_model),
        resources=resources,
        path=path,
        labels=labels or {},
        pool=ids.PoolName(pool),
        is_ready=is_ready,
        is_cordoned=is_cordoned,
    )


def an_exclusion(
    *, reason: str = "SuspectNode", since: int = 0, until: int = 1, is_for_programs: bool = False
) -> Exclusion:
    """Why a node is left alone, from one microsecond to another."""
    return Exclusion(
        reason=reason,
        since=Instant(since),
        until=Instant(until),
        is_for_programs=is_for_programs,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class APicture:
    """Levels (closest first) and nodes, as a picture shows them."""

    levels: tuple[Level, ...]
    nodes: tuple[Node, ...]

    def with_node(self, name: str, **changes: object) -> "APicture":
        """The same cluster with one node changed."""
        assert any(node.name == name for node in self.nodes), name

        def changed(node: Node) -> Node:
            return replace(node, **changes)  # type: ignore[arg-type]  # any field

        nodes = tuple(changed(node) if node.name == name else node for node in self.nodes)
        return replace(self, nodes=nodes)


def a_cluster(picture: str, *, gpu_model: str = "", resources: Resources = NOTHING) -> APicture:
    """One line a rack: `rack: gpus gpus ...`, `block/rack: ...`, `zone/block/rack: ...`.

    The nodes of rack r1 are r1-n0, r1-n1, ...
    """
    nodes: list[Node] = []
    depth = 0
    for line in picture.strip().splitlines():
        domains, counts = line.split(":")
        path = tuple(domains.strip().split("/"))
        depth = len(path)
        nodes.extend(
            a_node(
                f"{path[-1]}-n{number}",
                gpus=int(gpus),
                gpu_model=gpu_model,
                resources=resources,
                path=path,
            )
            for number, gpus in enumerate(counts.split())
        )
    levels = tuple(Level(name=ids.LevelName(name), label=name) for name in LEVEL_NAMES[:depth])
    return APicture(levels=levels, nodes=tuple(nodes))


def a_placement(
    cluster: APicture, job: Job | JobSpec, workers_by_node: Mapping[str, int]
) -> Placement:
    """The placement of a one-role gang, its tier read off the cluster."""
    spec = job.spec if isinstance(job, Job) else job
    tree = topology_tree(cluster.levels, cluster.nodes)
    tier = tree.tier_of(ids.NodeName(name) for name in workers_by_node)
    role = spec.roles[0].name
    return Placement(
        assignments=tuple(
            Assignment(role=role, node=ids.NodeName(name), workers=workers)
            for name, workers in workers_by_node.items()
        ),
        tier=tier,
        tier_name=tree.levels[tier].name,
    )


def an_attempt(
    job: Job,
    placement: Placement,
    *,
    number: int = 0,
    phase: AttemptPhase = AttemptPhase.RUNNING,
    created_at: Instant = Instant(0),
    epoch: int = 1,
    stop_cause: StopCause | None = None,
) -> Attempt:
    """An attempt of a job, running since it was made."""
    is_running = phase in {AttemptPhase.RUNNING, AttemptPhase.STOPPING}
    return Attempt(
        job_id=job.id,
        number=ids.AttemptNumber(number),
        phase=phase,
        phase_since=created_at,
        epoch=ids.Epoch(epoch),
        placement=placement,
        created_at=created_at,
        running_since=created_at if is_running else None,
        stop_cause=stop_cause,
    )


def reservations_of(job: Job, attempt: Attempt) -> tuple[Reservation, ...]:
    """What each rank of the attempt holds."""
    roles = {role.name: role for role in job.spec.roles}
    return tuple(
        Reservation(
            attempt=AttemptKey(job.id, attempt.number),
            role=role,
            rank=ids.Rank(rank),
            node=node,
            gpus=roles[role].gpus_per_worker,
            resources=roles[role].resources,
        )
        for rank, (role, node) in enumerate(attempt.placement.node_of_ranks())
    )


def a_running_gang(
    cluster: APicture,
    job: Job,
    workers_by_node: Mapping[str, int],
    *,
    since: Instant = Instant(0),
    phase: JobPhase = JobPhase.RUNNING,
) -> RunningGang:
    """A gang that holds GPUs on these nodes."""
    placement = a_placement(cluster, job, workers_by_node)
    held = replace(job, phase=phase, phase_since=since, attempts=1, first_started_at=since)
    attempt = an_attempt(held, placement, created_at=since)
    return RunningGang(job=held, attempt=attempt, reservations=reservations_of(held, attempt))


def a_queue(name: str, **changed: str | int | float | bool) -> Queue:
    """A queue with knobs of its own, set live: `a_queue("q", policy="fifo")`."""
    texts = {knob: json.dumps(value) for knob, value in changed.items()}
    return Queue(name=ids.QueueName(name), knobs=KnobSheet(changed=texts))


def a_snapshot(
    cluster: APicture | str = "r1: 8",
    *,
    pending: Sequence[Job] = (),
    running: Sequence[tuple[Job, Mapping[str, int]]] = (),
    now: Instant = Instant(0),
    queues: Sequence[Queue] = (),
    knobs: PolicyKnobs | None = None,
    version: int = 1,
) -> Snapshot:
    """A snapshot of a cluster with jobs that wait and gangs that hold GPUs."""
    pictured = a_cluster(cluster) if isinstance(cluster, str) else cluster
    return Snapshot(
        version=ids.Sequence(version),
        now=now,
        levels=pictured.levels,
        nodes=pictured.nodes,
        pending=tuple(pending),
        holding=tuple(a_running_gang(pictured, job, spots) for job, spots in running),
        queues={queue.name: queue for queue in queues or (Queue(name=DEFAULT_QUEUE),)},
        knobs=knobs or PolicyKnobs(policy="fifo"),
    )
