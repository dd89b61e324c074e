"""Requests to an API server as plain JSON: under a budget, with time limits, counted by outcome.

Nothing is repeated here except what a new token mends: whether to try again, and what a lost answer
means, is the business of who asked.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import cast
from urllib.parse import urlencode

import urllib3

from scheduler.adapters.kubernetes.access import Access, Session
from scheduler.adapters.kubernetes.budget import Budget
from scheduler.adapters.kubernetes.errors import (
    Abandoned,
    ApiFailure,
    Throttled,
    Unavailable,
    failure_of,
)
from scheduler.adapters.kubernetes.objects import JsonObject
from scheduler.domain.codec import DecodeError, load

CONNECT_S_MAX = 5.0
ANSWER_S_MAX = 30.0
LINE_BYTES_MAX = 1 << 24
"""Far above any object; a program may write without ever ending a line."""
JSON = "application/json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_UNAUTHORIZED, _FIRST_ERROR = 401, 400


class ApiServer:
    """One API server."""

    def __init__(
        self,
        access: Access,
        budget: Budget,
        *,
        may_write: Callable[[], bool] = lambda: True,
        answer_s_max: float = ANSWER_S_MAX,
        on_answer: Callable[[str, str], None] = lambda _method, _outcome: None,
    ) -> None:
        """`may_write` is asked before each write: a leader that is none any more must not.
        `on_answer` is told method and outcome of each request."""
        self._access = access
        self._budget = budget
        self._may_write = may_write
        self._answer_s_max = answer_s_max
        self._on_answer = on_answer
        self._session = Session(access)
        self._past_sessions: list[Session] = []
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, str]] = Counter()
        """Answers so far by method and outcome."""

    def get(self, path: str, query: Mapping[str, str] | None = None) -> JsonObject:
        """An object or a list. Raises ApiFailure."""
        return self._object("GET", path, query=query)

    def create(self, path: str, body: JsonObject) -> JsonObject:
        """Make an object; answers it as it was made. Raises ApiFailure."""
        return self._object("POST", path, body)

    def patch(self, path: str, body: JsonObject) -> JsonObject:
        """Merge into an object; answers it as it is then. Raises ApiFailure."""
        return self._object("PATCH", path, body, kind=STRATEGIC_PATCH)

    def delete(self, path: str, options: JsonObject) -> None:
        """Delete an object. Raises ApiFailure."""
        self._object("DELETE", path, options)

    def read(self, path: str, query: Mapping[str, str]) -> bytes:
        """What is no object, e.g. a log. Raises ApiFailure."""
        return self._answer("GET", path, query=query)

    @contextmanager
    def stream(
        self, path: str, query: Mapping[str, str], *, silence_s_max: float
    ) -> Iterator["Stream"]:
        """Bytes as they come; a silence that is too long ends it. Raises ApiFailure."""
        response = self._send("GET", path, query=query, silence_s_max=silence_s_max)
        try:
            with closing(response):
                yield Stream(response)
        finally:
            response.release_conn()

    def close(self) -> None:
        """Let the connections go, and whoever waits to ask."""
        self._budget.close()
        for session in (*self._past_sessions, self._session):
            session.close()

    def _object(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        kind: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> JsonObject:
        answer = self._answer(method, path, body, kind=kind, query=query)
        try:
            return cast("JsonObject", load(answer.decode()))
        except (DecodeError, UnicodeDecodeError) as error:
            raise Unavailable(f"an answer that is no JSON: {error}") from error

    def _answer(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        kind: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        response = self._send(method, path, body, kind=kind, query=query)
        try:
            return bytes(response.data)
        except urllib3.exceptions.HTTPError as error:
            self._note(method, Unavailable(f"the answer broke off: {error}"))
            raise Unavailable(f"the answer broke off: {error}") from error

    def _send(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        kind: str = JSON,
        query: Mapping[str, str] | None = None,
        silence_s_max: float | None = None,
    ) -> urllib3.HTTPResponse:
        """The answer with its body unread, once it is a good one. Raises ApiFailure."""
        self._budget.take()
        if method != "GET" and not self._may_write():
            raise Abandoned("this server does not lead any more")
        url = f"{path}?{urlencode(query)}" if query else path
        session = self._session
        response = self._ask(session, method, url, body, kind=kind, silence_s_max=silence_s_max)
        if response.status == _UNAUTHORIZED:
            # The token may have been changed since it was read: once more with what is there now.
            response.drain_conn()
            session = self._renewed(session)
            response = self._ask(session, method, url, body, kind=kind, silence_s_max=silence_s_max)
        if response.status >= _FIRST_ERROR:
            failure = failure_of(
                response.status, bytes(response.data), response.headers.get("Retry-After")
            )
            self._note(method, failure)
            raise failure
        self._note(method, None)
        return response

    def _ask(
        self,
        session: Session,
        method: str,
        url: str,
        body: JsonObject | None,
        *,
        kind: str,
        silence_s_max: float | None,
    ) -> urllib3.HTTPResponse:
        headers = session.headers()
        if body is not None:
            headers["Content-Type"] = kind
        try:
            response = session.pool.request(
                method,
                session.url + url,
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=urllib3.Timeout(
                    connect=CONNECT_S_MAX, read=silence_s_max or self._answer_s_max
                ),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            return cast("urllib3.HTTPResponse", response)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            failure = Unavailable(f"no answer: {error}")
            self._note(method, failure)
            raise failure from error

    def _renewed(self, stale: Session) -> Session:
        with self._lock:
            if self._session is stale:
                self._past_sessions.append(stale)
                self._session = Session(self._access)
            return self._session

    def _note(self, method: str, failure: ApiFailure | None) -> None:
        outcome = type(failure).__name__ if failure else "Done"
        with self._lock:
            self.counts[method, outcome] += 1
        self._on_answer(method, outcome)
        if isinstance(failure, Throttled):
            self._budget.note_throttled(failure.retry_after_s)
        elif isinstance(failure, Unavailable):
            self._budget.note_failure()
        else:
            self._budget.note_answer()


class Stream:
    """An answer that goes on."""

    def __init__(self, response: urllib3.HTTPResponse) -> None:
        self._response = response

    def lines(self) -> Iterator[bytes]:
        """Each line with its newline; the last may have none, also when it was cut off.

        A line longer than `LINE_BYTES_MAX` comes in pieces, without a newline but the last.

        Raises Unavailable when nothing comes for too long or the connection breaks.
        """
        rest = b""
        try:
            for chunk in self._response.stream(1 << 16):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line + b"\n" for line in whole)
                if len(rest) > LINE_BYTES_MAX:
                    yield rest
                    rest = b""
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise Unavailable(f"the stream broke off: {error}") from error
        if rest:
            yield rest

    def abort(self) -> None:
        """From another thread: end it now."""
        # It may have ended by itself at this moment: then there is nothing to shut down.
        with suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()
