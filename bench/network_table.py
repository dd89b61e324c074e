"""CSV files of measured points: whatever is wrong with a file or with a row of it is said.

A file that can not be read, or lacks a column nothing can stand in for, is a `PointsFileError`.
A row that says too little, or something that can not be, is left out as `Unused`, with the reason.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TypeVar

NAMES_SHOWN_MAX = 40
"""Characters of a cell that a reason repeats."""

COUNT_MAX = 1_000_000
"""More nodes, GPUs or micro-steps than this is a slip of the pen."""


class PointsFileError(Exception):
    """A file of measured points that can not be used as a whole."""


class UnusableRowError(Exception):
    """A row that can not be compared; its text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """A row that is not compared, and why."""

    system: str
    reason: str


class Cells(dict[str, str]):
    """The cells of one row by column; a column that the file lacks is empty."""

    def __init__(self, cells: dict[str, str], *, line: int) -> None:
        super().__init__(cells)
        self.line = line

    def __missing__(self, column: str) -> str:
        return ""

    def number(self, column: str) -> float | None:
        """A finite number of at least 0; None if nothing is said."""
        text = self[column]
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not isfinite(value) or value < 0.0:
            raise UnusableRowError(self._strange(column, "no number of at least 0"))
        return value

    def positive(self, column: str) -> float | None:
        """A number above 0; None if nothing is said."""
        value = self.number(column)
        if value == 0.0:
            raise UnusableRowError(self._strange(column, "not above 0"))
        return value

    def count(self, column: str) -> int | None:
        """A whole number of at least 1; None if nothing is said."""
        value = self.positive(column)
        if value is not None and (value != int(value) or value > COUNT_MAX):
            raise UnusableRowError(self._strange(column, "no count"))
        return None if value is None else int(value)

    def needed(self, column: str) -> str:
        """A cell that must not be empty."""
        if not self[column]:
            raise UnusableRowError(f"{column} is not stated")
        return self[column]

    def _strange(self, column: str, what: str) -> str:
        return f"{column} is {what}: {self[column][:NAMES_SHOWN_MAX]!r} in line {self.line}"


R = TypeVar("R")


def read_csv(path: Path, columns: Sequence[str] = ()) -> Iterator[Cells]:
    """The rows of a CSV file whose header names at least these columns."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield from _rows(csv.reader(file), path, columns)
    except OSError as error:
        raise PointsFileError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PointsFileError(f"{path}: not a text file in UTF-8") from error
    except csv.Error as error:
        raise PointsFileError(f"{path}: not a CSV file: {error}") from error


def _rows(reader: Iterator[list[str]], path: Path, columns: Sequence[str]) -> Iterator[Cells]:
    header: list[str] = []
    found = 0
    for line, cells in enumerate(reader, start=1):
        texts = [" ".join(cell.split()) for cell in cells]
        if not any(texts):
            continue
        if not header:
            header = texts
            _check(header, path, columns)
            continue
        found += 1
        # What a short row lacks is empty, what a long one has too much is nobody's.
        yield Cells(dict(zip(header, texts, strict=False)), line=line)
    if not header:
        raise PointsFileError(f"{path}: the file is empty")
    if not found:
        raise PointsFileError(f"{path}: no rows below the header")


def _check(header: Sequence[str], path: Path, columns: Sequence[str]) -> None:
    missing = [column for column in columns if column not in header]
    if missing:
        raise PointsFileError(f"{path}: no column {', '.join(missing)} in the first line")
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise PointsFileError(f"{path}: column {', '.join(twice)} stands there twice")


def sorted_out(
    rows: Iterator[Cells], name: Callable[[Cells], str], made: Callable[[Cells], R | None]
) -> tuple[list[R], list[Unused]]:
    """What is made of the rows, and those of which nothing is; None: the row is no candidate."""
    used: list[R] = []
    unused: list[Unused] = []
    for cells in rows:
        try:
            row = made(cells)
        except UnusableRowError as error:
            unused.append(Unused(system=name(cells), reason=str(error)))
            continue
        if row is not None:
            used.append(row)
    return used, unused


def names_of(unused: Sequence[Unused]) -> list[tuple[str, str, int]]:
    """Unused systems by name, with reason and number of rows."""
    counts: dict[tuple[str, str], int] = {}
    for row in unused:
        counts[row.system, row.reason] = counts.get((row.system, row.reason), 0) + 1
    return [(system, reason, count) for (system, reason), count in sorted(counts.items())]
