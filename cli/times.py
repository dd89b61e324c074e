"""Times for people: ages in tables, spans on flags."""

import math
import re
import time
from datetime import UTC, datetime

from cli.failures import CommandError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_STEPS = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))
TWO_UNITS_BELOW = 10


def span_s(text: str) -> float:
    """Seconds in `90s`, `10m`, `1h30m` or `2d`. Raises CommandError."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise CommandError(
            f"{text!r} is not a length of time",
            reason="InvalidDuration",
            way_out="write for instance 90s, 10m, 1h30m or 2d",
        )
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def now() -> datetime:
    """The present time."""
    return datetime.now(UTC)  # noqa: TID251 - the client's own clock, for ages only


def ticks_s() -> float:
    """Seconds on a clock that never jumps, for timeouts."""
    return time.monotonic()  # noqa: TID251 - the client's own clock


def pause(length_s: float) -> None:
    """Wait before the next look at the server."""
    time.sleep(length_s)  # noqa: TID251 - the client is a driver: it waits


def parse(text: str) -> datetime:
    """A time as the server writes it."""
    return datetime.fromisoformat(text)


def age(text: str | None, *, at: datetime | None = None) -> str:
    """How long ago that was, in at most two units: `45s`, `3m10s`, `2d4h`."""
    if not text:
        return ""
    return brief(max(0.0, ((at or now()) - parse(text)).total_seconds()))


def to_the_second(text: str | None) -> str:
    """A time as people read it: UTC, without fractions of a second."""
    return parse(text).strftime("%Y-%m-%dT%H:%M:%SZ") if text else ""


def fine(seconds: float) -> str:
    """A step's length in three digits: `0.51ms`, `23.4ms`, `1.23s`, `1234s`."""
    number, unit = (seconds * 1e3, "ms") if seconds < 1 else (seconds, "s")
    digits = max(0, 2 - math.floor(math.log10(number))) if number > 0 else 0
    return f"{number:.{min(digits, 3)}f}{unit}"


def brief(seconds: float) -> str:
    """A length of time in at most two units."""
    whole = int(seconds)
    for size, unit, smaller_size, smaller_unit in _STEPS:
        count, rest = divmod(whole, size)
        if count:
            smaller = rest // smaller_size
            is_coarse = count >= TWO_UNITS_BELOW or not smaller
            return f"{count}{unit}" if is_coarse else f"{count}{unit}{smaller}{smaller_unit}"
    return f"{whole}s"
