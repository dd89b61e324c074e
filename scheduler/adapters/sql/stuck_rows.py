"""Rows that can not be read: left out, remembered and logged once, so that all others go on."""

from collections.abc import Callable, Iterable
from threading import Lock
from typing import TypeVar

import structlog

from scheduler.domain.errors import UnreadableRowError
from scheduler.ports.job_store import StuckRow

R = TypeVar("R")
T = TypeVar("T")

_log = structlog.get_logger(__name__)


class StuckRows:
    """What reads have stumbled over so far."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], StuckRow] = {}
        self._lock = Lock()

    def sorted_out(self, rows: Iterable[R], read: Callable[[R], T]) -> tuple[list[T], list[R]]:
        """What `read` makes of the rows that it can read, and the other rows."""
        found: list[T] = []
        broken: list[R] = []
        for row in rows:
            try:
                found.append(read(row))
            except UnreadableRowError as error:
                self.note(error)
                broken.append(row)
        return found, broken

    def readable(self, rows: Iterable[R], read: Callable[[R], T]) -> list[T]:
        """What `read` makes of the rows that it can read."""
        return self.sorted_out(rows, read)[0]

    def note(self, error: UnreadableRowError) -> None:
        """Remember a row that can not be read."""
        row = StuckRow(table=error.table, key=error.key, problem=error.problem)
        with self._lock:
            is_new = self._rows.get((row.table, row.key)) != row
            self._rows[row.table, row.key] = row
        if is_new:
            _log.error("row_stuck", table=row.table, key=row.key, problem=row.problem)

    def all(self) -> tuple[StuckRow, ...]:
        """Every such row, by table and key."""
        with self._lock:
            return tuple(row for _, row in sorted(self._rows.items()))

    def take_all(self) -> tuple[StuckRow, ...]:
        """Every such row, to be read once more: they are forgotten here."""
        rows = self.all()
        with self._lock:
            self._rows.clear()
        return rows
