"""Answers that several routes give, and the audit row that each change leaves."""

from http import HTTPStatus

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from api.callers import Caller
from api.errors import request_id
from api.jobs.mapping import to_object
from api.lists import ObjectMetadata
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.ports.unit import AuditRow, RecordAudit


def to_json(model: BaseModel) -> str:
    """`model` without what is not set."""
    return model.model_dump_json(by_alias=True, exclude_none=True)


def model_response(model: BaseModel, status: int = HTTPStatus.OK) -> Response:
    """`model` as JSON."""
    return Response(to_json(model), status_code=status, media_type="application/json")


def job_response(job: Job, status: int, *, warnings: tuple[str, ...] = ()) -> Response:
    """A job, with its version as ETag."""
    response = model_response(to_object(job), status)
    response.headers["ETag"] = f'"{job.revision}"'
    return _warned(response, warnings)


def created_response(
    text: str, made: ObjectMetadata, *, warnings: tuple[str, ...] = ()
) -> Response:
    """A new job, whose JSON is `text`, with its version and where it is."""
    response = Response(text, status_code=HTTPStatus.CREATED, media_type="application/json")
    response.headers["ETag"] = f'"{made.resource_version}"'
    response.headers["Location"] = f"/api/v1/projects/{made.project}/jobs/{made.name}"
    return _warned(response, warnings)


def _warned(response: Response, warnings: tuple[str, ...]) -> Response:
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
