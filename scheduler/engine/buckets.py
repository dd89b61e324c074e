"""Items in order of a small whole number that changes often: the index behind every search.

    key 4   {3, 17}          find(5) looks up the first key from 5 on that has members,
    key 8   {0, 1, 2, 40}    then the lowest member of it: 0

Members of a key are bits: chunks of 60, and one bit a chunk that is not empty. So a move and a
search cost the same for a hundred items and for a hundred thousand.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

_CHUNK = 60
"""Bits per chunk: two digits of a Python integer, so that chunks stay cheap."""


class Buckets:
    """Items 0, 1, 2, ... of which each has at most one key."""

    def __init__(self, items: int) -> None:
        self._chunks = -(-items // _CHUNK)
        self._place = [(item // _CHUNK, 1 << item % _CHUNK) for item in range(items)]
        self._rows: dict[int, list[int]] = {}
        self._tops: dict[int, int] = {}
        self.keys: list[int] = []
        """Keys that have members, ascending."""
        self.key_of = [-1] * items
        """Per item; -1 for none."""
        self.sizes: dict[int, int] = {}
        """Members per key; a key that once had some stays."""

    def move(self, item: int, key: int) -> None:
        """Give `item` another key; -1 takes it out."""
        before = self.key_of[item]
        if key == before:
            return
        self.key_of[item] = key
        chunk, bit = self._place[item]
        if before >= 0:
            row = self._rows[before]
            left = row[chunk] ^ bit
            row[chunk] = left
            self.sizes[before] -= 1
            if not left:
                self._close(before, chunk)
        if key >= 0:
            if key not in self._rows:
                self._rows[key] = [0] * self._chunks
                self._tops[key] = 0
                self.sizes[key] = 0
            row = self._rows[key]
            had = row[chunk]
            row[chunk] = had | bit
            self.sizes[key] += 1
            if not had:
                self._open(key, chunk)

    def find(self, key: int) -> int:
        """The lowest item of the smallest key that is at least `key`; -1 if there is none."""
        index = bisect_left(self.keys, key)
        if index == len(self.keys):
            return -1
        found = self.keys[index]
        top = self._tops[found]
        chunk = (top & -top).bit_length() - 1
        bits = self._rows[found][chunk]
        return chunk * _CHUNK + (bits & -bits).bit_length() - 1

    def members(self, key: int) -> Iterator[int]:
        """Items of one key, ascending; the index must not change meanwhile."""
        top = self._tops[key]
        row = self._rows[key]
        while top:
            low = top & -top
            top ^= low
            chunk = low.bit_length() - 1
            bits = row[chunk]
            while bits:
                low = bits & -bits
                bits ^= low
                yield chunk * _CHUNK + low.bit_length() - 1

    def _close(self, key: int, chunk: int) -> None:
        top = self._tops[key] ^ (1 << chunk)
        self._tops[key] = top
        if not top:
            del self.keys[bisect_left(self.keys, key)]

    def _open(self, key: int, chunk: int) -> None:
        top = self._tops[key]
        if not top:
            insort(self.keys, key)
        self._tops[key] = top | (1 << chunk)
