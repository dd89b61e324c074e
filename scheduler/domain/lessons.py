"""What past jobs teach: of each kind the newest, in the order they were written.

The memory store keeps them so, and the loop what it has read of a store.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Generic, NamedTuple, TypeVar

from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.waits import (
    ENDS_KEPT,
    ENDS_KEPT_FOR,
    WAITS_KEPT,
    WAITS_KEPT_FOR,
    JobEnd,
    WaitObservation,
)

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
        self._written_up_to: Sequence | None = None
        self._ages: dict[Kind, list[LessonKey]] = {}

    def add(self, rows: Iterable[tuple[LessonKey, T]], sequence: Sequence) -> None:
        """Write rows together, then forget."""
        newest: dict[Kind, Instant] = {}
        self._written_up_to = sequence
        for key, row in rows:
            if self._rows.pop(key, None) is None:
                ages = self._ages.setdefault(key.kind, [])
                if ages and key < ages[-1]:
                    insort(ages, key)
                else:
                    ages.append(key)
            self._rows[key] = (sequence, row)
            newest[key.kind] = max(key.at, newest.get(key.kind, key.at))
        for kind, at in newest.items():
            self._forget(kind, Instant(at - self._kept_for))

    def all(self) -> tuple[T, ...]:
        """Every row, by sequence."""
        return tuple([row for _, row in self._rows.values()])

    def since(self, after: Sequence | None) -> tuple[T, ...]:
        """Rows written after a sequence (None: all), by sequence, then key."""
        if after is not None and (self._written_up_to is None or self._written_up_to <= after):
            return ()
        found = [
            (sequence, key, row)
            for key, (sequence, row) in takewhile(
                lambda item: after is None or item[1][0] > after, reversed(self._rows.items())
            )
        ]
        found.sort(key=_age)
        return tuple([row for _, _, row in found])

    def _forget(self, kind: Kind, before: Instant) -> None:
        ages = self._ages[kind]
        if len(ages) <= self._kept and ages[0].at >= before:
            return
        old = bisect_left(ages, before, key=_at) if ages[0].at < before else 0
        gone = max(old, len(ages) - self._kept)
        for key in ages[:gone]:
            del self._rows[key]
        del ages[:gone]


def _age(found: tuple[Sequence, LessonKey, object]) -> tuple[Sequence, LessonKey]:
    return found[:2]


def _at(key: LessonKey) -> Instant:
    return key.at


def past_waits() -> Lessons[WaitObservation]:
    """No waits yet."""
    return Lessons(kept=WAITS_KEPT, kept_for=WAITS_KEPT_FOR)


def ended_jobs() -> Lessons[JobEnd]:
    """No ends yet."""
    return Lessons(kept=ENDS_KEPT, kept_for=ENDS_KEPT_FOR)


def keyed_waits(waits: Iterable[WaitObservation]) -> Iterator[tuple[LessonKey, WaitObservation]]:
    """Waits under their keys: alike are those of one demand for one level."""
    return ((LessonKey((wait.demand, wait.level), wait.at, wait.job_id), wait) for wait in waits)


def keyed_ends(ends: Iterable[JobEnd]) -> Iterator[tuple[LessonKey, JobEnd]]:
    """Ends under their keys: alike are those of one queue."""
    return ((LessonKey((0, end.queue), end.at, end.job_id), end) for end in ends)
