"""Routes of step times: sensitivity of a job, estimate of a job file."""

from fastapi import APIRouter
from starlette.responses import Response

from api.bodies import JobFileBody
from api.dependencies import CallerOf, ServicesOf
from api.description import body_of
from api.distance.mapping import to_sensitivities
from api.distance.schemas import SensitivityList
from api.job_files.schemas import JobFile
from api.jobs.finding import NamePath, ProjectPath, find_job
from api.jobs.submitting import unstored_job
from api.replies import model_response
from scheduler.control.estimating import job_estimates
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
    job = unstored_job(services, caller, ProjectName(project), body)
    return model_response(to_sensitivities(services.cluster.distances().estimates(job.spec)))
