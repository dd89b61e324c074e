"""Domain error -> HTTP status and problem body; nowhere else."""

import math
from collections.abc import Mapping
from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.documents.document import Document, MalformedError, Place, child
from api.problems import Problem, ProblemEntry
from api.reasons import REASONS, TYPE_PREFIX
from scheduler.domain import errors
from scheduler.domain.errors import SchedulerError, SpecProblem
from scheduler.domain.explain import explain_refused_move

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
"""What a client is told to wait when the fault is on our side."""

INSTANCE_LENGTH_MAX = 1024

_ENTRIES_IN_DETAIL = 3

REASON_BY_ERROR: Mapping[type[SchedulerError], str] = {
    errors.InvalidSpecError: "InvalidSpec",
    errors.NotFoundError: "NotFound",
    errors.NameTakenError: "AlreadyExists",
    errors.ConflictError: "Conflict",
    errors.InvalidTransitionError: "InvalidTransition",
    errors.NotSupportedYetError: "NotSupportedYet",
    errors.HistoryGoneError: "Gone",
    errors.StaleEpochError: "StaleEpoch",
    errors.LeaseLapsedError: "StaleEpoch",
    errors.StoreRestoredError: "StoreUnavailable",
    errors.StoreReplacedError: "StoreUnavailable",
    errors.IdempotencyMismatchError: "IdempotencyKeyReused",
    errors.AlreadyServingError: "AlreadyServing",
    errors.StoreUnavailableError: "StoreUnavailable",
    errors.WrongSchemaError: "WrongSchema",
    errors.UnreadableRowError: "UnreadableRow",
    errors.ClusterUnavailableError: "ClusterUnavailable",
    errors.ForecastBusyError: "ForecastBusy",
    errors.ForecastStoppedError: "ForecastStopped",
    errors.ForecastTooLargeError: "ForecastTooLarge",
    errors.BrokenPlanError: "BrokenPlan",
}

_REASON_BY_STATUS: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "MalformedBody",
    HTTPStatus.NOT_FOUND: "NoSuchRoute",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "BodyTooLarge",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "UnsupportedMediaType",
}


class RequestError(Exception):
    """A request that is refused before it reaches the domain."""

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        entries: tuple[ProblemEntry, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.entries = entries
        self.headers = dict(headers or {})


def too_many_requests(wait_s: float) -> RequestError:
    """A principal that has used up its share for now."""
    headers = {"Retry-After": str(math.ceil(wait_s))}
    return RequestError("TooManyRequests", f"wait {wait_s:.2f} s", headers=headers)


def problem_response(
    request: Request,
    reason: str,
    detail: str,
    *,
    entries: tuple[ProblemEntry, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer that says what went wrong."""
    problem = problem_of(request, reason, detail, entries=entries)
    extra = dict(headers or {})
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        extra.setdefault("Retry-After", str(RETRY_AFTER_S))
    body = problem.model_dump_json(by_alias=True, exclude_none=True)
    return Response(body, status_code=problem.status, media_type=PROBLEM_TYPE, headers=extra)


def problem_of(
    request: Request, reason: str, detail: str, *, entries: tuple[ProblemEntry, ...] = ()
) -> Problem:
    """What went wrong with `request`, as a body."""
    meaning = REASONS[reason]
    return Problem(
        type=TYPE_PREFIX + reason,
        title=meaning.title,
        status=meaning.status,
        detail=detail,
        instance=request.url.path[:INSTANCE_LENGTH_MAX],
        reason=reason,
        remedy=meaning.remedy,
        errors=list(entries),
        request_id=request_id(request),
    )


def unreadable_request(detail: str) -> Problem:
    """What is told of a request that is none: it has no path, and no id was given to it."""
    reason = "MalformedRequest"
    meaning = REASONS[reason]
    return Problem(
        type=TYPE_PREFIX + reason,
        title=meaning.title,
        status=meaning.status,
        detail=detail,
        instance="",
        reason=reason,
        remedy=meaning.remedy,
        request_id="",
    )


def request_id(request: Request) -> str:
    """Id of this request, made by the outermost layer."""
    return str(getattr(request.state, "request_id", ""))


def on_request_error(request: Request, error: Exception) -> Response:
    """A request refused at the edge."""
    assert isinstance(error, RequestError)
    return problem_response(
        request, error.reason, error.detail, entries=error.entries, headers=error.headers
    )


def on_scheduler_error(request: Request, error: Exception) -> Response:
    """An error of the domain."""
    assert isinstance(error, SchedulerError)
    reason = REASON_BY_ERROR[type(error)]
    if isinstance(error, errors.InvalidSpecError):
        document: Document | None = getattr(request.state, "document", None)
        entries = tuple(to_entry(problem, document) for problem in error.problems)
        return problem_response(request, reason, _summary(error.problems), entries=entries)
    if REASONS[reason].status >= HTTPStatus.INTERNAL_SERVER_ERROR and not _is_told(error):
        return problem_response(request, reason, REASONS[reason].meaning)
    if isinstance(error, errors.InvalidTransitionError):
        job = str(request.path_params.get("name", error.job_id))
        detail = explain_refused_move(job, error.origin, error.target)
        return problem_response(request, reason, detail)
    return problem_response(request, reason, str(error))


def on_malformed(request: Request, error: Exception) -> Response:
    """A body that can not be read."""
    assert isinstance(error, MalformedError)
    entries: tuple[ProblemEntry, ...] = ()
    if error.place is not None:
        entries = (_entry("", error.reason, error.detail, error.place),)
    where = f" (line {error.place.line}, column {error.place.column})" if error.place else ""
    detail = f"the body {error.detail}{where}"
    return problem_response(request, error.reason, detail, entries=entries)


def on_http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    reason = _REASON_BY_STATUS.get(error.status_code, "InternalError")
    headers = dict(error.headers or {})
    if reason == "MethodNotAllowed":
        headers["Allow"] = ", ".join(_allowed_methods(request))
        detail = f"{request.method} is not allowed here; allowed: {headers['Allow']}"
    elif reason == "NoSuchRoute":
        detail = f"there is nothing under {request.url.path[:200]}"
    else:
        detail = str(error.detail)
    return problem_response(request, reason, detail, headers=headers)


def _allowed_methods(request: Request) -> list[str]:
    """All methods of a path; the router itself names those of one of its routes alone."""
    routes: list[APIRoute] = request.app.state.routes
    path = request.url.path
    return sorted(
        method for route in routes if route.path_regex.match(path) for method in route.methods or ()
    )


def on_invalid_parameters(request: Request, error: Exception) -> Response:
    """Query, path or header parameters of the wrong form."""
    assert isinstance(error, RequestValidationError)
    entries = []
    for found in error.errors():
        pointer = ""
        for part in found["loc"]:
            pointer = child(pointer, part)
        entries.append(_entry(pointer, "InvalidValue", str(found["msg"]), None))
    names = ", ".join(str(found["loc"][-1]) for found in error.errors())
    detail = f"wrong parameters: {names}"
    return problem_response(request, "InvalidParameter", detail, entries=tuple(entries))


def on_bug(request: Request, _error: Exception) -> Response:
    """Anything else; what it was stands in the server's log alone."""
    return problem_response(request, "InternalError", REASONS["InternalError"].meaning)


def to_entry(problem: SpecProblem, document: Document | None) -> ProblemEntry:
    """One broken rule with its place in the text, where it is known."""
    place = document.place(problem.pointer) if document else None
    return _entry(problem.pointer, problem.reason, problem.detail, place)


def _entry(pointer: str, reason: str, detail: str, place: Place | None) -> ProblemEntry:
    return ProblemEntry(
        pointer=pointer,
        reason=reason,
        detail=detail,
        line=place.line if place else None,
        column=place.column if place else None,
    )


def _summary(found: tuple[SpecProblem, ...]) -> str:
    shown = "; ".join(f"{p.pointer or '/'} {p.detail}" for p in found[:_ENTRIES_IN_DETAIL])
    more = len(found) - _ENTRIES_IN_DETAIL
    return f"{shown}; and {more} more" if more > 0 else shown


def _is_told(error: SchedulerError) -> bool:
    """Whether the error's own text may leave the server: no text of the database does."""
    return isinstance(
        error,
        errors.StaleEpochError
        | errors.ClusterUnavailableError
        | errors.ForecastBusyError
        | errors.ForecastStoppedError
        | errors.ForecastTooLargeError,
    )
