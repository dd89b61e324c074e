"""What an API server answers when it does not do what it was asked, by what can be done about it.

* ApiFailure
  + Unavailable      no answer, or one that says nothing of the request: it may have been done
    + Throttled      come again later, and when
  + Refused          the request will not be done as it is: forbidden, invalid, too large
  + Missing          no such object
  + AlreadyThere     an object of that name exists
  + Outdated         the object is another one, or has changed
  + Expired          the version to go on from is not kept any more: list anew
  + Abandoned        we do not act any more: the adapter closes, or leads no longer
"""

from scheduler.adapters.kubernetes.objects import text
from scheduler.domain.codec import DecodeError, Json, load

REASON_BYTES_MAX = 1024
"""Of an answer's text so much is passed on to users."""

_MISSING, _CONFLICT, _GONE, _THROTTLED = 404, 409, 410, 429
_UNAUTHORIZED, _TIMED_OUT, _SERVER_ERROR = 401, 408, 500


class ApiFailure(Exception):  # noqa: N818 - an answer, not an error of ours
    """Root of what can come instead of the wanted answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class Unavailable(ApiFailure):
    """Nobody knows whether it was done."""


class Throttled(Unavailable):
    """Too much at once."""

    def __init__(self, message: str, status: int, *, retry_after_s: float) -> None:
        super().__init__(message, status)
        self.retry_after_s = retry_after_s


class Refused(ApiFailure):
    """The same request will be refused again."""


class Missing(ApiFailure):
    """No such object, or no such namespace."""


class AlreadyThere(ApiFailure):
    """The name is taken."""


class Outdated(ApiFailure):
    """A precondition does not hold."""


class Expired(ApiFailure):
    """Too old to go on from."""


class Abandoned(ApiFailure):
    """The request was not made."""


def failure_of(status: int, body: bytes, retry_after: str | None) -> ApiFailure:
    """What an answer with an error status means."""
    answer = _status_object(body)
    message = text(answer, "message") or f"HTTP {status}"
    message = message.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
    if status == _THROTTLED or (retry_after and status >= _SERVER_ERROR):
        return Throttled(message, status, retry_after_s=_seconds(retry_after))
    if status in (_UNAUTHORIZED, _TIMED_OUT) or status >= _SERVER_ERROR:
        return Unavailable(message, status)
    if status == _MISSING:
        return Missing(message, status)
    if status == _CONFLICT:
        is_name = text(answer, "reason") == "AlreadyExists"
        return AlreadyThere(message, status) if is_name else Outdated(message, status)
    if status == _GONE:
        return Expired(message, status)
    return Refused(message, status)


def _status_object(body: bytes) -> Json:
    try:
        return load(body.decode(errors="replace"))
    except DecodeError:
        return None


def _seconds(retry_after: str | None) -> float:
    return float(retry_after) if retry_after and retry_after.isdecimal() else 1.0
