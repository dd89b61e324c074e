"""The objects of one kind as last seen: lists, watches and our own writes come together here.

Only what is newer than what is known of an object's uid counts, so an event that comes twice, late
or out of order changes nothing. That an object is gone is believed when a watch says so, when
another object has its name, or when it is missing in a list and a look at it by name agrees.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scheduler.adapters.kubernetes.objects import (
    JsonObject,
    Uid,
    name_of,
    namespace_of,
    uid_of,
    version_of,
)

GONE_KEPT_MAX = 20_000
"""Of so many objects that are gone the last version is remembered."""

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What has happened to one object."""

    before: JsonObject | None
    """None: it is new."""
    after: JsonObject | None
    """None: it is gone; `before` is then the last that was seen of it."""


Listener = Callable[[list[Change]], None]


class ObjectCache:
    """Objects by name, from any thread."""

    def __init__(self, listener: Listener) -> None:
        """`listener` is told of changes, one batch at a time, in the thread that brings them."""
        self._listener = listener
        self._lock = threading.RLock()
        self._objects: dict[Key, JsonObject] = {}
        self._gone: OrderedDict[Uid, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def all(self) -> list[JsonObject]:
        """Every object, by name."""
        with self._lock:
            return [found for _, found in sorted(self._objects.items())]

    def find(self, namespace: str, name: str) -> JsonObject | None:
        """One object."""
        with self._lock:
            return self._objects.get((namespace, name))

    def put(self, found: JsonObject) -> None:
        """An object is, or was, so."""
        self.put_all([found])

    def put_all(self, objects: Iterable[JsonObject]) -> None:
        """Objects are, or were, so."""
        with self._lock:
            self._tell([change for found in objects for change in self._put(found)])

    def remove(self, found: JsonObject) -> None:
        """That very object is gone; `found` is the last that is known of it."""
        with self._lock:
            self._tell(self._remove(found))

    def missing_in(self, listed: Iterable[JsonObject]) -> list[JsonObject]:
        """What is known and not in a list, neither so nor under the same name."""
        names = {_key(found) for found in listed}
        with self._lock:
            return [found for key, found in sorted(self._objects.items()) if key not in names]

    def _put(self, found: JsonObject) -> list[Change]:
        key, uid, version = _key(found), uid_of(found), version_of(found)
        if self._gone.get(uid, -1) >= version:
            return []
        known = self._objects.get(key)
        changes: list[Change] = []
        if known is not None and version_of(known) >= version:
            return []
        if known is not None and uid_of(known) != uid:
            # Another object under the name: the one that had it is gone, whatever we have missed.
            changes += self._remove(known)
            known = None
        self._objects[key] = found
        return [*changes, Change(before=known, after=found)]

    def _remove(self, found: JsonObject) -> list[Change]:
        key, uid = _key(found), uid_of(found)
        self._gone[uid] = max(self._gone.get(uid, 0), version_of(found))
        if len(self._gone) > GONE_KEPT_MAX:
            self._gone.popitem(last=False)
        known = self._objects.get(key)
        if known is None or uid_of(known) != uid:
            return []
        del self._objects[key]
        last = found if version_of(found) >= version_of(known) else known
        return [Change(before=last, after=None)]

    def _tell(self, changes: list[Change]) -> None:
        if changes:
            self._listener(changes)


def _key(found: JsonObject) -> Key:
    return (namespace_of(found), name_of(found))
