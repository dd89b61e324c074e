"""Hands items from a feeding thread to one coroutine, which waits without a thread of its own."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Any thread puts; one coroutine takes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, size_max: int) -> None:
        self._loop = loop
        self._size_max = size_max
        self._items: deque[T] = deque()
        self._arrived = asyncio.Event()
        self._is_closed = False

    @property
    def room(self) -> int:
        """Items that may still be put before the coroutine takes some."""
        return self._size_max - len(self._items)

    def put(self, items: Sequence[T]) -> None:
        """Leave items for the coroutine."""
        self._items.extend(items)
        self._ring()

    def close(self) -> None:
        """Nothing more will come."""
        self._is_closed = True
        self._ring()

    async def take(self, wait_s: float) -> list[T] | None:
        """What has come; empty if nothing did in time; None if nothing more will come."""
        if not self._items and not self._is_closed:
            try:
                async with asyncio.timeout(wait_s):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        self._arrived.clear()
        taken = [self._items.popleft() for _ in range(len(self._items))]
        return None if not taken and self._is_closed else taken

    def _ring(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:
            # The loop has ended, and the coroutine with it.
            self._is_closed = True
