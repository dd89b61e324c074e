"""Domain -> wire, for plans."""

from collections import Counter
from collections.abc import Mapping

from pydantic import JsonValue

from api.plans.schemas import Assumed, JobPlan, PlannedNode
from api.times import render_instant, render_optional
from scheduler.domain.forecast import Forecast, ForecastQuestion
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import in_seconds
from scheduler.domain.job import Job
from scheduler.domain.placement import Placement

NOTES = (
    "no job arrives later, none fails or is cancelled, and no node fails",
    "jobs run as long as their declared iterations take, else as long as jobs of their queue and "
    "size took, else as long again as they have run, 6 h at least (residualDefault)",
    "steps take what the network model says of the place and of the gangs on the same links",
    "starting, stopping and moving cost nothing; what is being stopped leaves when its grace ends, "
    "and waits again if it was stopped for others",
)


def to_plan(
    job: Job,
    question: ForecastQuestion,
    found: Forecast,
    *,
    is_submitted: bool,
    changed: Mapping[str, JsonValue],
) -> JobPlan:
    """One job's future."""
    told, now = found.prediction, question.snapshot.now
    place = told.placement
    knobs = question.what_if.knobs or question.snapshot.knobs
    return JobPlan(
        project=job.project,
        name=job.name,
        queue=job.spec.queue,
        is_submitted=is_submitted,
        is_running=told.is_running,
        starts_at=render_optional(told.starts_at),
        ends_at=render_optional(told.ends_at),
        wait_seconds=None if told.starts_at is None else (told.starts_at - now) / 1e6,
        slowdown=_slowdown(found),
        level=None if place is None else place.tier_name,
        nodes=[] if place is None else _nodes(place),
        assumed=Assumed(
            at=render_instant(now),
            policy=knobs.policy,
            knobs=dict(changed),
            more_nodes=question.what_if.nodes_more,
            jobs_running=found.jobs_running,
            jobs_waiting=found.jobs_waiting,
            run_seconds=in_seconds(told.remaining),
            run_seconds_from=told.length_from.value,
            notes=list(NOTES),
        ),
    )


def _slowdown(found: Forecast) -> float | None:
    told = found.prediction
    if told.starts_at is None or told.ends_at is None:
        return None
    return (told.ends_at - told.starts_at) / told.remaining


def _nodes(place: Placement) -> list[PlannedNode]:
    """In rank order of their first worker."""
    workers: Counter[NodeName] = Counter()
    for each in place.assignments:
        workers[each.node] += each.workers
    return [PlannedNode(name=name, workers=count) for name, count in workers.items()]
