"""Time as whole microseconds: a point (Instant) and a length (Duration), two distinct types."""

from typing import NewType

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00Z (live) or since the start of a run (simulator)."""

Duration = NewType("Duration", int)
"""A length of time in microseconds."""

SECOND = Duration(1_000_000)
MINUTE = Duration(60 * SECOND)
HOUR = Duration(60 * MINUTE)
DAY = Duration(24 * HOUR)


def seconds(amount: float) -> Duration:
    """Duration of `amount` seconds, rounded to the nearest microsecond."""
    return Duration(round(amount * SECOND))


def in_seconds(duration: Duration) -> float:
    """`duration` as seconds."""
    return duration / SECOND


def after(start: Instant, duration: Duration) -> Instant:
    """The instant `duration` after `start`."""
    return Instant(start + duration)


def elapsed(start: Instant, now: Instant) -> Duration:
    """Time from `start` to `now`, at least zero: clocks of different machines may disagree."""
    return Duration(max(0, now - start))
