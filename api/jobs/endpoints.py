"""Routes of jobs: create, apply, list, get, delete, cancel, hold, release; what is known of one."""

from dataclasses import replace
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from api.bodies import JobFileBody, JsonBody
from api.dependencies import CallerOf, ServicesOf
from api.description import body_of
from api.errors import RequestError
from api.job_files.schemas import JobFile
from api.jobs import applying, submitting
from api.jobs.explaining import why
from api.jobs.finding import NamePath, ProjectPath, find_job, find_project, requester, require_match
from api.jobs.listing import ListParameters, list_jobs, read_filters
from api.jobs.mapping import masked, reports_by_attempt, to_attempt
from api.jobs.placing import placement_view
from api.jobs.schemas import (
    AttemptList,
    CancelRequest,
    HoldRequest,
    JobList,
    JobObject,
    PlacementView,
    WhyView,
)
from api.jobs.watching import watch_jobs
from api.parameters import DryRun
from api.replies import job_response, model_response
from api.streams.responses import watch_responses
from scheduler.control import commands
from scheduler.domain.ids import ProjectName

router = APIRouter(prefix="/api/v1", tags=["jobs"])


@router.post(
    "/projects/{project}/jobs",
    operation_id="createJob",
    status_code=HTTPStatus.CREATED,
    response_model=JobObject,
    openapi_extra=body_of(JobFile, is_yaml_too=True),
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


@router.put(
    "/projects/{project}/jobs/{name}",
    operation_id="applyJob",
    response_model=JobObject,
    responses={201: {"model": JobObject, "description": "Created"}},
    openapi_extra=body_of(JobFile, is_yaml_too=True),
)
def apply_job(
    *,
    project: ProjectPath,
    name: NamePath,
    body: JobFileBody,
    services: ServicesOf,
    caller: CallerOf,
    dry_run: DryRun = None,
) -> Response:
    """Create the job (201), or find it equal (200). Another spec is refused: jobs do not change."""
    caller.require(ProjectName(project))
    submission = submitting.Submission(
        services=services,
        caller=caller,
        project=ProjectName(project),
        body=body,
        key=None,
        is_dry_run=dry_run is not None,
    )
    return applying.apply(submission, name)


@router.get(
    "/projects/{project}/jobs",
    operation_id="listJobs",
    response_model=JobList,
    responses=watch_responses("WatchEvent"),
)
def list_project_jobs(
    *,
    project: ProjectPath,
    request: Request,
    services: ServicesOf,
    caller: CallerOf,
    parameters: Annotated[ListParameters, Depends()],
) -> Response:
    """Jobs of a project by submission; with `watch=true` every change of them."""
    find_project(services, caller, project)
    filters = read_filters(services, parameters, caller, ProjectName(project))
    if parameters.watch:
        return watch_jobs(services, request, caller, filters, parameters.resource_version)
    return model_response(list_jobs(services, parameters, filters))


@router.get(
    "/jobs",
    operation_id="listAllJobs",
    response_model=JobList,
    responses=watch_responses("WatchEvent"),
)
def list_all_jobs(
    request: Request,
    services: ServicesOf,
    caller: CallerOf,
    parameters: Annotated[ListParameters, Depends()],
) -> Response:
    """Jobs of every project the caller may see, by submission; with `watch=true` every change."""
    filters = read_filters(services, parameters, caller, None)
    if parameters.watch:
        return watch_jobs(services, request, caller, filters, parameters.resource_version)
    return model_response(list_jobs(services, parameters, filters))


@router.get("/projects/{project}/jobs/{name}", operation_id="getJob", response_model=JobObject)
def get_job(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf
) -> Response:
    """One job."""
    return job_response(find_job(services, caller, project, name), HTTPStatus.OK)


@router.post(
    "/projects/{project}/jobs/{name}/cancel",
    operation_id="cancelJob",
    response_model=JobObject,
    openapi_extra=body_of(CancelRequest, is_required=False),
)
def cancel_job(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf, body: JsonBody
) -> Response:
    """End a job, after its grace unless `now`. Asked twice, done once."""
    job = find_job(services, caller, project, name)
    asked = body.read(CancelRequest)
    by = requester(services, body.request, caller, job=job, verb="cancel", reason=asked.reason)
    job = commands.cancel(services.store, job.id, by=by, now=asked.now)
    services.given.on_write()
    return job_response(job, HTTPStatus.OK)


@router.post(
    "/projects/{project}/jobs/{name}/hold",
    operation_id="holdJob",
    response_model=JobObject,
    openapi_extra=body_of(HoldRequest, is_required=False),
)
def hold_job(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf, body: JsonBody
) -> Response:
    """Keep a pending job from being considered."""
    job = find_job(services, caller, project, name)
    asked = body.read(HoldRequest)
    by = requester(services, body.request, caller, job=job, verb="hold", reason=asked.reason)
    job = commands.hold(services.store, job.id, by=by)
    services.given.on_write()
    return job_response(job, HTTPStatus.OK)


@router.post(
    "/projects/{project}/jobs/{name}/release",
    operation_id="releaseJob",
    response_model=JobObject,
    openapi_extra=body_of(HoldRequest, is_required=False),
)
def release_job(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf, body: JsonBody
) -> Response:
    """Let a held job be considered again."""
    job = find_job(services, caller, project, name)
    asked = body.read(HoldRequest)
    by = requester(services, body.request, caller, job=job, verb="release", reason=asked.reason)
    job = commands.release(services.store, job.id, by=by)
    services.given.on_write()
    return job_response(job, HTTPStatus.OK)


@router.delete(
    "/projects/{project}/jobs/{name}",
    operation_id="deleteJob",
    response_model=JobObject,
    responses={202: {"model": JobObject, "description": "Being cancelled; delete it again later"}},
)
def delete_job(
    *,
    project: ProjectPath,
    name: NamePath,
    request: Request,
    services: ServicesOf,
    caller: CallerOf,
    cancel: Annotated[bool, Query()] = False,
    now: Annotated[bool, Query()] = False,
    if_match: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Remove a job that has ended, with its history.

    A live one is refused, unless `cancel=true`: one that holds nothing is cancelled and removed,
    one that runs is cancelled (without grace if `now=true`) and the answer is 202.
    """
    job = find_job(services, caller, project, name)
    require_match(job, if_match)
    by = requester(services, request, caller, job=job, verb="delete")
    if job.phase.is_terminal:
        commands.delete(services.store, job, by=by)
        return job_response(job, HTTPStatus.OK)
    if not cancel:
        detail = f"the job is {job.phase}; cancel it first, or pass ?cancel=true"
        raise RequestError("JobIsLive", detail)
    ended = commands.cancel(services.store, job.id, by=by, now=now)
    services.given.on_write()
    if not ended.phase.is_terminal:
        return job_response(ended, HTTPStatus.ACCEPTED)
    # Cancelled in a unit of its own: dying in between leaves a cancelled job, as cancel would.
    commands.delete(services.store, ended, by=replace(by, records=()))
    return job_response(ended, HTTPStatus.OK)


@router.get(
    "/projects/{project}/jobs/{name}/file",
    operation_id="getJobFile",
    response_model=JobFile,
)
def get_job_file(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf
) -> Response:
    """The job file as it was submitted, as JSON; values that look secret are masked."""
    job = find_job(services, caller, project, name)
    file = JobFile.model_validate_json(services.store.job_source(job.id))
    shown = file.model_copy(update={"spec": masked(file.spec)})
    body = shown.model_dump_json(by_alias=True, exclude_unset=True)
    return Response(body, media_type="application/json")


@router.get(
    "/projects/{project}/jobs/{name}/attempts",
    operation_id="listAttempts",
    response_model=AttemptList,
)
def list_attempts(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf
) -> Response:
    """Every start of a job, oldest first, with its workers and its last report."""
    job = find_job(services, caller, project, name)
    reports = reports_by_attempt(services.store.progress(job.id))
    attempts = services.store.attempts(job.id)
    items = [to_attempt(attempt, reports.get(attempt.number, [])) for attempt in attempts]
    return model_response(AttemptList(items=items))


@router.get("/projects/{project}/jobs/{name}/why", operation_id="whyJob", response_model=WhyView)
def why_job(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf
) -> Response:
    """Why the job is where it is, with the numbers and what would help."""
    return model_response(why(services, find_job(services, caller, project, name)))


@router.get(
    "/projects/{project}/jobs/{name}/placement",
    operation_id="getJobPlacement",
    response_model=PlacementView,
)
def get_job_placement(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf
) -> Response:
    """Where the latest attempt was placed: the nodes, and a picture of them by rack."""
    return model_response(placement_view(services, find_job(services, caller, project, name)))
