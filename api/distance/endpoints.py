"""Routes of step times: sensitivity of a job, estimate of a job file, known models."""

from fastapi import APIRouter
from starlette.responses import Response

from api.bodies import JobFileBody
from api.dependencies import CallerOf, ServicesOf
from api.description import body_of
from api.distance.mapping import to_profile, to_sensitivities
from api.distance.schemas import ProfileList, ProfileView, SensitivityList
from api.job_files.schemas import JobFile
from api.jobs.finding import NamePath, ProjectPath, find_job
from api.jobs.submitting import Submission, checked_job
from api.replies import model_response
from scheduler.control.estimating import job_estimates, known_models
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import ProjectName

router = APIRouter(prefix="/api/v1", tags=["distance"])


@router.get(
    "/projects/{project}/jobs/{name}/sensitivity",
    operation_id="getJobSensitivity",
    response_model=SensitivityList,
)
def get_job_sensitivity(
    project: ProjectPath, name: NamePath, services: ServicesOf, caller: CallerOf
) -> Response:
    """Step times of a job at every level of the topology: predicted and measured."""
    job = find_job(services, caller, project, name)
    found = job_estimates(services.store, job, services.cluster.distances())
    return model_response(to_sensitivities(found))


@router.post(
    "/projects/{project}/estimate",
    operation_id="estimateJob",
    response_model=SensitivityList,
    openapi_extra=body_of(JobFile, is_yaml_too=True),
)
def estimate_job(
    project: ProjectPath, body: JobFileBody, services: ServicesOf, caller: CallerOf
) -> Response:
    """Step times that a job file would see at every level; nothing is stored."""
    caller.require(ProjectName(project))
    submission = Submission(
        services=services,
        caller=caller,
        project=ProjectName(project),
        body=body,
        key=None,
        is_dry_run=True,
    )
    job, _ = checked_job(submission, body.document())
    return model_response(to_sensitivities(services.cluster.distances().estimates(job.spec)))


@router.get("/profiles", operation_id="listProfiles", response_model=ProfileList)
def list_profiles(_: CallerOf) -> Response:
    """The models that a job file may name in `communication.model`."""
    return model_response(ProfileList(items=[to_profile(m) for m in known_models().values()]))


@router.get("/profiles/{name}", operation_id="getProfile", response_model=ProfileView)
def get_profile(name: NamePath, _: CallerOf) -> Response:
    """One known model."""
    model = known_models().get(name)
    if model is None:
        raise NotFoundError("profile", name)
    return model_response(to_profile(model))
