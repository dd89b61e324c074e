"""The route of projects."""

from fastapi import APIRouter

from api.dependencies import CallerOf, ServicesOf
from api.projects.schemas import ProjectList, ProjectView

router = APIRouter(prefix="/api/v1", tags=["projects"])


@router.get("/projects", operation_id="listProjects")
def list_projects(services: ServicesOf, caller: CallerOf) -> ProjectList:
    """Projects the caller may see, by name."""
    return ProjectList(
        items=[
            ProjectView(name=project.name, queues=list(project.queues))
            for project in services.store.projects()
            if caller.may_see(project.name)
        ]
    )
