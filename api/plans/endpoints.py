"""Routes of plans: what would become of a job of the service, or of a job file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import JsonValue
from starlette.responses import Response

from api.bodies import JobFileBody
from api.dependencies import CallerOf, Services, ServicesOf
from api.description import body_of
from api.errors import RequestError
from api.job_files.schemas import JobFile
from api.jobs.finding import NamePath, ProjectPath, find_job
from api.jobs.submitting import unstored_job
from api.plans.mapping import to_plan
from api.plans.schemas import JobPlan
from api.policy.mapping import PolicyState, read_change
from api.replies import model_response
from scheduler.control.stored import stored_snapshot
from scheduler.domain.errors import InvalidSpecError
from scheduler.domain.forecast import ForecastQuestion, WhatIf
from scheduler.domain.ids import JobName, ProjectName
from scheduler.domain.job import Job, JobPhase
from scheduler.domain.snapshot import Snapshot
from scheduler.knob_assignments import AssignmentError, assigned

router = APIRouter(prefix="/api/v1", tags=["plans"])

PLANNED = frozenset(phase for phase in JobPhase if not phase.is_terminal)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be different, as it was written."""

    settings: str | None
    more_nodes: int


# Async only so that it costs no worker thread: it waits for nothing.
async def _asked(
    settings: Annotated[str | None, Query(alias="set", max_length=2000)] = None,
    more_nodes: Annotated[int, Query(alias="moreNodes", ge=0, le=1000)] = 0,
) -> _Asked:
    return _Asked(settings, more_nodes)


AskedOf = Annotated[_Asked, Depends(_asked)]


@router.get(
    "/projects/{project}/jobs/{name}/plan", operation_id="getJobPlan", response_model=JobPlan
)
def get_job_plan(
    project: ProjectPath,
    name: NamePath,
    services: ServicesOf,
    caller: CallerOf,
    asked: AskedOf,
) -> Response:
    """When a job would start and end, and where; `set` and `moreNodes` ask what if.

    `set` is a list like `policy=las,waitMax=2h` of knobs of the cluster. A held job is taken to be
    released now, and one that is stopped for others to wait again when it has left. It is worked
    out in another process from what is stored, and changes nothing.
    """
    job = find_job(services, caller, project, name)
    if job.phase not in PLANNED or job.stop_requested is not None:
        raise _nothing_to_plan(job)
    return _planned(services, job, asked, is_submitted=True)


@router.post(
    "/projects/{project}/plan",
    operation_id="planJob",
    response_model=JobPlan,
    openapi_extra=body_of(JobFile, is_yaml_too=True),
)
def plan_job(
    project: ProjectPath,
    body: JobFileBody,
    services: ServicesOf,
    caller: CallerOf,
    asked: AskedOf,
) -> Response:
    """When a job file would start and end if it were submitted now, and where. Nothing is stored.

    The parameters are those of a stored job's plan.
    """
    job = unstored_job(services, caller, ProjectName(project), body)
    return _planned(services, job, asked, is_submitted=False)


def _planned(services: Services, job: Job, asked: _Asked, *, is_submitted: bool) -> Response:
    forecaster = services.given.forecaster
    if forecaster is None:
        raise RequestError("ForecastUnavailable", "this server can not work out plans")
    what_if, changed = _what_if(services, asked)
    # All jobs are read only by whoever has his turn: who is refused must cost the service nothing.
    with forecaster.turn():
        snapshot = _snapshot(services, job, is_submitted=is_submitted)
        if asked.more_nodes and not snapshot.nodes:
            detail = "moreNodes: the cluster has no node that they could be like"
            raise RequestError("InvalidParameter", detail)
        question = ForecastQuestion(
            snapshot=snapshot, about=job.id, what_if=what_if, links=services.given.links
        )
        found = forecaster.forecast(question)
    told = found.prediction
    if job.phase is JobPhase.STOPPING and told.starts_at is None and told.ends_at is not None:
        # Its stop is its end. A gang that is stopped for others waits again, and has a plan.
        raise _nothing_to_plan(job)
    return model_response(to_plan(job, question, found, is_submitted=is_submitted, changed=changed))


def _nothing_to_plan(job: Job) -> RequestError:
    is_stopped = job.stop_requested is not None or job.phase is JobPhase.STOPPING
    what = "is being stopped" if is_stopped else f"is {job.phase.value}"
    return RequestError("Conflict", f"{job.name} {what}: there is nothing to plan")


def _snapshot(services: Services, job: Job, *, is_submitted: bool) -> Snapshot:
    """What is stored, with the job in it. Raises RequestError if it has changed since."""
    snapshot = stored_snapshot(services.store, services.clock.now())
    if not is_submitted:
        return _with_newcomer(snapshot, job)
    if job.phase is JobPhase.HELD:
        return _with_newcomer(snapshot, job.moved_to(JobPhase.PENDING, at=snapshot.now))
    if job.id not in {*(each.id for each in snapshot.pending), *_holding(snapshot)}:
        raise RequestError("Conflict", f"{job.name} has just changed; ask again")
    return snapshot


def _with_newcomer(snapshot: Snapshot, job: Job) -> Snapshot:
    """The snapshot with one job more, under a name that no other job has."""
    newcomer = replace(job, name=JobName(str(job.id)))
    return replace(snapshot, pending=(*snapshot.pending, newcomer))


def _holding(snapshot: Snapshot) -> set[str]:
    return {gang.job.id for gang in snapshot.holding}


def _what_if(services: Services, asked: _Asked) -> tuple[WhatIf, Mapping[str, JsonValue]]:
    """What is to be different. Raises InvalidSpecError or RequestError for what can not be."""
    settings = {} if asked.settings is None else _settings(asked.settings)
    if not settings:
        return WhatIf(nodes_more=asked.more_nodes), {}
    change = read_change(settings, is_for_queue=False, policies=services.given.policies)
    if change.problems:
        raise InvalidSpecError(change.problems)
    state = PolicyState(cluster=services.store.knob_sheet(), queues={})
    knobs = state.with_change(None, change).knobs(None)
    return WhatIf(knobs=knobs, nodes_more=asked.more_nodes), settings


def _settings(text: str) -> dict[str, JsonValue]:
    try:
        return assigned(text.split(","))
    except AssignmentError as error:
        raise RequestError("InvalidParameter", f"set: {error}") from error
