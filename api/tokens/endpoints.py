"""Routes of tokens: list, make, revoke (admins), and who the caller is (everybody)."""

from dataclasses import replace
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from api.bodies import JsonBody
from api.callers import new_secret, secret_hash
from api.dependencies import AdminOf, CallerOf, Services, ServicesOf
from api.description import body_of
from api.replies import audit_row, model_response
from api.times import render_instant, render_optional
from api.tokens.schemas import CallerView, NewTokenView, TokenList, TokenRequest, TokenView
from scheduler.domain.errors import InvalidSpecError, NotFoundError, SpecProblem
from scheduler.domain.ids import ProjectName
from scheduler.domain.instants import after
from scheduler.domain.quantities import parse_duration
from scheduler.ports.unit import SaveToken, Token, Unit

router = APIRouter(prefix="/api/v1", tags=["tokens"])


@router.get("/whoami", operation_id="whoami")
async def whoami(caller: CallerOf) -> CallerView:
    """Who the caller is and where it may act."""
    return CallerView(name=caller.name, admin=caller.is_admin, projects=list(caller.projects))


@router.get("/tokens", operation_id="listTokens")
def list_tokens(services: ServicesOf, _admin: AdminOf) -> TokenList:
    """All tokens, without their secrets. Admins only."""
    return TokenList(items=[_to_view(token) for token in services.given.accounts.tokens()])


@router.post(
    "/tokens",
    operation_id="createToken",
    status_code=HTTPStatus.CREATED,
    response_model=NewTokenView,
    openapi_extra=body_of(TokenRequest),
)
def create_token(services: ServicesOf, admin: AdminOf, body: JsonBody) -> Response:
    """Make a token. Its secret is in this answer and nowhere else. Admins only."""
    asked = body.read(TokenRequest)
    _check(services, asked)
    now = services.clock.now()
    secret = new_secret()
    token = Token(
        id=services.given.new_id(),
        name=asked.name,
        secret_sha256=secret_hash(secret),
        is_admin=asked.admin,
        projects=tuple(ProjectName(project) for project in asked.projects),
        created_at=now,
        expires_at=after(now, parse_duration(asked.expires_in)),
    )
    row = audit_row(
        body.request,
        admin,
        verb="create",
        target=f"tokens/{token.id}",
        at=now,
        outcome=HTTPStatus.CREATED,
    )
    services.store.write(Unit(changes=(SaveToken(token=token), row)))
    view = NewTokenView(**_to_view(token).model_dump(), token=secret)
    return model_response(view, HTTPStatus.CREATED)


@router.delete("/tokens/{token_id}", operation_id="revokeToken")
def revoke_token(
    token_id: Annotated[str, Path(max_length=64)],
    services: ServicesOf,
    admin: AdminOf,
    request: Request,
) -> TokenView:
    """Revoke a token: at once here, within seconds on other replicas. Admins only."""
    token = _token(services, token_id)
    now = services.clock.now()
    revoked = replace(token, is_revoked=True)
    row = audit_row(
        request,
        admin,
        verb="revoke",
        target=f"tokens/{token.id}",
        at=now,
        outcome=HTTPStatus.OK,
    )
    services.store.write(Unit(changes=(SaveToken(token=revoked), row)))
    services.callers.forget()
    return _to_view(revoked)


def _token(services: Services, token_id: str) -> Token:
    for token in services.given.accounts.tokens():
        if token.id == token_id:
            return token
    raise NotFoundError("token", token_id)


def _check(services: Services, asked: TokenRequest) -> None:
    known = {project.name for project in services.store.projects()}
    found = [
        SpecProblem(
            pointer=f"/projects/{i}",
            reason="UnknownProject",
            detail=f'there is no project "{name[:80]}"',
        )
        for i, name in enumerate(asked.projects)
        if name not in known
    ]
    if asked.admin == bool(asked.projects):
        detail = "must be given unless the token is for an admin, and only then"
        found.append(SpecProblem(pointer="/projects", reason="InvalidValue", detail=detail))
    if found:
        raise InvalidSpecError(tuple(found))


def _to_view(token: Token) -> TokenView:
    return TokenView(
        id=token.id,
        name=token.name,
        admin=token.is_admin,
        projects=list(token.projects),
        create_time=render_instant(token.created_at),
        expire_time=render_optional(token.expires_at),
        is_revoked=token.is_revoked,
    )
