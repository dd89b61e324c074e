"""What the server says about tokens, and the body that makes one."""

from typing import Annotated

from pydantic import Field

from api.job_files.scalars import Name, Reference, Time
from api.wire import API_VERSION, Reply, Wire


class TokenRequest(Wire):
    """A token to make."""

    name: Name
    """Who it stands for."""
    admin: bool = False
    """May do everything in every project."""
    projects: Annotated[tuple[Reference, ...], Field(strict=False, max_length=256)] = ()
    """Projects it may act in."""
    expires_in: Time = "90d"
    """Life of the token."""


class TokenView(Reply):
    """One token, without its secret."""

    id: str
    name: str
    admin: bool
    projects: list[str]
    create_time: str
    expire_time: str | None = None
    is_revoked: bool


class NewTokenView(TokenView):
    """A token just made: the only time its secret is shown."""

    token: str


class TokenList(Reply):
    """All tokens, oldest first."""

    api_version: str = API_VERSION
    kind: str = "TokenList"
    items: list[TokenView]


class CallerView(Reply):
    """Who the caller is."""

    api_version: str = API_VERSION
    kind: str = "Caller"
    name: str
    admin: bool
    projects: list[str]
    """Empty for an admin, who may act in all."""
