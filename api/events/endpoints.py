"""Routes of events: of everything the caller may see, and of one job."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from api.dependencies import CallerOf, Services, ServicesOf
from api.events.mapping import to_event
from api.events.schemas import EventList
from api.events.watching import EventFilter, watch_events
from api.jobs.finding import NamePath, ProjectPath, find_job
from api.lists import ListMetadata
from api.replies import model_response
from api.streams.responses import watch_responses
from scheduler.domain.event import Event
from scheduler.domain.ids import JobId, ProjectName, Sequence
from scheduler.ports.job_store import EventQuery

router = APIRouter(prefix="/api/v1", tags=["events"])


@dataclass(frozen=True, slots=True)
class EventParameters:
    """Query parameters of lists of events."""

    type: Annotated[Literal["Normal", "Warning"] | None, Query()] = None
    limit: Annotated[int | None, Query(ge=1, le=1_000_000)] = None
    continue_: Annotated[str, Query(alias="continue", max_length=1024)] = ""
    watch: Annotated[bool, Query()] = False
    resource_version: Annotated[str, Query(alias="resourceVersion", max_length=100)] = ""


@router.get(
    "/events",
    operation_id="listEvents",
    response_model=EventList,
    responses=watch_responses("EventView"),
)
def list_events(
    request: Request,
    services: ServicesOf,
    caller: CallerOf,
    parameters: Annotated[EventParameters, Depends()],
) -> Response:
    """Events of every project the caller may see; an admin also sees those of no project."""
    if parameters.watch:
        chosen = EventFilter(projects=caller.visible_projects, kind=parameters.type)
        return watch_events(services, request, caller, chosen, parameters.resource_version)
    events = _list(services, parameters, projects=caller.visible_projects, job_id=None)
    return model_response(events)


@router.get(
    "/projects/{project}/jobs/{name}/events",
    operation_id="listJobEvents",
    response_model=EventList,
    responses=watch_responses("EventView"),
)
def list_job_events(
    *,
    project: ProjectPath,
    name: NamePath,
    request: Request,
    services: ServicesOf,
    caller: CallerOf,
    parameters: Annotated[EventParameters, Depends()],
) -> Response:
    """Events of one job, oldest first."""
    job = find_job(services, caller, project, name)
    if parameters.watch:
        chosen = EventFilter(projects=None, job_id=job.id, kind=parameters.type)
        return watch_events(services, request, caller, chosen, parameters.resource_version)
    return model_response(_list(services, parameters, projects=None, job_id=job.id))


def _list(
    services: Services,
    parameters: EventParameters,
    *,
    projects: tuple[ProjectName, ...] | None,
    job_id: JobId | None,
) -> EventList:
    filters = f"events {projects} {job_id} {parameters.type}"
    after = 0
    if parameters.continue_:
        after, _ = services.pages.after(filters, parameters.continue_)
    limit = min(parameters.limit or services.limits.page_default, services.limits.page_max)
    sequence = services.store.sequence()
    found, is_last = _matching(
        services, parameters, EventQuery(projects=projects, job_id=job_id), after, limit
    )
    token = None
    if not is_last:
        assert found[-1].sequence is not None
        token = services.pages.token(filters, (found[-1].sequence, ""))
    return EventList(
        metadata=ListMetadata(resource_version=str(sequence), continue_=token),
        items=[to_event(event) for event in found],
    )


def _matching(
    services: Services, parameters: EventParameters, query: EventQuery, after: int, limit: int
) -> tuple[list[Event], bool]:
    """Up to `limit` events of the wanted type after `after`, and whether these are the last."""
    found: list[Event] = []
    if query.projects == ():
        return found, True
    while True:
        page = services.store.events(
            EventQuery(
                projects=query.projects,
                job_id=query.job_id,
                after=Sequence(after),
                limit=services.limits.page_max,
            )
        )
        for event in page:
            assert event.sequence is not None
            after = event.sequence
            if parameters.type in (None, event.kind.value):
                if len(found) == limit:
                    return found, False
                found.append(event)
        if len(page) < services.limits.page_max:
            return found, True
