"""Objects as last seen (K4, K12): what is old, late or told twice changes nothing."""

import pytest

from scheduler.adapters.kubernetes.cache import Change, ObjectCache
from scheduler.adapters.kubernetes.objects import JsonObject, uid_of, version_of


def an_object(version: int, *, uid: str = "u1", name: str = "p") -> JsonObject:
    metadata: JsonObject = {"name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata}


class Told:
    """What a cache has told, in short."""

    def __init__(self) -> None:
        self.all: list[tuple[str, int]] = []

    def __call__(self, changes: list[Change]) -> None:
        for change in changes:
            seen = change.after or change.before
            assert seen is not None
            self.all.append(("put" if change.after else "gone", version_of(seen)))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def cache(told: Told) -> ObjectCache:
    return ObjectCache(told)


def test_k4_events_that_are_told_again_change_nothing(cache: ObjectCache, told: Told) -> None:
    for version in (5, 6, 7):
        cache.put(an_object(version))
    for version in (5, 6, 7):
        cache.put(an_object(version))
    assert told.all == [("put", 5), ("put", 6), ("put", 7)]


def test_k4_an_object_that_is_gone_does_not_come_back_by_an_old_event(
    cache: ObjectCache, told: Told
) -> None:
    cache.put(an_object(5))
    cache.remove(an_object(8))
    cache.put(an_object(6))
    cache.put(an_object(8))
    assert len(cache) == 0
    assert told.all == [("put", 5), ("gone", 8)]


def test_the_last_that_was_seen_is_told_when_it_is_gone(cache: ObjectCache, told: Told) -> None:
    cache.put(an_object(9))
    cache.remove(an_object(7))
    assert told.all == [("put", 9), ("gone", 9)]


def test_k12_another_object_under_the_name_means_that_the_first_is_gone(
    cache: ObjectCache, told: Told
) -> None:
    cache.put(an_object(5, uid="u1"))
    cache.put(an_object(9, uid="u2"))
    assert told.all == [("put", 5), ("gone", 5), ("put", 9)]
    assert [uid_of(found) for found in cache.all()] == ["u2"]


def test_k12_an_old_event_of_the_first_does_not_bring_it_back(
    cache: ObjectCache, told: Told
) -> None:
    cache.put(an_object(9, uid="u2"))
    cache.put(an_object(5, uid="u1"))
    cache.remove(an_object(5, uid="u1"))
    assert told.all == [("put", 9)]


def test_what_a_list_does_not_have_is_named(cache: ObjectCache) -> None:
    cache.put_all([an_object(5, name="a"), an_object(5, name="b", uid="u2")])
    absent = cache.missing_in([an_object(6, name="a")])
    assert [uid_of(found) for found in absent] == ["u2"]
