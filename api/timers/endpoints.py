"""The route of the tuner's timers."""

from fastapi import APIRouter
from starlette.responses import Response

from api.dependencies import CallerOf, ServicesOf
from api.parameters import QueueParameter
from api.replies import model_response
from api.timers.schemas import TimerList, TimerView
from api.times import render_optional
from scheduler.control.timers import knobs_in_queue, timers_now
from scheduler.domain.ids import QueueName
from scheduler.domain.quantities import render_duration
from scheduler.domain.timers import TimerRow

router = APIRouter(prefix="/api/v1", tags=["policy"])


@router.get("/timers", operation_id="listTimers", response_model=TimerList)
def list_timers(services: ServicesOf, _caller: CallerOf, queue: QueueParameter = None) -> Response:
    """How long gangs wait for closer GPUs, and what that was learned from."""
    knobs = knobs_in_queue(services.store, None if queue is None else QueueName(queue))
    now = services.clock.now()
    timers = timers_now(services.store, knobs, now)
    shown = TimerList(
        queue=queue,
        policy=knobs.policy,
        in_use=timers.in_use,
        items=[_to_view(row) for row in timers.rows],
    )
    return model_response(shown)


def _to_view(row: TimerRow) -> TimerView:
    return TimerView(
        name=f"{row.demand}-{row.level}",
        demand=row.demand,
        level=row.level,
        timer=None if row.timer is None else render_duration(row.timer),
        source=row.source.value,
        learned_from=row.learned_from,
        accepted=row.accepted,
        censored=row.censored,
        update_time=render_optional(row.changed_at),
    )
