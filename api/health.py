"""Liveness, readiness and version: what may be asked for without a token."""

from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from api.dependencies import ServicesOf
from api.errors import problem_response
from api.replies import model_response
from api.wire import Reply
from scheduler.domain.stray import outdated_by

router = APIRouter(tags=["health"])
_log = structlog.get_logger("dally.api")


class Health(Reply):
    """The server is well."""

    status: str = "ok"
    checks: dict[str, str] = Field(default_factory=dict)
    """With `?verbose`: each check by name, and whether `safeMode` is `on`."""


class Version(Reply):
    """What runs here."""

    version: str
    api_version: str = "v1"


@router.get("/livez", operation_id="livez")
async def livez() -> Health:
    """The process answers. Never asks the database."""
    return Health()


@router.get("/readyz", operation_id="readyz", response_model=Health)
def readyz(
    request: Request, services: ServicesOf, verbose: Annotated[str | None, Query()] = None
) -> Response:
    """The server can take requests; with `?verbose`, what was checked."""
    checks: dict[str, str] = {}
    for readiness in services.given.readiness:
        try:
            readiness.check()
        except Exception as error:  # noqa: BLE001 - whatever fails, the server is not ready
            _log.warning("readiness_failed", check=readiness.name, error=str(error))
            checks[readiness.name] = "failed" if readiness.is_vital else "degraded"
        else:
            checks[readiness.name] = "ok"
    failed = [name for name, state in checks.items() if state == "failed"]
    if failed:
        return problem_response(request, "NotReady", f"failing: {', '.join(failed)}")
    if verbose is not None:
        # Not a failure: an admin must reach the server to end it.
        is_safe_mode = outdated_by(services.store.strays()) is not None
        checks["safeMode"] = "on" if is_safe_mode else "off"
    return model_response(Health(checks={} if verbose is None else checks), HTTPStatus.OK)


@router.get("/version", operation_id="version")
async def version(services: ServicesOf) -> Version:
    """Versions of the server and of its API."""
    return Version(version=services.given.version)
