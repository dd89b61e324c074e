"""Things to look at: each once in the queue and by one thread at a time, some only later."""

import heapq
import threading
import time
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class WorkQueue(Generic[Item]):
    """What is added while it is being looked at is looked at again afterwards."""

    def __init__(self) -> None:
        self._waiting: deque[Item] = deque()
        self._queued: set[Item] = set()
        self._in_hand: set[Item] = set()
        self._again: set[Item] = set()
        self._later: list[tuple[float, int, Item]] = []
        self._count = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done now; what is due later does not count."""
        with self._changed:
            return not (self._queued or self._in_hand)

    def add(self, item: Item) -> None:
        """Have it looked at soon."""
        with self._changed:
            self._add(item)
            self._changed.notify()

    def add_after(self, item: Item, delay_s: float) -> None:
        """Have it looked at once so much time has passed."""
        with self._changed:
            self._count += 1
            heapq.heappush(self._later, (time.monotonic() + delay_s, self._count, item))
            self._changed.notify()

    def take(self) -> Item | None:
        """The next one, as soon as there is one; None once the queue is closed."""
        with self._changed:
            while not self._is_closed:
                wait_s = self._take_due()
                if self._waiting:
                    item = self._waiting.popleft()
                    self._queued.discard(item)
                    self._in_hand.add(item)
                    return item
                self._changed.wait(wait_s)
            return None

    def done(self, item: Item) -> None:
        """It has been looked at."""
        with self._changed:
            self._in_hand.discard(item)
            if item in self._again:
                self._again.discard(item)
                self._add(item)
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more is handed out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _add(self, item: Item) -> None:
        if item in self._in_hand:
            self._again.add(item)
        elif item not in self._queued:
            self._queued.add(item)
            self._waiting.append(item)

    def _take_due(self) -> float | None:
        """Queue what is due; how long until the next one is."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._add(heapq.heappop(self._later)[2])
        return self._later[0][0] - now if self._later else None
