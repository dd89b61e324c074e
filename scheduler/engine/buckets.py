"""Items in order of a small whole number that changes often: the index behind every search.

    key 4   [3, 17]          find(5) looks up the first key from 5 on that has members,
    key 8   [0, 2, 1, 40]    then the lowest member of it: 0

Members of a key stand in a heap. One that has moved on stays in its old heap until it comes to the
top, or until a heap is twice as large as need be. So a move and a search cost nearly the same for
a hundred items and for a hundred thousand.
"""

from bisect import bisect_left, insort
from heapq import heappop, heappush

_STALE_MAX = 64
"""Members that have moved on may outnumber those that are left by so many."""


class Buckets:
    """Items 0, 1, 2, ... of which each has at most one key."""

    def __init__(self, items: int) -> None:
        self._heaps: dict[int, list[int]] = {}
        """Per key: its members, among some that have moved on."""
        self._sizes: dict[int, int] = {}
        """Per key: how many members it has."""
        self.keys: list[int] = []
        """Keys that have members, ascending."""
        self.key_of = [-1] * items
        """Per item; -1 for none."""

    def move(self, item: int, key: int) -> None:
        """Give `item` another key; -1 takes it out."""
        key_of, sizes = self.key_of, self._sizes
        before = key_of[item]
        if key == before:
            return
        key_of[item] = key
        if before >= 0:
            left = sizes[before] - 1
            sizes[before] = left
            if not left:
                del self.keys[bisect_left(self.keys, before)]
        if key >= 0:
            had = sizes.get(key, 0)
            sizes[key] = had + 1
            if had:
                heap = self._heaps[key]
                heappush(heap, item)
                if len(heap) > 2 * had + _STALE_MAX:
                    self.members(key)
            else:
                insort(self.keys, key)
                self._heaps[key] = [item]

    def find(self, key: int) -> int:
        """The lowest item of the smallest key that is at least `key`; -1 if there is none."""
        keys = self.keys
        index = bisect_left(keys, key)
        if index == len(keys):
            return -1
        found, key_of = keys[index], self.key_of
        heap = self._heaps[found]
        while key_of[heap[0]] != found:
            heappop(heap)
        return heap[0]

    def size(self, key: int) -> int:
        """How many items have this key."""
        return self._sizes.get(key, 0)

    def members(self, key: int) -> list[int]:
        """Items of one key, ascending."""
        key_of = self.key_of
        members = sorted({item for item in self._heaps.get(key, ()) if key_of[item] == key})
        if members:
            # A sorted list is a heap, and this one has nobody in it who has moved on.
            self._heaps[key] = list(members)
        return members
