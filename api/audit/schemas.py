"""What the server says about audit rows."""

from api.wire import API_VERSION, Reply


class AuditView(Reply):
    """One change that somebody ordered, or was refused."""

    time: str
    principal: str
    token_id: str
    source: str
    """Address the request came from."""
    verb: str
    target: str
    outcome: int
    """HTTP status of the answer."""
    request_id: str


class AuditList(Reply):
    """The newest audit rows, newest first."""

    api_version: str = API_VERSION
    kind: str = "AuditList"
    items: list[AuditView]
