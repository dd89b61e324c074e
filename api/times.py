"""Instants on the wire: RFC 3339 in UTC, to the microsecond."""

from datetime import UTC, datetime, timedelta

from scheduler.domain.instants import Instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def render_instant(instant: Instant) -> str:
    """`2026-11-30T08:15:00.25Z`, without trailing zeros."""
    moment = _EPOCH + timedelta(microseconds=instant)
    # `isoformat` is much faster than `strftime`, and a list has thousands of instants.
    text = moment.isoformat().removesuffix("+00:00")
    return f"{text.rstrip('0') if moment.microsecond else text}Z"


def render_optional(instant: Instant | None) -> str | None:
    """As `render_instant`, or None."""
    return None if instant is None else render_instant(instant)
