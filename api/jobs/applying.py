"""`apply`: make it so. Create the job, find it unchanged, or name the fields that differ.

A job is what was submitted and does not change: another spec needs another job.
"""

from collections.abc import Iterator, Mapping
from http import HTTPStatus

from pydantic import JsonValue
from starlette.responses import Response

from api.dependencies import Services
from api.documents.document import Json, child
from api.errors import RequestError
from api.job_files.rules import MASK
from api.job_files.spec_mapping import to_request
from api.jobs.finding import requester
from api.jobs.submitting import Submission, checked_job, stored
from api.problems import ProblemEntry
from api.replies import job_response
from scheduler.domain.errors import (
    InvalidSpecError,
    NameTakenError,
    NotFoundError,
    SpecProblem,
)
from scheduler.domain.ids import JobName, ProjectName
from scheduler.domain.job import Job, JobSpec, Role
from scheduler.ports.unit import Unit


def apply(submission: Submission, name: str) -> Response:
    """201 with a new job, 200 with the one that is there, or 409 with what differs."""
    existing = _existing(submission.services, submission.project, name)
    document = submission.body.document()
    if existing is not None:
        _unmask(document.value, existing.spec)
    job, source = checked_job(submission, document)
    if job.name != name:
        detail = f'must be "{name[:80]}", as in the path'
        problem = SpecProblem(pointer="/metadata/name", reason="InvalidValue", detail=detail)
        raise InvalidSpecError((problem,))
    if existing is None:
        try:
            return stored(submission, job, source)
        except NameTakenError:
            # Somebody was quicker; it may be the same job.
            existing = submission.services.store.job(submission.project, job.name)
    differing = tuple(_differences("/spec", _wire(job.spec), _wire(existing.spec)))
    if job.spec.labels != existing.spec.labels:
        differing = ("/metadata/labels", *differing)
    if differing:
        raise _immutable(existing, differing)
    _record_unchanged(submission, existing)
    return job_response(existing, HTTPStatus.OK)


def _existing(services: Services, project: ProjectName, name: str) -> Job | None:
    try:
        return services.store.job(project, JobName(name))
    except NotFoundError:
        return None


def _record_unchanged(submission: Submission, job: Job) -> None:
    if submission.is_dry_run:
        return
    by = requester(
        submission.services, submission.body.request, submission.caller, job=job, verb="apply"
    )
    submission.services.store.write(Unit(changes=by.records))


def _immutable(job: Job, pointers: tuple[str, ...]) -> RequestError:
    entries = tuple(
        ProblemEntry(
            pointer=pointer,
            detail="differs from the job that exists, and a job can not be changed",
            reason="FieldIsImmutable",
        )
        for pointer in pointers
    )
    detail = f"the job {job.name!r} exists and differs in {', '.join(pointers[:5])}"
    return RequestError("FieldIsImmutable", detail, entries=entries)


def _wire(spec: JobSpec) -> JsonValue:
    value: JsonValue = to_request(spec).model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


def _differences(pointer: str, one: JsonValue, other: JsonValue) -> Iterator[str]:
    """Pointers of the outermost parts that are not equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            yield from _differences(child(pointer, key), one.get(key), other.get(key))
    elif one != other:
        yield pointer


def _unmask(value: Json, spec: JobSpec) -> None:
    """Put the stored values where the file has the mask that `get` shows instead of them."""
    section = value.get("spec") if isinstance(value, dict) else None
    if not isinstance(section, dict):
        return
    roles: Mapping[str, Role] = {role.name: role for role in spec.roles}
    _fill(section.get("env"), next(iter(roles.values())).env)
    named = section.get("roles")
    for role in named if isinstance(named, list) else []:
        if isinstance(role, dict) and role.get("name") in roles:
            _fill(role.get("env"), roles[str(role["name"])].env)


def _fill(env: Json, stored: Mapping[str, str]) -> None:
    if isinstance(env, dict):
        for name, value in env.items():
            if value == MASK and name in stored:
                env[name] = stored[name]
