"""The outermost layer: an id for each request, who is calling, how often, and no bare failure.

Every path but the public ones needs a known token. That is decided here, before any route, so
that a new route is closed until somebody opens it.
"""

from collections.abc import Mapping
from http import HTTPStatus

import structlog
from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.bodies import too_large
from api.callers import Caller, bearer
from api.dependencies import Services
from api.documents.document import BYTES_MAX
from api.draining import Incoming
from api.errors import (
    RequestError,
    on_bug,
    on_request_error,
    on_scheduler_error,
    too_many_requests,
)
from api.replies import audit_row
from scheduler.domain.errors import SchedulerError
from scheduler.domain.instants import elapsed, in_seconds
from scheduler.ports.unit import Unit

PUBLIC_PATHS = frozenset({"/livez", "/readyz", "/version"})
PUBLIC_PREFIXES = ("/errors/",)
ATTEMPT_PATHS = frozenset({"/api/v1/attempts/progress"})
"""Paths that check the token of an attempt themselves."""

_SECURITY_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
_REQUEST_ID_LENGTH = 12
_TARGET_LENGTH_MAX = 200
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_AUDITED_REFUSALS = frozenset(range(400, 500)) - {429}
"""Not 429: who asks too often shall not make us write each time."""

_log = structlog.get_logger("dally.api")


def is_public(path: str) -> bool:
    """Whether a path may be asked for without a token."""
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES)


class Gate:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        services: Services = scope["app"].state.services
        passage = _Passage(scope, Incoming(scope, receive), send, services)
        try:
            await _admit(scope, services)
            await self._app(scope, passage.incoming.receive, passage.send)
        except Exception as error:  # noqa: BLE001 - the last resort: logged, and told as a 500
            await passage.fail(error)
        finally:
            passage.record()
        if passage.is_refused_change:
            await to_thread.run_sync(passage.audit)


async def _admit(scope: Scope, services: Services) -> None:
    """Let the request pass, with its caller. Raises RequestError."""
    headers = Headers(scope=scope)
    _refuse_body(headers)
    path: str = scope["path"]
    if is_public(path) or path in ATTEMPT_PATHS:
        return
    caller = await _caller(headers, services)
    scope["state"]["caller"] = caller
    if caller.is_admin:
        return
    wait_s = services.rate_limiter.wait_s(caller.token_id, services.clock.now())
    if wait_s > 0:
        raise too_many_requests(wait_s)


async def _caller(headers: Headers, services: Services) -> Caller:
    secret = bearer(headers.get("authorization", ""))
    if secret is not None:
        now = services.clock.now()
        caller = services.callers.cached(secret, now)
        if caller is None:
            caller = await to_thread.run_sync(services.callers.find, secret, now)
        if caller is not None:
            return caller
    detail = "no bearer token was given" if secret is None else "the token is not valid"
    challenge = {"WWW-Authenticate": 'Bearer realm="dally"'}
    raise RequestError("Unauthenticated", detail, headers=challenge)


class _Passage:
    """One request on its way through."""

    def __init__(self, scope: Scope, incoming: Incoming, send: Send, services: Services) -> None:
        self.incoming = incoming
        self._scope = scope
        self._send = send
        self._services = services
        self._started_at = services.clock.now()
        self._status = 0
        self._id = services.given.new_id().replace("-", "")[-_REQUEST_ID_LENGTH:]
        scope.setdefault("state", {})["request_id"] = self._id

    async def send(self, message: Message) -> None:
        """Pass on, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            if self._status >= HTTPStatus.BAD_REQUEST:
                await self.incoming.drain()
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._id
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def fail(self, error: Exception) -> None:
        """Answer an error that no route has answered."""
        request = Request(self._scope)
        if isinstance(error, RequestError):
            response = on_request_error(request, error)
        elif isinstance(error, SchedulerError):
            response = on_scheduler_error(request, error)
        else:
            path = self._scope["path"][:_TARGET_LENGTH_MAX]
            _log.exception("request_failed", request_id=self._id, path=path)
            response = on_bug(request, error)
        if self._status:
            # The answer has begun: it can only be cut off, so that nobody takes it for whole.
            raise error
        await response(self._scope, self.incoming.receive, self.send)

    @property
    def is_refused_change(self) -> bool:
        """Whether a known caller asked for a change and did not get it."""
        return (
            self._scope["method"] in _CHANGING
            and "caller" in self._scope["state"]
            and self._status in _AUDITED_REFUSALS
            and b"dryRun" not in self._scope["query_string"]
        )

    def audit(self) -> None:
        """Leave a row about a refused change; a change that is made leaves its own."""
        caller: Caller = self._scope["state"]["caller"]
        path: str = self._scope["path"]
        row = audit_row(
            Request(self._scope),
            caller,
            verb=_verb(self._scope["method"], path),
            target=path.removeprefix("/api/v1/")[:_TARGET_LENGTH_MAX],
            at=self._services.clock.now(),
            outcome=self._status,
        )
        try:
            self._services.store.write(Unit(changes=(row,)))
        except SchedulerError as error:
            _log.warning("audit_failed", request_id=self._id, error=str(error))

    def record(self) -> None:
        """Tell the metrics."""
        route = self._scope.get("route")
        seconds = in_seconds(elapsed(self._started_at, self._services.clock.now()))
        self._services.given.observe_request(
            route=getattr(route, "path", "unmatched"),
            method=str(self._scope["method"]),
            status=self._status,
            seconds=seconds,
        )


def _verb(method: str, path: str) -> str:
    """What was ordered: the last word of the path where it is one of ours, else the method's."""
    last = path.rsplit("/", 1)[-1]
    if method == "POST" and last in ("cancel", "hold", "release"):
        return last
    return {"POST": "create", "PUT": "apply", "DELETE": "delete"}.get(method, method.lower())


def _refuse_body(headers: Headers) -> None:
    """Raises RequestError for a body that is too large, or whose length is told in two ways."""
    length = headers.get("content-length")
    if length is None:
        return
    if "transfer-encoding" in headers:
        # A proxy in front may have believed the other one, and seen another request than we do.
        detail = "has both a Content-Length and a Transfer-Encoding"
        raise RequestError("MalformedBody", detail, headers={"Connection": "close"})
    if not length.isdecimal() or int(length[:20]) > BYTES_MAX:
        raise too_large()
