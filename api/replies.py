"""Answers that several routes give, and the audit row that each change leaves."""

from http import HTTPStatus

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from api.callers import Caller
from api.errors import request_id
from api.jobs.mapping import to_object
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.ports.unit import AuditRow, RecordAudit


def model_response(
    model: BaseModel, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    """`model` as JSON, without what is not set."""
    body = model.model_dump_json(by_alias=True, exclude_none=True)
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def job_response(job: Job, status: int, *, warnings: tuple[str, ...] = ()) -> Response:
    """A job, with its version as ETag; and where it is, when it is new."""
    headers = {"ETag": f'"{job.revision}"'}
    if status == HTTPStatus.CREATED:
        headers["Location"] = f"/api/v1/projects/{job.project}/jobs/{job.name}"
    response = model_response(to_object(job), status, headers)
    for warning in warnings:
        response.headers.append("Warning", f'299 dallyd "{warning}"')
    return response


def audit_row(
    request: Request, caller: Caller, *, verb: str, target: str, at: Instant, outcome: int
) -> RecordAudit:
    """Who did what; written in the unit of the change itself."""
    return RecordAudit(
        row=AuditRow(
            at=at,
            principal=caller.name,
            verb=verb,
            target=target,
            outcome=outcome,
            request_id=request_id(request),
            token_id=caller.token_id,
            source=request.client.host if request.client else "",
        )
    )
