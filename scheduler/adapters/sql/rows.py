"""What a mapping reads and makes: rows, their values, and the error when a row is broken."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Row

from scheduler.domain.codec import DecodeError
from scheduler.domain.errors import UnreadableRowError

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
"""A row as SQLAlchemy gives it: columns are attributes, and only these functions touch them."""

Values: TypeAlias = dict[str, str | int | bool | bytes | None]
"""Values of a row's columns by their names."""

IDS_AT_ONCE = 500
"""How many ids a statement names; SQLite allows some thousands."""

T = TypeVar("T")
R = TypeVar("R")


def reading(table: str, key: str, read: Callable[[R], T], row: R) -> T:
    """`read(row)`, with whatever breaks said as UnreadableRowError."""
    try:
        return read(row)
    except DecodeError as error:
        raise UnreadableRowError(table, key, problem=str(error)) from error
    except (ValueError, TypeError, AssertionError) as error:
        raise UnreadableRowError(table, key, problem=repr(error)) from error


def chunks(items: Sequence[R], size: int) -> Iterator[Sequence[R]]:
    """`items` in their order, at most `size` at a time: statements have a limit."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
