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

_HEAD = 2
"""Places in a row before its chunks: 0 tells which chunks have members (a bit for each, at its
place), 1 how many members there are. Written as numbers below, where every step counts."""


class Buckets:
    """Items 0, 1, 2, ... of which each has at most one key."""

    def __init__(self, items: int) -> None:
        self._chunks = -(-items // _CHUNK)
        self._place = [(item // _CHUNK + _HEAD, 1 << item % _CHUNK) for item in range(items)]
        self._rows: dict[int, list[int]] = {}
        """Per key."""
        self.keys: list[int] = []
        """Keys that have members, ascending."""
        self.key_of = [-1] * items
        """Per item; -1 for none."""

    def move(self, item: int, key: int) -> None:
        """Give `item` another key; -1 takes it out."""
        key_of, rows = self.key_of, self._rows
        before = key_of[item]
        if key == before:
            return
        key_of[item] = key
        place, bit = self._place[item]
        if before >= 0:
            row = rows[before]
            row[1] -= 1
            left = row[place] ^ bit
            row[place] = left
            if not left:
                top = row[0] ^ (1 << place)
                row[0] = top
                if not top:
                    del self.keys[bisect_left(self.keys, before)]
        if key >= 0:
            row = rows.get(key) or self._row(key)
            row[1] += 1
            had = row[place]
            row[place] = had | bit
            if not had:
                top = row[0]
                row[0] = top | (1 << place)
                if not top:
                    insort(self.keys, key)

    def find(self, key: int) -> int:
        """The lowest item of the smallest key that is at least `key`; -1 if there is none."""
        keys = self.keys
        index = bisect_left(keys, key)
        if index == len(keys):
            return -1
        row = self._rows[keys[index]]
        top = row[0]
        place = (top & -top).bit_length() - 1
        bits = row[place]
        return (place - _HEAD) * _CHUNK + (bits & -bits).bit_length() - 1

    def size(self, key: int) -> int:
        """How many items have this key."""
        row = self._rows.get(key)
        return row[1] if row else 0

    def members(self, key: int) -> Iterator[int]:
        """Items of one key, ascending; the index must not change meanwhile."""
        row = self._rows[key]
        top = row[0]
        while top:
            low = top & -top
            top ^= low
            place = low.bit_length() - 1
            bits = row[place]
            while bits:
                low = bits & -bits
                bits ^= low
                yield (place - _HEAD) * _CHUNK + low.bit_length() - 1

    def _row(self, key: int) -> list[int]:
        self._rows[key] = row = [0] * (_HEAD + self._chunks)
        return row
