"""Amounts as people write them: cores (`500m`), bytes (`256Gi`), times (`90s`, `1h30m`)."""

import re
from decimal import Decimal

from scheduler.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration

MILLISECOND = Duration(SECOND // 1000)

CPU_MILLI_MAX = 1_000_000_000
BYTES_MAX = 2**60
DURATION_MAX = Duration(3660 * DAY)

_BYTE_UNITS = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate(("k", "M", "G", "T", "P"), start=1)},
    **{unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)},
}
_TIME_UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND}

_CPUS = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(m?)")
_BYTES = re.compile(r"(\d{1,19}(?:\.\d{1,9})?) ?([kKMGTP]?i?)B?")
_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|[dhms])")


class QuantityError(ValueError):
    """An amount that can not be read; the text says how to write it."""


def parse_cpus(value: object) -> int:
    """Thousandths of a core in `4`, `0.5`, `"500m"` or `"1.5"`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise QuantityError("must be a number of cores: 32, 0.5 or 500m")
    match = _CPUS.fullmatch(str(value))
    if match is None:
        raise QuantityError(f"is not a number of cores: {_shown(value)}; write 32, 0.5 or 500m")
    amount = Decimal(match[1]) * (1 if match[2] else 1000)
    if amount != int(amount):
        raise QuantityError("is finer than a thousandth of a core")
    return _at_most(int(amount), CPU_MILLI_MAX, "cores")


def parse_bytes(value: object) -> int:
    """Bytes in `1048576`, `"102Mi"`, `"3.2Gi"` or `"256GB"`: Ki is 1024, k is 1000."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise QuantityError("must be a number of bytes: 256Gi, 102Mi or 64GB")
    match = _BYTES.fullmatch(str(value))
    unit = match[2] if match else ""
    if unit == "K":
        unit = "k"
    if match is None or unit not in _BYTE_UNITS:
        raise QuantityError(f"is not a number of bytes: {_shown(value)}; write 256Gi or 64GB")
    return _at_most(int(Decimal(match[1]) * _BYTE_UNITS[unit]), BYTES_MAX, "bytes")


def parse_duration(value: object) -> Duration:
    """Time in `"90s"`, `"10m"`, `"24h"`, `"2d"`, `"250ms"` or a sequence of these, `"1h30m"`."""
    if not isinstance(value, str):
        raise QuantityError("must be a time with its unit: 90s, 10m, 24h or 1h30m")
    total, position = Decimal(0), 0
    while match := _TIME.match(value, position):
        total += Decimal(match[1]) * _TIME_UNITS[match[2]]
        position = match.end()
    if not value or position != len(value):
        raise QuantityError(f"is not a time: {_shown(value)}; write 90s, 10m, 24h or 1h30m")
    if total > DURATION_MAX:
        raise QuantityError(f"is more than {DURATION_MAX // DAY}d")
    return Duration(int(total))


def render_cpus(milli: int) -> int | str:
    """Shortest form that `parse_cpus` reads back."""
    return milli // 1000 if milli % 1000 == 0 else f"{milli}m"


def render_bytes(amount: int) -> int | str:
    """Shortest exact form that `parse_bytes` reads back."""
    for unit, size in sorted(_BYTE_UNITS.items(), key=lambda pair: -pair[1]):
        if unit and amount and amount % size == 0:
            return f"{amount // size}{unit}"
    return amount


def render_duration(duration: Duration) -> str:
    """Exact form that `parse_duration` reads back; in hours at most: `24h` reads well."""
    for unit in ("h", "m", "s", "ms"):
        if duration and duration % _TIME_UNITS[unit] == 0:
            return f"{duration // _TIME_UNITS[unit]}{unit}"
    whole, micro = divmod(duration, SECOND)
    return f"{whole}.{micro:06d}s" if micro else f"{whole}s"


def _at_most(amount: int, limit: int, unit: str) -> int:
    if amount > limit:
        raise QuantityError(f"is more than {limit} {unit}")
    return amount


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."  # noqa: PLR2004 - a line of a message
