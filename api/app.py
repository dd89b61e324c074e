"""create_app(deps): the FastAPI application; no import-time side effects."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import JsonValue
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api import errors, health
from api.attempts import endpoints as attempts
from api.audit import endpoints as audit
from api.dependencies import ApiDependencies, Services
from api.description import described
from api.distance import endpoints as distance
from api.documents.document import MalformedError
from api.events import endpoints as events
from api.gate import Gate
from api.jobs import endpoints as jobs
from api.logs import endpoints as logs
from api.nodes import endpoints as nodes
from api.parameters import refuse_unknown_parameters
from api.plans import endpoints as plans
from api.policy import endpoints as policy
from api.profiles import endpoints as profiles
from api.projects import endpoints as projects
from api.queues import endpoints as queues
from api.reference import endpoints as reference
from api.strays import endpoints as strays
from api.timers import endpoints as timers
from api.tokens import endpoints as tokens
from scheduler.domain.errors import SchedulerError

Handler = Callable[[Request, Exception], Response]

_HANDLERS: dict[type[Exception], Handler] = {
    errors.RequestError: errors.on_request_error,
    SchedulerError: errors.on_scheduler_error,
    MalformedError: errors.on_malformed,
    HTTPException: errors.on_http_error,
    RequestValidationError: errors.on_invalid_parameters,
}
_ROUTES = (
    health,
    jobs,
    logs,
    attempts,
    events,
    nodes,
    queues,
    policy,
    timers,
    distance,
    plans,
    profiles,
    projects,
    strays,
    tokens,
    audit,
    reference,
)


class Application(FastAPI):
    """The API, which describes bodies and problems as they are."""

    def openapi(self) -> dict[str, JsonValue]:
        """The OpenAPI description, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = described(self)
        return self.openapi_schema


def create_app(deps: ApiDependencies) -> FastAPI:
    """The REST API over `deps`."""
    app = Application(
        title="Dally",
        version=deps.version,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    app.state.services = Services(deps)
    app.state.routes = [
        route for module in _ROUTES for route in module.router.routes if isinstance(route, APIRoute)
    ]
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    for module in _ROUTES:
        app.include_router(module.router)
    app.add_middleware(Gate)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """A server that waits for open answers before it stops must call `close_streams` itself."""
    services: Services = app.state.services
    if services.is_closed:
        # The same application is served again.
        app.state.services = Services(services.given)
    yield
    close_streams(app)


def close_streams(app: FastAPI) -> None:
    """End every open stream and refuse new ones; call it when the server is told to stop."""
    services: Services = app.state.services
    services.close_streams()
