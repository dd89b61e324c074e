"""Routes of jobs: create, apply, list, get, delete, cancel, hold, release."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from api.bodies import JobFileBody, JsonBody
from api.callers import Caller
from api.dependencies import CallerOf, Services, ServicesOf
from api.jobs import submitting
from api.jobs.listing import ListParameters, list_jobs, read_filters
from api.jobs.schemas import CancelRequest, HoldRequest, JobList, JobObject
from api.replies import audit_row, job_response, model_response
from scheduler.control import commands
from scheduler.control.commands import Requester
from scheduler.domain.ids import JobName, ProjectName
from scheduler.domain.job import Job

router = APIRouter(prefix="/api/v1", tags=["jobs"])

ProjectPath = Annotated[str, Path(max_length=63)]
NamePath = Annotated[str, Path(max_length=63)]
DryRun = Annotated[Literal["All"] | None, Query(alias="dryRun")]


@router.post(
    "/projects/{project}/jobs",
    operation_id="createJob",
    status_code=HTTPStatus.CREATED,
    response_model=JobObject,
)
def create_job(
    *,
    project: ProjectPath,
    body: JobFileBody,
    services: ServicesOf,
    caller: CallerOf,
    dry_run: DryRun = None,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Response:
    """Submit a job. With `Idempotency-Key`, repeating the request repeats the answer."""
    caller.require(ProjectName(project))
    return submitting.create(
        submitting.Submission(
            services=services,
            caller=caller,
            project=ProjectName(project),
            body=body,
            key=idempotency_key,
            is_dry_run=dry_run is not None,
        )
    )


@router.get("/projects/{project}/jobs", operation_id="listJobs", response_model=JobList)
def list_project_jobs(
    project: ProjectPath,
    services: ServicesOf,
    caller: CallerOf,
    parameters: Annotated[ListParameters, Depends()],
) -> Response:
    """Jobs of a project, oldest submission first."""
    filters = read_filters(parameters, caller, ProjectName(project))
    return model_response(list_jobs(services, parameters, filters))


@router.get("/jobs", operation_id="listAllJobs", response_model=JobList)
def list_all_jobs(
    services: ServicesOf, caller: CallerOf, parameters: Annotated[ListParameters, Depends()]
) -> Response:
    """Jobs of every project the caller may see."""
    filters = read_filters(parameters, caller, None)
    return model_response(list_jobs(services, parameters, filters))


@router.get("/projects/{project}/jobs/{name}", operation_id="getJob", response_model=JobObject)
def get_job(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf
) -> Response:
    """One job."""
    return job_response(find_job(services, caller, project, name), HTTPStatus.OK)


@router.post(
    "/projects/{project}/jobs/{name}/cancel", operation_id="cancelJob", response_model=JobObject
)
def cancel_job(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf, body: JsonBody
) -> Response:
    """End a job, after its grace unless `now`. Asked twice, done once."""
    asked = body.read(CancelRequest)
    job = find_job(services, caller, project, name)
    by = requester(services, body.request, caller, job=job, verb="cancel", reason=asked.reason)
    job = commands.cancel(services.store, job.id, by=by, now=asked.now)
    services.given.on_write()
    return job_response(job, HTTPStatus.OK)


@router.post(
    "/projects/{project}/jobs/{name}/hold", operation_id="holdJob", response_model=JobObject
)
def hold_job(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf, body: JsonBody
) -> Response:
    """Keep a pending job from being considered."""
    asked = body.read(HoldRequest)
    job = find_job(services, caller, project, name)
    by = requester(services, body.request, caller, job=job, verb="hold", reason=asked.reason)
    job = commands.hold(services.store, job.id, by=by)
    services.given.on_write()
    return job_response(job, HTTPStatus.OK)


@router.post(
    "/projects/{project}/jobs/{name}/release", operation_id="releaseJob", response_model=JobObject
)
def release_job(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf, body: JsonBody
) -> Response:
    """Let a held job be considered again."""
    asked = body.read(HoldRequest)
    job = find_job(services, caller, project, name)
    by = requester(services, body.request, caller, job=job, verb="release", reason=asked.reason)
    job = commands.release(services.store, job.id, by=by)
    services.given.on_write()
    return job_response(job, HTTPStatus.OK)


def find_job(services: Services, caller: Caller, project: str, name: str) -> Job:
    """The job, if the caller may see its project. Raises NotFoundError."""
    caller.require(ProjectName(project))
    return services.store.job(ProjectName(project), JobName(name))


def requester(
    services: Services, request: Request, caller: Caller, *, job: Job, verb: str, reason: str = ""
) -> Requester:
    """The caller as one who orders a change of `job`, with the audit row of it."""
    at = services.clock.now()
    target = f"{job.project}/jobs/{job.name}"
    row = audit_row(request, caller, verb=verb, target=target, at=at, outcome=HTTPStatus.OK)
    return Requester(actor=caller.name, at=at, reason=reason, records=(row,))
