"""create_app(deps): the FastAPI application; no import-time side effects."""

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api import errors, health
from api.dependencies import ApiDependencies, Services
from api.documents.document import MalformedError
from api.gate import Gate
from api.jobs import endpoints as jobs
from scheduler.domain.errors import SchedulerError

Handler = Callable[[Request, Exception], Response]

_HANDLERS: dict[type[Exception], Handler] = {
    errors.RequestError: errors.on_request_error,
    SchedulerError: errors.on_scheduler_error,
    MalformedError: errors.on_malformed,
    HTTPException: errors.on_http_error,
    RequestValidationError: errors.on_invalid_parameters,
}


def create_app(deps: ApiDependencies) -> FastAPI:
    """The REST API over `deps`."""
    app = FastAPI(
        title="Dally",
        version=deps.version,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    services = Services(deps)
    app.state.services = services
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    for module in (health, jobs):
        app.include_router(module.router)
    app.add_middleware(Gate, services=services)
    return app
