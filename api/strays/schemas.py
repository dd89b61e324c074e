"""What the server says about strays."""

from api.wire import API_VERSION, Reply


class StrayView(Reply):
    """One gang that the cluster has and the database does not know."""

    id: str
    """`JOB/ATTEMPT`: the uid of its job and the number of the attempt."""
    job: str
    attempt: int
    project: str | None = None
    """As the cluster says, if it does."""
    name: str | None = None
    reason: str
    """`NewerTerm`, `NewerJob` and `NewerAttempt` show that the database is older than the cluster,
    `Unknown` shows nothing."""
    message: str
    term: int
    """Leadership term that made it."""
    workers: int
    workers_alive: int
    nodes: list[str]
    since: str
    order: str | None = None
    """`Adopt` or `Release`, once an admin has said so."""
    problem: str | None = None
    """Why the order could not be carried out yet."""


class StrayList(Reply):
    """All strays."""

    api_version: str = API_VERSION
    kind: str = "StrayList"
    items: list[StrayView]
    safe_mode: str = ""
    """Why nothing is started or stopped; empty while all is normal."""
