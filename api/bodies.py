"""Bodies of requests: read in the event loop up to the limit, parsed in a worker thread."""

import hashlib
from dataclasses import dataclass
from email.message import Message
from itertools import islice
from typing import Annotated, TypeVar

from anyio import fail_after
from fastapi import Depends
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from api.dependencies import Services
from api.documents.document import BYTES_MAX, Document, body_problems
from api.documents.reading import JSON_TYPES, YAML_TYPES, read_document
from api.errors import RequestError
from api.job_files.validation import PROBLEMS_MAX, problems
from api.wire import Wire
from scheduler.domain.errors import InvalidSpecError

WireT = TypeVar("WireT", bound=Wire)


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes of a body, not parsed yet."""

    data: bytes
    is_yaml: bool
    request: Request

    @property
    def sha256(self) -> str:
        """Tells one body from another."""
        return hashlib.sha256(self.data).hexdigest()

    def document(self) -> Document:
        """The body as plain values. Raises MalformedError."""
        document = read_document(self.data, is_yaml=self.is_yaml)
        # Error answers look up the lines of what is wrong here.
        self.request.state.document = document
        return document

    def read(self, model: type[WireT]) -> WireT:
        """The body as `model`; an empty one is a model of defaults. Raises InvalidSpecError."""
        if not self.data.strip():
            value: object = {}
        else:
            document = self.document()
            found = tuple(islice(body_problems(document.value), PROBLEMS_MAX))
            if found:
                raise InvalidSpecError(found)
            value = document.value
        try:
            return model.model_validate(value, by_alias=True, by_name=False)
        except ValidationError as error:
            raise InvalidSpecError(problems(error, model)) from error


async def _json_body(request: Request) -> Body:
    return Body(await _read(request, JSON_TYPES), is_yaml=False, request=request)


async def _job_file_body(request: Request) -> Body:
    data = await _read(request, JSON_TYPES | YAML_TYPES)
    return Body(data, is_yaml=_media_type(request) in YAML_TYPES, request=request)


JsonBody = Annotated[Body, Depends(_json_body)]
JobFileBody = Annotated[Body, Depends(_job_file_body)]


async def _read(request: Request, types: frozenset[str]) -> bytes:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise RequestError("UnsupportedMediaType", "compressed bodies are not read")
    services: Services = request.app.state.services
    limit_s = services.limits.body_seconds_max
    data = bytearray()
    try:
        with fail_after(limit_s):
            async for chunk in request.stream():
                if len(data) + len(chunk) > BYTES_MAX:
                    raise too_large()
                data += chunk
    except ClientDisconnect as error:
        raise RequestError("MalformedBody", "the body ends early") from error
    except TimeoutError as error:
        detail = f"the body was not whole after {limit_s:g} s"
        raise RequestError("BodyTooSlow", detail, headers={"Connection": "close"}) from error
    if data and _media_type(request) not in types:
        given = request.headers.get("content-type", "none")[:80]
        wanted = ", ".join(sorted(types))
        detail = f"the body's media type is {given!r}; this path reads {wanted}"
        raise RequestError("UnsupportedMediaType", detail)
    return bytes(data)


def too_large() -> RequestError:
    """A body over the limit; the rest of it is not read, so the connection ends."""
    detail = f"the body is larger than {BYTES_MAX} bytes"
    return RequestError("BodyTooLarge", detail, headers={"Connection": "close"})


def _media_type(request: Request) -> str:
    message = Message()
    message["content-type"] = request.headers.get("content-type", "")
    charset = message.get_param("charset", "utf-8")
    if str(charset).lower() not in ("utf-8", "utf8", "us-ascii"):
        raise RequestError("UnsupportedMediaType", "bodies are read as UTF-8")
    return message.get_content_type() if request.headers.get("content-type") else ""
