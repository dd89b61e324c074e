"""Routes of strays: list them, and say what is to become of each. Admins only."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from api.callers import Caller
from api.dependencies import AdminOf, Services, ServicesOf
from api.replies import audit_row, model_response
from api.strays.mapping import safe_mode_text, to_view
from api.strays.schemas import StrayList, StrayView
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import AttemptNumber, JobId
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.stray import StrayOrder
from scheduler.ports.unit import OrderStray, Unit

router = APIRouter(prefix="/api/v1", tags=["strays"])

JobUid = Annotated[str, Path(max_length=64)]
Number = Annotated[int, Path(ge=0, le=2**31 - 1)]


@router.get("/strays", operation_id="listStrays", response_model=StrayList)
def list_strays(services: ServicesOf, _admin: AdminOf) -> Response:
    """Gangs on the cluster that the database does not know. Admins only."""
    strays = services.store.strays()
    items = [to_view(stray) for stray in strays]
    return model_response(StrayList(items=items, safe_mode=safe_mode_text(strays)))


@router.post(
    "/strays/{job}/{attempt}/adopt",
    operation_id="adoptStray",
    status_code=HTTPStatus.ACCEPTED,
    response_model=StrayView,
)
def adopt(
    job: JobUid, attempt: Number, services: ServicesOf, admin: AdminOf, request: Request
) -> Response:
    """Have the database take a gang up as the cluster has it. Admins only."""
    key = AttemptKey(JobId(job), AttemptNumber(attempt))
    return _order(key, StrayOrder.ADOPT, services, admin, request)


@router.post(
    "/strays/{job}/{attempt}/release",
    operation_id="releaseStray",
    status_code=HTTPStatus.ACCEPTED,
    response_model=StrayView,
)
def release(
    job: JobUid, attempt: Number, services: ServicesOf, admin: AdminOf, request: Request
) -> Response:
    """Let a gang run on as nobody's: it is never touched again. Admins only."""
    key = AttemptKey(JobId(job), AttemptNumber(attempt))
    return _order(key, StrayOrder.RELEASE, services, admin, request)


def _order(
    key: AttemptKey, order: StrayOrder, services: Services, admin: Caller, request: Request
) -> Response:
    row = audit_row(
        request,
        admin,
        verb=order.lower(),
        target=f"strays/{key}",
        at=services.clock.now(),
        outcome=HTTPStatus.ACCEPTED,
    )
    services.store.write(Unit(changes=(OrderStray(attempt=key, order=order), row)))
    services.given.on_write()
    for stray in services.store.strays():
        if stray.attempt == key:
            return model_response(to_view(stray), HTTPStatus.ACCEPTED)
    raise NotFoundError("stray", str(key))  # It is gone already, and what came of it is in events.
