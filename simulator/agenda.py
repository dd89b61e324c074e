"""The agenda: what happens when, in one total order of (time, kind, sequence).

Kinds are ordered, so that at one instant what ends is seen before what arrives; within a kind,
things happen in the order they were put down.
"""

import heapq
from collections.abc import Iterator
from enum import IntEnum
from typing import Generic, TypeVar

from scheduler.domain.instants import Instant

T = TypeVar("T")


class Kind(IntEnum):
    """What comes first at one instant."""

    END = 0
    """Gangs end."""
    NODE = 1
    """Nodes fail or come back."""
    START = 2
    """Containers are up."""
    ARRIVAL = 3
    """Jobs are submitted."""


class Agenda(Generic[T]):
    """A heap of things to come."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, Kind, int, T]] = []
        self._sequence = 0

    def put(self, at: Instant, kind: Kind, thing: T) -> None:
        """Note that `thing` happens at `at`."""
        self._sequence += 1
        heapq.heappush(self._heap, (at, kind, self._sequence, thing))

    def next_at(self) -> Instant | None:
        """When the next thing happens; None if nothing is to come."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: Instant) -> Iterator[T]:
        """Take what happens at `now` or before, in order; it may put down more."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            yield heapq.heappop(heap)[3]
