"""The HTTP client: paths, problems, streams. Knows wire types, not the scheduler."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit

import httpx2
from pydantic import JsonValue, TypeAdapter, ValidationError

from api.problems import Problem
from cli.config import Context
from cli.failures import CommandError, ServerError, UnreachableError

TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
STREAM_SILENCE_MAX_S = 60.0
"""A watch has a heartbeat every 15 s; one that is silent for longer is dead."""

Parameters = Mapping[str, str | int | bool | None]
JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file, as the user wrote it."""

    text: str
    """Padded with empty lines, so that the server counts lines as the file does."""
    media_type: str
    source: str
    """Name of the file, or `-` for stdin."""
    name: str = ""
    """`metadata.name`, empty if it could not be read."""
    project: str = ""
    kind: str = ""
    """As the document says; empty if it says none."""


_JSON_OBJECT: TypeAdapter[JsonObject] = TypeAdapter(JsonObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A list as the server gives it."""

    items: list[JsonValue]
    """Not looked into again: whatever came off the wire is JSON, and there may be thousands."""
    answer: JsonObject
    """All of it."""


def is_segment(name: str) -> bool:
    """Whether the name can be a part of a path: others would make it another path."""
    return name not in ("", ".", "..") and "/" not in name


def segment(noun: str, name: str) -> str:
    """The name as a part of a path. Raises CommandError for one that can not be one."""
    if not is_segment(name):
        raise CommandError(
            f"no {noun} is named {name!r}" if name else f"the name of a {noun} is empty",
            reason="InvalidName",
            way_out=f"dally get {noun}s",
        )
    return quote(name, safe="")


def _address(server: str) -> str:
    """The address without a slash at its end. Raises CommandError if it is none."""
    try:
        parts = urlsplit(server)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or not server.isprintable() or " " in server:
        raise _no_address(server, "it has to begin with http:// or https:// and name a host")
    return server.rstrip("/")


def _no_address(server: str, detail: str) -> CommandError:
    return CommandError(
        f"{server!r} is not a server address: {detail}",
        reason="InvalidServer",
        way_out="--server http://HOST:PORT",
    )


def _headers(token: str) -> dict[str, str]:
    """Raises CommandError for a token that no header can carry; it is not shown."""
    headers = {"Accept": "application/json, application/problem+json"}
    if token:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise CommandError(
                "the token has characters that no token has",
                reason="InvalidToken",
                way_out="dally config set-context NAME --server URL --token TOKEN",
            )
        headers["Authorization"] = f"Bearer {token}"
    return headers


class Client:
    """Talks to one server as one caller. Close it, or use it in a `with`."""

    def __init__(self, context: Context) -> None:
        self.project = context.project
        self.server = _address(context.server)
        headers = _headers(context.token)
        try:
            self._http = httpx2.Client(
                base_url=self.server,
                headers=headers,
                timeout=httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
                # Reading the certificates takes a tenth of a second, and plain HTTP shows none.
                verify=not self.server.startswith("http://"),
            )
        except (httpx2.InvalidURL, ValueError) as error:
            raise _no_address(context.server, str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def job_path(self, name: str, *more: str, project: str | None = None) -> str:
        """Path of a job or of something below it."""
        return "/".join((self.jobs_path(project), segment("job", name), *more))

    def jobs_path(self, project: str | None = None) -> str:
        """Path of a project's jobs."""
        return f"/api/v1/projects/{segment('project', project or self.project)}/jobs"

    def profiles_path(self, name: str = "", *, project: str | None = None) -> str:
        """Path of a project's model profiles, or of one of them."""
        path = f"/api/v1/projects/{segment('project', project or self.project)}/profiles"
        return f"{path}/{segment('profile', name)}" if name else path

    def get(self, path: str, parameters: Parameters | None = None) -> JsonObject:
        """GET a JSON object. Raises ServerError, UnreachableError."""
        return self.send("GET", path, parameters=parameters)

    def listed(self, path: str, parameters: Parameters | None = None) -> Listed:
        """GET a list."""
        answer = self.get(path, parameters)
        items = answer.get("items", [])
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._foreign("a list")
        return Listed(items=items, answer=answer)

    def send(
        self,
        method: str,
        path: str,
        *,
        parameters: Parameters | None = None,
        body: JsonValue = None,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """Any request with a JSON answer; an empty answer is an empty object."""
        return self.exchange(method, path, parameters=parameters, body=body, headers=headers)[1]

    def exchange(
        self,
        method: str,
        path: str,
        *,
        parameters: Parameters | None = None,
        body: JsonValue = None,
        document: Document | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, JsonObject]:
        """Like `send`, with the HTTP status; the body may be a document as the user wrote it."""
        sent = dict(headers or {})
        if document is not None:
            sent["Content-Type"] = document.media_type
        with self._reaching():
            response = self._http.request(
                method,
                path,
                params=_present(parameters),
                json=body,
                content=None if document is None else document.text.encode(),
                headers=sent,
            )
        if response.is_success:
            return response.status_code, self._object(response) if response.content else {}
        raise ServerError(self._problem(response))

    @contextmanager
    def stream(self, path: str, parameters: Parameters | None = None) -> Iterator[Iterator[bytes]]:
        """GET a stream of bytes as they come."""
        # A worker may write nothing for hours, and plain text has no heartbeat.
        silence_max_s = None if path.endswith("/logs") else STREAM_SILENCE_MAX_S
        timeout = httpx2.Timeout(silence_max_s, connect=CONNECT_TIMEOUT_S)
        headers = {"Accept": "application/x-ndjson, text/plain, application/problem+json"}
        with (
            self._reaching(),
            self._http.stream(
                "GET", path, params=_present(parameters), headers=headers, timeout=timeout
            ) as response,
        ):
            if not response.is_success:
                response.read()
                raise ServerError(self._problem(response))
            yield response.iter_raw()

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx2.TransportError as error:
            raise UnreachableError(
                f"no answer from {self.server}: {error}",
                reason="ServerUnreachable",
                way_out="start one with: dallyd serve",
            ) from error

    def _object(self, response: httpx2.Response) -> JsonObject:
        try:
            return _JSON_OBJECT.validate_json(response.content)
        except ValidationError as error:
            raise self._foreign(str(response.status_code)) from error

    def _problem(self, response: httpx2.Response) -> Problem:
        try:
            problem = Problem.model_validate_json(response.content)
        except ValidationError as error:
            raise self._foreign(str(response.status_code)) from error
        if problem.type.startswith("/"):
            problem = problem.model_copy(update={"type": self.server + problem.type})
        return problem

    def _foreign(self, answer: str) -> CommandError:
        return CommandError(
            f"{self.server} answered {answer} with something Dally does not say",
            reason="NotADallyServer",
            way_out="dally config get-contexts",
        )


def _present(parameters: Parameters | None) -> dict[str, str | int]:
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in (parameters or {}).items()
        if value is not None
    }
