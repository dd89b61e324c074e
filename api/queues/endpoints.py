"""The route of queues."""

from collections import Counter

from fastapi import APIRouter

from api.dependencies import CallerOf, ServicesOf
from api.queues.schemas import QueueList, QueueView
from scheduler.domain.ids import QueueName
from scheduler.domain.job import Job, JobPhase
from scheduler.domain.queue import Project, Queue
from scheduler.knob_settings import written_texts

router = APIRouter(prefix="/api/v1", tags=["queues"])

_GROUPS = {JobPhase.PENDING: "pending", JobPhase.HELD: "held"}
"""Every other phase of a live job holds GPUs: active."""


@router.get("/queues", operation_id="listQueues")
def list_queues(services: ServicesOf, caller: CallerOf) -> QueueList:
    """All queues with what waits and runs in them; they belong to the cluster."""
    jobs, gpus = _counts(services.store.live().jobs)
    projects = [p for p in services.store.projects() if caller.may_see(p.name)]
    return QueueList(
        items=[_to_view(queue, jobs, gpus, projects) for queue in services.store.queues()]
    )


Counts = Counter[tuple[QueueName, str]]


def _counts(live: tuple[Job, ...]) -> tuple[Counts, Counts]:
    jobs: Counts = Counter()
    gpus: Counts = Counter()
    for job in live:
        key = (job.spec.queue, _GROUPS.get(job.phase, "active"))
        jobs[key] += 1
        gpus[key] += job.spec.gpus
    return jobs, gpus


def _to_view(queue: Queue, jobs: Counts, gpus: Counts, projects: list[Project]) -> QueueView:
    return QueueView(
        name=queue.name,
        policy=queue.policy,
        knob_overrides=written_texts({**queue.knobs.seeded, **queue.knobs.changed}),
        projects=[project.name for project in projects if queue.name in project.queues],
        jobs_pending=jobs[queue.name, "pending"],
        jobs_held=jobs[queue.name, "held"],
        jobs_active=jobs[queue.name, "active"],
        gpus_pending=gpus[queue.name, "pending"],
        gpus_active=gpus[queue.name, "active"],
    )
