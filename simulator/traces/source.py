"""Reading trace files: numbered lines, typed fields, errors that name FILE:LINE and field."""

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

from scheduler.domain.copying import quickly_made
from scheduler.domain.instants import SECOND, Duration
from simulator.errors import TraceError

TIME_MAX = Duration(2**53)
"""Microseconds that are counted exactly everywhere: 285 years."""

YEARS_MAX = 285

TOO_LARGE = "has a number of thousands of digits, or is nested thousands deep"
"""JSON that Python does not read."""

BYTES_OF_HEAD = 65_536
"""What format detection looks at."""


def open_text(path: Path) -> TextIO:
    """The file as text, unpacked if its name ends in .gz; the byte order mark some tools write
    is skipped."""
    if path.suffix == ".gz":
        return cast("TextIO", gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open(encoding="utf-8-sig", newline="")


@contextmanager
def told_if_unreadable(source: str) -> Iterator[None]:
    """Turns what comes of a file that is no text, or was cut off, into a TraceError."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise TraceError(source, 0, f"is not UTF-8 text ({error.reason})") from error
    except (EOFError, zlib.error) as error:
        raise TraceError(source, 0, f"can not be unpacked ({error})") from error


@quickly_made
@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one row by name, with their place in the file."""

    source: str
    line: int
    values: Sequence[str]
    columns: Mapping[str, int]

    def text(self, name: str, *, default: str | None = None) -> str:
        """The field as written, without surrounding blanks; `default` where the row has no such
        column."""
        index = self.columns.get(name, -1)
        if 0 <= index < len(self.values):
            return self.values[index].strip()
        if default is None:
            raise self.error(name, "is missing")
        return default

    def number(self, name: str) -> float:
        """The field as a finite number."""
        text = self.text(name)
        try:
            value = float(text)
        except ValueError:
            raise self.error(name, f"{text!r} is not a number") from None
        if value - value != 0:
            raise self.error(name, f"{text!r} is not finite")
        return value

    def integer(self, name: str) -> int:
        """The field as a whole number; `3.0` counts as one."""
        value = self.number(name)
        if value != int(value):
            raise self.error(name, f"{self.text(name)!r} is not a whole number")
        return int(value)

    def count(self, name: str) -> int:
        """The field as a whole number that is not negative."""
        value = self.integer(name)
        if value < 0:
            raise self.error(name, f"{value} is negative")
        return value

    def time(self, name: str, *, unit: Duration = SECOND) -> Duration:
        """The field, counted in `unit`s, as a duration that is not negative."""
        value = self.number(name)
        if value < 0:
            raise self.error(name, f"{self.text(name)!r} is negative")
        if value * unit > TIME_MAX:
            raise self.error(name, f"{self.text(name)!r} is over {YEARS_MAX} years")
        return Duration(round(value * unit))

    def is_empty(self, name: str) -> bool:
        """Whether the field has no value in this row, or the file no such column."""
        return self.text(name, default="") in {"", "None", "NULL", "null", "nan", "NaN"}

    def error(self, name: str, detail: str) -> TraceError:
        """The error that this field of this row is wrong."""
        return TraceError(self.source, self.line, detail, field=name)


def rows_with_header(
    lines: Iterable[str], source: str, *, required: Sequence[str]
) -> Iterator[Fields]:
    """The rows of a CSV whose first line names its columns."""
    return _rows(lines, source, required=required)


def rows_without_header(
    lines: Iterable[str], source: str, names: Sequence[str]
) -> Iterator[Fields]:
    """The rows of a CSV that starts with data, its columns being `names`."""
    return _rows(lines, source, names=names)


def _rows(
    lines: Iterable[str],
    source: str,
    *,
    names: Sequence[str] = (),
    required: Sequence[str] = (),
) -> Iterator[Fields]:
    reader = csv.reader(lines)
    try:
        names = names or [name.strip() for name in next(reader, [])]
        missing = [name for name in required if name not in names]
        if missing:
            raise TraceError(source, 1, f"the header lacks {', '.join(missing)}")
        columns = {name: index for index, name in enumerate(names)}
        for values in reader:
            if not values:
                continue
            line = reader.line_num
            if len(values) != len(names):
                raise TraceError(source, line, f"has {len(values)} fields instead of {len(names)}")
            yield Fields(source, line, values, columns)
    except csv.Error as error:
        raise TraceError(source, reader.line_num, str(error)) from error


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, for format detection."""

    lines: tuple[str, ...]

    @property
    def first(self) -> str:
        """The first line, empty if there is none."""
        return self.lines[0] if self.lines else ""

    def has_columns(self, *names: str) -> bool:
        """Whether the first line is a CSV header with all these names."""
        return set(names) <= {name.strip() for name in self.first.split(",")}


def head_of(path: Path) -> Head:
    """The whole lines among the first bytes of a file."""
    with told_if_unreadable(path.name), open_text(path) as stream:
        text = stream.read(BYTES_OF_HEAD)
    return Head(tuple(text.splitlines()[:50]))
