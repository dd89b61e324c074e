"""Items in order of a key that changes."""

import random

from scheduler.engine.buckets import Buckets


def test_the_smallest_key_that_is_enough_is_found_then_the_lowest_item() -> None:
    buckets = Buckets(200)
    for item, key in ((150, 4), (3, 8), (70, 8), (9, 2)):
        buckets.move(item, key)

    assert buckets.find(0) == 9
    assert buckets.find(3) == 150
    assert buckets.find(5) == 3
    assert buckets.find(9) == -1
    assert buckets.members(8) == [3, 70]
    assert buckets.size(8) == 2
    assert buckets.size(7) == 0


def test_items_that_are_taken_out_are_not_found() -> None:
    buckets = Buckets(2)
    buckets.move(1, 5)
    buckets.move(1, -1)

    assert buckets.find(0) == -1
    assert buckets.keys == []


def test_many_moves_give_what_sorting_gives() -> None:
    chance = random.Random(7)
    buckets = Buckets(500)
    keys = [-1] * 500
    for _ in range(5_000):
        item, key = chance.randrange(500), chance.randrange(-1, 20)
        keys[item] = key
        buckets.move(item, key)

    for key in range(20):
        members = [item for item in range(500) if keys[item] == key]
        assert buckets.size(key) == len(members)
        assert not members or buckets.members(key) == members
        ahead = [(k, item) for item, k in enumerate(keys) if k >= key]
        assert buckets.find(key) == (min(ahead)[1] if ahead else -1)
