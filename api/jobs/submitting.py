"""Creating jobs: check, dry run, idempotency."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from starlette.responses import Response

from api.bodies import Body
from api.callers import Caller
from api.dependencies import Services
from api.documents.document import Document, MalformedError
from api.errors import RequestError
from api.job_files.reading import read_job_file
from api.job_files.rules import Surroundings
from api.job_files.schemas import JobFile
from api.job_files.spec_mapping import to_spec
from api.jobs.finding import find_project
from api.jobs.mapping import looks_secret, to_object
from api.jobs.schemas import JobObject
from api.replies import audit_row, created_response, job_response, to_json
from scheduler.control import commands
from scheduler.control.commands import Requester
from scheduler.control.profiling import own_model_in
from scheduler.domain.communication import ModelProfile
from scheduler.domain.errors import (
    IdempotencyMismatchError,
    InvalidSpecError,
    NotFoundError,
    SchedulerError,
)
from scheduler.domain.explain import explain
from scheduler.domain.ids import JobId, JobName, ProjectName
from scheduler.domain.job import Job
from scheduler.domain.queue import Project
from scheduler.ports.unit import RecordAudit, RememberReply

_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One request to create a job."""

    services: Services
    caller: Caller
    project: ProjectName
    body: Body
    key: str | None
    """The idempotency key."""
    is_dry_run: bool

    @property
    def route(self) -> str:
        """What an idempotency key is bound to besides its principal."""
        return f"POST /api/v1/projects/{self.project}/jobs"


def create(submission: Submission) -> Response:
    """Create the job, or answer as before if the key was used before."""
    if submission.key is not None and not _KEY.fullmatch(submission.key):
        detail = "Idempotency-Key must be 1 to 255 printable characters without spaces"
        raise RequestError("InvalidParameter", detail)
    try:
        return stored(submission, *checked_job(submission, submission.body.document()))
    except (SchedulerError, RequestError, MalformedError):
        # Asked for only now: few requests are repeated, and what was answered once under the key is
        # the answer whatever stands in its way today.
        replayed = _replayed(submission)
        if replayed is None:
            raise
        return replayed


def stored(submission: Submission, job: Job, source: str) -> Response:
    """Store a checked job, unless it is a dry run. Raises NameTakenError."""
    if submission.is_dry_run:
        _refuse_taken_name(submission, job)
        return job_response(job, HTTPStatus.OK, warnings=_warnings(job))
    made = to_object(job)
    response = created_response(to_json(made), made.metadata, warnings=_warnings(job))
    by = Requester(
        actor=submission.caller.name,
        at=job.submitted_at,
        records=_records(submission, job, response),
    )
    commands.submit(submission.services.store, job, source=source, by=by)
    submission.services.given.on_write()
    return response


def unstored_job(services: Services, caller: Caller, project: ProjectName, body: Body) -> Job:
    """The job a file asks for, which is not to be stored. Raises as a submission does."""
    caller.require(project)
    submission = Submission(
        services=services, caller=caller, project=project, body=body, key=None, is_dry_run=True
    )
    return checked_job(submission, body.document())[0]


def checked_job(submission: Submission, document: Document) -> tuple[Job, str]:
    """The job a document asks for, and its file as canonical JSON. Raises InvalidSpecError."""
    services = submission.services
    project = find_project(services, submission.caller, submission.project)
    models = services.catalogue.models(project.name)
    file = read_job_file(document, _surroundings(services, project, models))
    spec = to_spec(file.spec, labels=dict(file.metadata.labels), default_queue=project.queues[0])
    spec = own_model_in(spec, models)
    if services.given.pods is not None:
        spec = services.given.pods.completed(project.name, spec)
    refused = services.cluster.refusal(spec)
    if refused is not None:
        raise RequestError("NeverFits", explain(refused))
    oversizes = services.given.oversizes(spec)
    if oversizes:
        raise InvalidSpecError(oversizes)
    job = commands.new_job(
        JobId(services.given.new_id()),
        project.name,
        JobName(file.metadata.name),
        spec,
        priority=services.given.priorities[spec.priority],
        by=Requester(actor=submission.caller.name, at=services.clock.now()),
    )
    return job, _source(file)


def _source(file: JobFile) -> str:
    return file.model_dump_json(by_alias=True, exclude_unset=True, exclude={"status"})


def _surroundings(
    services: Services, project: Project, models: Mapping[str, ModelProfile]
) -> Surroundings:
    cluster = services.cluster.now()
    return Surroundings(
        project=project.name,
        queues=project.queues,
        all_queues=services.catalogue.queues(),
        priorities=services.given.priorities,
        levels=tuple(level.name for level in cluster.levels) if cluster.is_observed else None,
        models=models,
        pods=services.given.pods,
        pools=tuple(sorted({node.pool for node in cluster.nodes})) or None,
    )


def _replayed(submission: Submission) -> Response | None:
    """The reply given before under the key, if there is one."""
    if submission.key is None or submission.is_dry_run:
        return None
    remembered = submission.services.given.accounts.reply(
        principal=submission.caller.token_id, route=submission.route, key=submission.key
    )
    if remembered is None:
        return None
    if remembered.body_sha256 != submission.body.sha256:
        raise IdempotencyMismatchError("the key was used before with another body")
    made = JobObject.model_validate_json(remembered.reply).metadata
    response = created_response(remembered.reply, made)
    response.headers["Idempotent-Replayed"] = "true"
    return response


def _records(
    submission: Submission, job: Job, response: Response
) -> tuple[RememberReply | RecordAudit, ...]:
    row = audit_row(
        submission.body.request,
        submission.caller,
        verb="create",
        target=f"{job.project}/jobs/{job.name}",
        at=job.submitted_at,
        outcome=HTTPStatus.CREATED,
    )
    if submission.key is None:
        return (row,)
    remembered = RememberReply(
        principal=submission.caller.token_id,
        route=submission.route,
        key=submission.key,
        body_sha256=submission.body.sha256,
        status=HTTPStatus.CREATED,
        reply=bytes(response.body).decode(),
        at=job.submitted_at,
    )
    return (remembered, row)


def _refuse_taken_name(submission: Submission, job: Job) -> None:
    try:
        submission.services.store.job(job.project, job.name)
    except NotFoundError:
        return
    raise RequestError("AlreadyExists", f"a job named {job.name!r} exists")


def _warnings(job: Job) -> tuple[str, ...]:
    names = sorted({n for role in job.spec.roles for n in role.env if looks_secret(n)})
    return tuple(
        f"env {name} looks like a secret: it is stored as it is and shown masked" for name in names
    )
