"""Query parameters of several routes, and the refusal of those that a route does not know.

A typo must not widen a list.
"""

from typing import Annotated, Literal

from fastapi import Query
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request

from api.errors import RequestError
from api.job_files.validation import nearest

DryRun = Annotated[Literal["All"] | None, Query(alias="dryRun")]
QueueParameter = Annotated[str | None, Query(alias="queue", max_length=253)]


async def refuse_unknown_parameters(request: Request) -> None:
    """Raises RequestError if the query has a name the route does not know, or one twice."""
    query = request.query_params
    if not query:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = sorted(_names(route.dependant))
    seen: set[str] = set()
    for name, _ in query.multi_items():
        if name not in known:
            detail = f"there is no parameter {name[:80]!r}{nearest(name[:80], known)}"
            raise RequestError("InvalidParameter", detail)
        if name in seen:
            raise RequestError("InvalidParameter", f"the parameter {name!r} is given twice")
        seen.add(name)


def _names(dependant: Dependant) -> set[str]:
    names = {field.alias for field in dependant.query_params}
    return names.union(*(_names(inner) for inner in dependant.dependencies))
