"""The route of audit rows."""

from typing import Annotated

from fastapi import APIRouter, Query

from api.audit.schemas import AuditList, AuditView
from api.dependencies import AdminOf, ServicesOf
from api.times import render_instant
from scheduler.ports.unit import AuditRow

router = APIRouter(prefix="/api/v1", tags=["audit"])


@router.get("/audit", operation_id="listAudit")
def list_audit(
    services: ServicesOf, _admin: AdminOf, limit: Annotated[int, Query(ge=1, le=10_000)] = 100
) -> AuditList:
    """Who did what, newest first. Admins only."""
    rows = services.given.accounts.audit(limit=limit)
    return AuditList(items=[_to_view(row) for row in rows])


def _to_view(row: AuditRow) -> AuditView:
    return AuditView(
        time=render_instant(row.at),
        principal=row.principal,
        token_id=row.token_id,
        source=row.source,
        verb=row.verb,
        target=row.target,
        outcome=row.outcome,
        request_id=row.request_id,
    )
