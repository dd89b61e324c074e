"""The job a path names, if the caller may see it; and the caller as one who changes it."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Path
from starlette.requests import Request

from api.callers import Caller
from api.dependencies import Services
from api.errors import RequestError
from api.replies import audit_row
from scheduler.control.commands import Requester
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import JobName, ProjectName
from scheduler.domain.job import Job
from scheduler.domain.queue import Project

ProjectPath = Annotated[str, Path(max_length=63)]
NamePath = Annotated[str, Path(max_length=63)]


def find_project(services: Services, caller: Caller, name: str) -> Project:
    """The project, if the caller may see it. Raises NotFoundError."""
    caller.require(ProjectName(name))
    project = services.catalogue.project(ProjectName(name))
    if project is None:
        raise NotFoundError("project", name)
    return project


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


def require_match(job: Job, if_match: str | None) -> None:
    """Raises RequestError if the caller names another version of the job than the present one."""
    if if_match is not None and if_match.strip('"') not in ("*", str(job.revision)):
        detail = f"the job has version {job.revision}"
        raise RequestError("PreconditionFailed", detail)
