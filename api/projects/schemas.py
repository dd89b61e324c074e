"""What the server says about projects."""

from api.wire import API_VERSION, Reply


class ProjectView(Reply):
    """One project."""

    name: str
    queues: list[str]
    """Queues its jobs may use; the first is its default."""


class ProjectList(Reply):
    """The projects the caller may see, by name."""

    api_version: str = API_VERSION
    kind: str = "ProjectList"
    items: list[ProjectView]
