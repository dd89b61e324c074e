"""What the server says about events."""

from typing import Literal

from api.lists import ListMetadata
from api.wire import API_VERSION, Reply


class EventView(Reply):
    """One thing that happened; equal ones are folded into one with a count."""

    time: str
    """When it happened last."""
    first_time: str
    type: Literal["Normal", "Warning"]
    reason: str
    """Unique CamelCase code."""
    message: str
    actor: str
    project: str | None = None
    job: str | None = None
    job_uid: str | None = None
    attempt: int | None = None
    node: str | None = None
    count: int = 1
    sequence: int


class EventList(Reply):
    """One page of events, oldest first."""

    api_version: str = API_VERSION
    kind: str = "EventList"
    metadata: ListMetadata
    items: list[EventView]
