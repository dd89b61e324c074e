"""Lists of jobs: filters, pages, and tokens to go on with."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from fastapi import Query

from api.callers import Caller
from api.dependencies import Services
from api.errors import RequestError
from api.job_files.validation import nearest
from api.jobs.mapping import to_object
from api.jobs.schemas import JobList, PhaseName
from api.lists import ListMetadata
from api.selectors import read_field_selector, read_selector
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import JobName, ProjectName, QueueName
from scheduler.domain.job import Job, JobPhase
from scheduler.ports.job_store import JobPage, JobQuery

FIELDS = ("metadata.name", "spec.queue", "status.phase")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    """Which jobs a list or a watch is about."""

    projects: tuple[ProjectName, ...] | None
    """None for all."""
    queue: QueueName | None = None
    phases: tuple[JobPhase, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    name: JobName | None = None

    def matches(self, job: Job) -> bool:
        """Whether the job belongs to the list."""
        return (
            (self.projects is None or job.project in self.projects)
            and self.queue in (None, job.spec.queue)
            and (not self.phases or job.phase in self.phases)
            and self.name in (None, job.name)
            and all(job.spec.labels.get(key) == value for key, value in self.labels)
        )

    def matches_but_for_phase(self, job: Job) -> bool:
        """Whether only its phase keeps the job out of the list."""
        return bool(self.phases) and replace(self, phases=()).matches(job)

    def may_match(self, project: ProjectName, name: JobName) -> bool:
        """Whether a job that is gone may have belonged to the list."""
        return (self.projects is None or project in self.projects) and self.name in (None, name)

    @property
    def fingerprint(self) -> str:
        """Equal for equal filters; binds a continue token to its list."""
        return json.dumps([self.projects, self.queue, self.phases, sorted(self.labels), self.name])


@dataclass(frozen=True, slots=True)
class ListParameters:
    """Query parameters of lists and watches of jobs."""

    label_selector: Annotated[str, Query(alias="labelSelector", max_length=1024)] = ""
    field_selector: Annotated[str, Query(alias="fieldSelector", max_length=1024)] = ""
    queue: Annotated[str | None, Query(max_length=253)] = None
    phase: Annotated[str, Query(max_length=256)] = ""
    limit: Annotated[int | None, Query(ge=1, le=1_000_000)] = None
    order: Annotated[Literal["oldest", "newest"], Query()] = "oldest"
    continue_: Annotated[str, Query(alias="continue", max_length=1024)] = ""
    watch: Annotated[bool, Query()] = False
    resource_version: Annotated[str, Query(alias="resourceVersion", max_length=100)] = ""


def read_filters(
    services: Services, parameters: ListParameters, caller: Caller, project: ProjectName | None
) -> JobFilters:
    """The filters that the parameters mean for this caller. Raises RequestError."""
    if project is not None:
        caller.require(project)
    fields = read_field_selector(parameters.field_selector, fields=FIELDS)
    queues = {parameters.queue, fields.get("spec.queue")} - {None}
    if len(queues) > 1:
        raise RequestError("InvalidSelector", "queue and fieldSelector ask for different queues")
    phases = _phases([parameters.phase, fields.get("status.phase", "")])
    name = fields.get("metadata.name")
    queue = next(iter(queues), None)
    if queue is not None:
        _expect_queue(queue, services.catalogue.queues())
    return JobFilters(
        projects=(project,) if project is not None else caller.visible_projects,
        queue=QueueName(queue) if queue is not None else None,
        phases=phases,
        labels=read_selector(parameters.label_selector, parameter="labelSelector"),
        name=JobName(name) if name is not None else None,
    )


def _expect_queue(queue: str, known: Sequence[str]) -> None:
    if queue not in known:
        detail = f"there is no queue {queue[:80]!r}{nearest(queue[:80], list(known))}"
        raise RequestError("InvalidSelector", detail)


def list_jobs(services: Services, parameters: ListParameters, filters: JobFilters) -> JobList:
    """One page of jobs."""
    page = _page(services, parameters, filters)
    token = None
    if page.remaining:
        last = page.jobs[-1]
        token = services.pages.token(_bound(parameters, filters), (last.submitted_at, last.id))
    return JobList(
        metadata=ListMetadata(
            resource_version=str(page.sequence),
            continue_=token,
            remaining_item_count=page.remaining,
        ),
        items=[to_object(job) for job in page.jobs],
    )


def _page(services: Services, parameters: ListParameters, filters: JobFilters) -> JobPage:
    if filters.name is not None:
        return _by_name(services, filters, filters.name)
    if filters.projects == ():
        return JobPage(jobs=(), remaining=0, sequence=services.store.sequence())
    after = None
    if parameters.continue_:
        after = services.pages.after(_bound(parameters, filters), parameters.continue_)
    limit = parameters.limit or services.limits.page_default
    return services.store.jobs(
        JobQuery(
            projects=filters.projects,
            queue=filters.queue,
            phases=filters.phases,
            labels=filters.labels,
            limit=min(limit, services.limits.page_max),
            is_newest_first=parameters.order == "newest",
            after=after,
        )
    )


def _bound(parameters: ListParameters, filters: JobFilters) -> str:
    """What a continue token belongs to: the filters, and the end that the list begins at."""
    return f"{parameters.order} {filters.fingerprint}"


def _by_name(services: Services, filters: JobFilters, name: JobName) -> JobPage:
    sequence = services.store.sequence()
    projects = filters.projects
    if projects is None:
        projects = tuple(project.name for project in services.store.projects())
    found = [job for job in _named(services, projects, name) if filters.matches(job)]
    return JobPage(jobs=tuple(found), remaining=0, sequence=sequence)


def _named(services: Services, projects: Iterable[ProjectName], name: JobName) -> Iterable[Job]:
    for project in projects:
        try:
            yield services.store.job(project, name)
        except NotFoundError:
            continue


def _phases(texts: list[str]) -> tuple[JobPhase, ...]:
    """Phases asked for; of two lists, those in both."""
    known = list(get_args(PhaseName))
    chosen: list[set[str]] = []
    for text in texts:
        if text:
            names = text.split(",")
            for name in names:
                if name not in known:
                    detail = f"there is no phase {name[:80]!r}{nearest(name[:80], known)}"
                    raise RequestError("InvalidSelector", detail)
            chosen.append(set(names))
    if not chosen:
        return ()
    both = set.intersection(*chosen)
    if not both:
        raise RequestError("InvalidSelector", "phase and fieldSelector ask for different phases")
    return tuple(JobPhase(name) for name in known if name in both)
