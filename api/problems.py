"""Wire type of everything that goes wrong (RFC 9457)."""

from pydantic import Field

from api.wire import Reply


class ProblemEntry(Reply):
    """One broken rule of a request."""

    pointer: str
    """JSON pointer of the offending value in the body."""
    detail: str
    reason: str
    line: int | None = None
    """Line of the value in a YAML body, counted from 1."""
    column: int | None = None


class Problem(Reply):
    """The body of every answer that is not 2xx."""

    type: str
    """Where the reason is explained."""
    title: str
    status: int
    detail: str
    instance: str
    """Path of the request; of a very long one its beginning."""
    reason: str
    """Stable CamelCase code."""
    remedy: str
    """What helps."""
    errors: list[ProblemEntry] = Field(default_factory=list)
    request_id: str
