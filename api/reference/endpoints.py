"""Routes of the reference: the JSON schema of job files, and each reason of a problem."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import JsonValue

from api.entry_reasons import ENTRY_REASONS
from api.errors import RequestError
from api.job_files.schemas import JobFile
from api.job_files.validation import nearest
from api.reasons import REASONS, TYPE_PREFIX
from api.wire import Reply

router = APIRouter(tags=["reference"])


class ReasonView(Reply):
    """What a reason means."""

    reason: str
    title: str = ""
    status: int | None = None
    """HTTP status; absent for reasons of single entries."""
    meaning: str
    remedy: str


@router.get("/api/v1/schema", operation_id="getSchema")
async def get_schema() -> dict[str, JsonValue]:
    """JSON schema of a job file, with the meaning and the default of every field."""
    schema: dict[str, JsonValue] = JobFile.model_json_schema(by_alias=True)
    return schema


@router.get(TYPE_PREFIX + "{reason}", operation_id="getReason")
async def get_reason(reason: Annotated[str, Path(max_length=64)]) -> ReasonView:
    """What a reason means and what helps; the `type` of every problem leads here."""
    if reason in REASONS:
        known = REASONS[reason]
        return ReasonView(
            reason=known.code,
            title=known.title,
            status=known.status,
            meaning=known.meaning,
            remedy=known.remedy,
        )
    if reason in ENTRY_REASONS:
        entry = ENTRY_REASONS[reason]
        return ReasonView(reason=entry.code, meaning=entry.meaning, remedy=entry.remedy)
    near = nearest(reason, [*REASONS, *ENTRY_REASONS])
    raise RequestError("NotFound", f"there is no reason {reason!r}{near}")
