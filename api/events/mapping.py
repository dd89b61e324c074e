"""Event -> what the server says of it."""

from api.events.schemas import EventView
from api.times import render_instant
from scheduler.domain.event import Event


def to_event(event: Event) -> EventView:
    """One event as the store keeps it."""
    assert event.sequence is not None, "the store numbers its events"
    return EventView(
        time=render_instant(event.at),
        first_time=render_instant(event.at if event.first_at is None else event.first_at),
        type=event.kind.value,
        reason=event.reason,
        message=event.message,
        actor=event.actor,
        project=event.project,
        job=event.job_name,
        job_uid=event.job_id,
        attempt=event.attempt,
        node=event.node,
        count=event.count,
        sequence=event.sequence,
    )
