"""What past jobs teach, in memory: the newest rows of each kind, and which are new to a reader."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import takewhile
from typing import Generic, NamedTuple, TypeVar

from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.instants import Duration, Instant

T = TypeVar("T")

Kind = tuple[int, str]


class LessonKey(NamedTuple):
    """Which row it is; rows of one kind sort by age."""

    kind: Kind
    at: Instant
    job_id: JobId


class Lessons(Generic[T]):
    """Rows by key; of each kind so many, and none older than so long before the newest written."""

    def __init__(self, *, kept: int, kept_for: Duration) -> None:
        self._kept = kept
        self._kept_for = kept_for
        self._rows: dict[LessonKey, tuple[Sequence, T]] = {}
        """By sequence: a row that is replaced goes to the end."""
        self._ages: dict[Kind, list[LessonKey]] = {}

    def add(self, rows: Iterable[tuple[LessonKey, T]], sequence: Sequence) -> None:
        """Write rows together, then forget."""
        newest: dict[Kind, Instant] = {}
        for key, row in rows:
            if self._rows.pop(key, None) is None:
                insort(self._ages.setdefault(key.kind, []), key)
            self._rows[key] = (sequence, row)
            newest[key.kind] = max(key.at, newest.get(key.kind, key.at))
        for kind, at in newest.items():
            self._forget(kind, Instant(at - self._kept_for))

    def since(self, after: Sequence | None) -> tuple[T, ...]:
        """Rows written after a sequence (None: all), by sequence, then key."""
        newest_first = (
            (sequence, key, row) for key, (sequence, row) in reversed(self._rows.items())
        )
        wanted = takewhile(lambda found: after is None or found[0] > after, newest_first)
        return tuple(row for _, _, row in sorted(wanted, key=lambda found: found[:2]))

    def _forget(self, kind: Kind, before: Instant) -> None:
        ages = self._ages[kind]
        old = bisect_left(ages, before, key=lambda key: key.at)
        gone = max(old, len(ages) - self._kept)
        for key in ages[:gone]:
            del self._rows[key]
        del ages[:gone]
