"""Job, attempt, progress -> what the server says of them."""

import re
from collections.abc import Iterable, Mapping, Sequence

from api.job_files.rules import MASK
from api.job_files.schemas import JobRequest
from api.job_files.spec_mapping import to_request
from api.jobs.schemas import (
    AssignmentView,
    AttemptView,
    JobObject,
    JobStatus,
    ProgressView,
    WorkerView,
)
from api.lists import ObjectMetadata
from api.times import render_instant, render_optional
from scheduler.domain.ids import AttemptNumber
from scheduler.domain.job import Attempt, Job, WorkerEnd
from scheduler.domain.placement import Placement
from scheduler.domain.progress import Progress
from scheduler.domain.reservation import AttemptKey

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|_PAT$",
    re.IGNORECASE,
)


def looks_secret(name: str) -> bool:
    """Whether a variable of that name probably holds a secret."""
    return _SECRET_NAME.search(name) is not None


def to_object(job: Job) -> JobObject:
    """A job as everyone who may see it sees it: values that look secret are masked."""
    return JobObject(
        metadata=_metadata(job), spec=masked(to_request(job.spec)), status=_status(job)
    )


def masked(request: JobRequest) -> JobRequest:
    """`request` with a mask in place of each value whose name looks like a secret's."""
    envs = [request.env, *(role.env for role in request.roles)]
    if not any(looks_secret(name) for env in envs for name in env):
        return request
    roles = tuple(role.model_copy(update={"env": _masked(role.env)}) for role in request.roles)
    return request.model_copy(update={"env": _masked(request.env), "roles": roles})


def _masked(env: Mapping[str, str]) -> dict[str, str]:
    return {name: MASK if looks_secret(name) else value for name, value in env.items()}


def _metadata(job: Job) -> ObjectMetadata:
    return ObjectMetadata(
        name=job.name,
        uid=job.id,
        project=job.project,
        labels=dict(job.spec.labels),
        resource_version=str(job.revision),
        create_time=render_instant(job.submitted_at),
        created_by=job.submitted_by,
    )


def _status(job: Job) -> JobStatus:
    return JobStatus(
        phase=job.phase.value,
        phase_since=render_instant(job.phase_since),
        reason=job.reason,
        message=job.message,
        priority=job.priority,
        workers=job.spec.workers,
        gpus=job.spec.gpus,
        attempts=job.attempts,
        restarts_after_failure=job.restarts_user,
        restarts_after_loss=job.restarts_infra,
        stop_requested=job.stop_requested.value if job.stop_requested else None,
        not_before=render_optional(job.not_before),
        start_time=render_optional(job.first_started_at),
        end_time=render_optional(job.ended_at),
    )


def to_assignments(placement: Placement) -> list[AssignmentView]:
    """Workers per role and node, in rank order."""
    return [
        AssignmentView(role=a.role, node=a.node, workers=a.workers) for a in placement.assignments
    ]


def to_attempt(attempt: Attempt, reports: Sequence[Progress]) -> AttemptView:
    """One attempt with its workers and its last report."""
    return AttemptView(
        number=attempt.number,
        phase=attempt.phase.value,
        phase_since=render_instant(attempt.phase_since),
        tier=attempt.placement.tier_name,
        placement=to_assignments(attempt.placement),
        workers=list(_workers(attempt)),
        create_time=render_instant(attempt.created_at),
        running_since=render_optional(attempt.running_since),
        end_time=render_optional(attempt.ended_at),
        stop_cause=attempt.stop_cause.value if attempt.stop_cause else None,
        kill_time=render_optional(attempt.kill_at),
        outcome=attempt.outcome.value if attempt.outcome else None,
        message=attempt.message,
        progress=_progress(reports),
    )


def reports_by_attempt(
    reports: Iterable[tuple[AttemptKey, Progress]],
) -> dict[AttemptNumber, list[Progress]]:
    """Reports of a job's attempts, each oldest first."""
    by_attempt: dict[AttemptNumber, list[Progress]] = {}
    for key, progress in reports:
        by_attempt.setdefault(key.number, []).append(progress)
    return by_attempt


def _workers(attempt: Attempt) -> Iterable[WorkerView]:
    ends: dict[int, WorkerEnd] = {end.rank: end for end in attempt.worker_ends}
    for rank, (role, node) in enumerate(attempt.placement.node_of_ranks()):
        end = ends.get(rank)
        if end is None:
            yield WorkerView(rank=rank, role=role, node=node)
        else:
            yield WorkerView(
                rank=rank,
                role=role,
                node=node,
                exit_code=end.exit_code,
                outcome=end.outcome.value,
                message=end.message,
                end_time=render_instant(end.ended_at),
            )


def _progress(reports: Sequence[Progress]) -> ProgressView | None:
    if not reports:
        return None
    last = reports[-1]
    return ProgressView(
        step=last.step,
        steps_total=last.steps_total,
        step_seconds=last.step_seconds,
        loss=last.loss,
        accuracy=last.accuracy,
        report_time=render_instant(last.reported_at),
        reports=len(reports),
    )
