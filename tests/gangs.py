"""Builders for what the Cluster port takes: orders of gangs."""

from collections.abc import Mapping

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
from scheduler.domain.job import CheckpointRequest, JobSpec, Launcher, Role
from scheduler.domain.placement import Assignment, Placement
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.ports.cluster import ClusterView, GangOrder, WorkerReport


def a_key(job: str = "job-1", number: int = 0) -> AttemptKey:
    return AttemptKey(JobId(job), AttemptNumber(number))


def an_order(
    *,
    job: str = "job-1",
    number: int = 0,
    nodes: Mapping[str, int] | None = None,
    gpus_per_worker: int = 1,
    command: tuple[str, ...] = ("true",),
    env: Mapping[str, str] | None = None,
    launcher: Launcher = Launcher.PLAIN,
    working_dir: str = "",
    checkpoint_path: str = "",
    roles: tuple[Role, ...] = (),
    deadline: Instant | None = None,
    are_gpus_chosen: bool = True,
) -> GangOrder:
    """A gang of one role with so many workers on each node; or of `roles`, all on the first node.

    GPU indices count up on each node, unless the cluster is to choose.
    """
    workers_by_node = nodes or {"n0": 1}
    if not roles:
        roles = (
            Role(
                name=RoleName("worker"),
                workers=sum(workers_by_node.values()),
                gpus_per_worker=gpus_per_worker,
                command=command,
                env=env or {},
            ),
        )
        assignments = [(roles[0], node, workers) for node, workers in workers_by_node.items()]
    else:
        assignments = [(role, next(iter(workers_by_node)), role.workers) for role in roles]
    return GangOrder(
        attempt=a_key(job, number),
        epoch=Epoch(1),
        project=ProjectName("default"),
        name=JobName(job),
        spec=JobSpec(
            queue=QueueName("default"),
            roles=roles,
            launcher=launcher,
            working_dir=working_dir,
            checkpoint=CheckpointRequest(path=checkpoint_path),
        ),
        placement=Placement(
            assignments=tuple(
                Assignment(role=role.name, node=NodeName(node), workers=workers)
                for role, node, workers in assignments
            ),
            tier=0,
            tier_name=LevelName("node"),
        ),
        reservations=_reservations(
            a_key(job, number), assignments, are_gpus_chosen=are_gpus_chosen
        ),
        deadline=deadline,
    )


def report_of(view: ClusterView, key: AttemptKey, rank: int) -> WorkerReport | None:
    """The report of one worker, or None."""
    for report in view.workers:
        if report.attempt == key and report.rank == rank:
            return report
    return None


def _reservations(
    key: AttemptKey, assignments: list[tuple[Role, str, int]], *, are_gpus_chosen: bool
) -> tuple[Reservation, ...]:
    next_gpu: dict[str, int] = {}
    reservations: list[Reservation] = []
    for role, node, workers in assignments:
        for _ in range(workers):
            first = next_gpu.get(node, 0)
            next_gpu[node] = first + role.gpus_per_worker
            indices = tuple(range(first, next_gpu[node]))
            reservations.append(
                Reservation(
                    attempt=key,
                    role=role.name,
                    rank=Rank(len(reservations)),
                    node=NodeName(node),
                    gpus=role.gpus_per_worker,
                    resources=role.resources,
                    gpu_indices=indices if are_gpus_chosen else None,
                )
            )
    return tuple(reservations)
