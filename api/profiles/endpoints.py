"""Routes of model profiles: the built-in ones, and what projects add, change and remove."""

from collections.abc import Iterable, Iterator
from http import HTTPStatus

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies import JobFileBody
from api.dependencies import CallerOf, Services, ServicesOf
from api.description import body_of
from api.jobs.finding import NamePath, ProjectPath, find_project
from api.parameters import DryRun
from api.profiles.files import ProfileFile
from api.profiles.mapping import to_model, to_profile
from api.profiles.schemas import ProfileList, ProfileView
from api.replies import audit_row, model_response
from scheduler.control.profiling import known_models, profile_of_job, project_models
from scheduler.domain.communication import ModelProfile
from scheduler.domain.errors import InvalidSpecError, NotFoundError, SpecProblem
from scheduler.domain.ids import JobName, ProjectName
from scheduler.ports.unit import DeleteProfile, SaveProfile, Unit

router = APIRouter(prefix="/api/v1", tags=["profiles"])


@router.get("/profiles", operation_id="listBuiltInProfiles", response_model=ProfileList)
def list_built_in_profiles(_: CallerOf) -> Response:
    """The models that ship with the service."""
    return _listed(known_models().values())


@router.get("/profiles/{name}", operation_id="getBuiltInProfile", response_model=ProfileView)
def get_built_in_profile(name: NamePath, _: CallerOf) -> Response:
    """One model that ships with the service."""
    return _shown(known_models().get(name), name)


@router.get("/projects/{project}/profiles", operation_id="listProfiles", response_model=ProfileList)
def list_profiles(project: ProjectPath, services: ServicesOf, caller: CallerOf) -> Response:
    """The models that job files of the project may name in `communication.model`."""
    owner = find_project(services, caller, project).name
    return _listed(project_models(services.store, owner).values())


@router.get(
    "/projects/{project}/profiles/{name}", operation_id="getProfile", response_model=ProfileView
)
def get_profile(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf
) -> Response:
    """One model that job files of the project may name."""
    owner = find_project(services, caller, project).name
    return _shown(project_models(services.store, owner).get(name), name)


@router.put(
    "/projects/{project}/profiles/{name}",
    operation_id="applyProfile",
    response_model=ProfileView,
    responses={HTTPStatus.CREATED: {"model": ProfileView}},
    openapi_extra=body_of(ProfileFile, is_yaml_too=True),
)
def apply_profile(
    *,
    project: ProjectPath,
    name: NamePath,
    body: JobFileBody,
    services: ServicesOf,
    caller: CallerOf,
    dry_run: DryRun = None,
) -> Response:
    """Make or replace a profile of the project: from numbers, or from a job that has ended.

    Jobs that were submitted before keep the numbers they had.
    """
    owner = find_project(services, caller, project).name
    file = body.read(ProfileFile)
    found = tuple(_problems(file, name, owner))
    if found:
        raise InvalidSpecError(found)
    model = to_model(name, file.spec, _from_job(services, owner, name, file))
    is_new = all(own.name != name for own in services.store.profiles(owner))
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    if dry_run is not None:
        return model_response(to_profile(model), HTTPStatus.OK)
    row = audit_row(
        body.request,
        caller,
        verb="apply",
        target=f"{owner}/profiles/{name}",
        at=services.clock.now(),
        outcome=status,
    )
    services.store.write(Unit(changes=(SaveProfile(project=owner, profile=model), row)))
    services.catalogue.forget()
    return model_response(to_profile(model), status)


@router.delete(
    "/projects/{project}/profiles/{name}",
    operation_id="deleteProfile",
    status_code=HTTPStatus.NO_CONTENT,
    response_class=Response,
)
def delete_profile(
    project: ProjectPath,
    name: NamePath,
    services: ServicesOf,
    caller: CallerOf,
    request: Request,
) -> Response:
    """Remove a profile of the project; a built-in one of its name is seen again."""
    owner = find_project(services, caller, project).name
    row = audit_row(
        request,
        caller,
        verb="delete",
        target=f"{owner}/profiles/{name}",
        at=services.clock.now(),
        outcome=HTTPStatus.NO_CONTENT,
    )
    services.store.write(Unit(changes=(DeleteProfile(project=owner, name=name), row)))
    services.catalogue.forget()
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _listed(models: Iterable[ModelProfile]) -> Response:
    return model_response(ProfileList(items=[to_profile(model) for model in models]))


def _shown(model: ModelProfile | None, name: str) -> Response:
    if model is None:
        raise NotFoundError("profile", name)
    return model_response(to_profile(model))


def _problems(file: ProfileFile, name: str, project: ProjectName) -> Iterator[SpecProblem]:
    metadata, spec = file.metadata, file.spec
    if metadata.name != name:
        detail = f'must be "{name[:80]}", as in the path'
        yield SpecProblem(pointer="/metadata/name", reason="InvalidValue", detail=detail)
    if metadata.project not in (None, project):
        detail = f'must be "{project}", as in the path'
        yield SpecProblem(pointer="/metadata/project", reason="ProjectMismatch", detail=detail)
    if spec.from_job is not None:
        return
    if spec.parameters is None:
        detail = "is needed without fromJob"
        yield SpecProblem(pointer="/spec/parameters", reason="MissingField", detail=detail)
    if not spec.timings:
        detail = "needs at least one measured step without fromJob"
        yield SpecProblem(pointer="/spec/timings", reason="MissingField", detail=detail)


def _from_job(
    services: Services, project: ProjectName, name: str, file: ProfileFile
) -> ModelProfile | None:
    """What the job that the file names has taught; None if it names none."""
    if file.spec.from_job is None:
        return None
    try:
        job = services.store.job(project, JobName(file.spec.from_job))
    except NotFoundError:
        raise _no_such_run(f'there is no job "{file.spec.from_job}" in the project') from None
    if not job.phase.is_terminal:
        raise _no_such_run(f"the job has not ended, it is {job.phase}")
    found = profile_of_job(services.store, job, name, services.cluster.distances())
    if found is None:
        detail = "no step of the job was measured on GPUs that the cluster has"
        raise _no_such_run(detail)
    return found


def _no_such_run(detail: str) -> InvalidSpecError:
    problem = SpecProblem(pointer="/spec/fromJob", reason="InvalidValue", detail=detail)
    return InvalidSpecError((problem,))
