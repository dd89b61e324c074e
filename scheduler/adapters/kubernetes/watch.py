"""Keeps a cache in line with the API server: list, watch from there, and list anew when in doubt.

list ──▶ watch ──▶ closed in time ──▶ watch on from the last version
 ▲         │
 └─────────┴─ expired, silent for too long, closed at once without a word, garbled

None of the official client's own ways survives all of that (its watch repeats an expired version,
its informer reads no pages), so the loop is ours and only the connection is the client's.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.adapters.kubernetes.cache import ObjectCache
from scheduler.adapters.kubernetes.client import ApiServer, Stream
from scheduler.adapters.kubernetes.errors import ApiFailure, Expired, Missing, Refused, Unavailable
from scheduler.adapters.kubernetes.objects import (
    JsonObject,
    at,
    name_of,
    namespace_of,
    number,
    parts,
    text,
    uid_of,
    version_of,
)
from scheduler.domain.codec import DecodeError, load

PAGE = 500
LISTS_EXPIRED_MAX = 5
"""A list that expires between its pages so often in a row is given up for now."""

_GONE = 410
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTimes:
    """How patient a reflector is."""

    watch_s: float = 270.0
    """The server ends a watch after so long."""
    silence_s_max: float = 90.0
    """It sends a bookmark about every minute; a longer silence is a dead connection."""
    blink_s: float = 2.0
    """A watch that ends sooner without a word tells that its version is too old."""
    retry_s_min: float = 0.5
    retry_s_max: float = 30.0
    doubt_s: float = 30.0
    """Between a list in which much is missing and the one that must confirm it."""
    relist_s: float = 300.0
    """A whole list is taken so often, whatever watches have told (5.4 of the design)."""
    settle_s: float = 5.0
    """Trouble that is over sooner is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What is listed and watched."""

    path: str
    """Of the collection, e.g. /api/v1/nodes."""
    selectors: tuple[tuple[str, str], ...] = ()
    """labelSelector, fieldSelector."""
    is_confirmed: bool = True
    """Whether an object missing in a list is looked for by name before it counts as gone. Where
    objects leave the selection as they change, that would find them alive and well."""

    page: int = PAGE
    """Objects in one answer to a list."""
    is_optional: bool = False
    """Whether we can do without it where it may not be read."""

    def query(self, **more: str) -> dict[str, str]:
        """The parameters of a request."""
        return {**dict(self.selectors), **more}


class Reflector:
    """One resource in one cache, by a thread of its own."""

    def __init__(
        self,
        server: ApiServer,
        resource: Resource,
        cache: ObjectCache,
        *,
        times: WatchTimes = WatchTimes(),
        on_health: Callable[[], None] = lambda: None,
    ) -> None:
        self._server = server
        self._resource = resource
        self._cache = cache
        self._times = times
        self._on_health = on_health
        self._rng = random.Random()  # noqa: S311 - jitter
        self._closing = threading.Event()
        self._stream: Stream | None = None
        self._failures = 0
        self._listed_at = 0.0
        self._is_listed = False
        self._trouble_since: float | None = None
        self.lists = 0
        """Complete lists so far."""
        self.is_forbidden = False
        """We may not read it, and can do without it."""
        self.trouble = ""
        """What went wrong last; empty while nothing does."""
        self._thread = threading.Thread(
            target=self._run, name=f"watch {resource.path}", daemon=True
        )

    @property
    def is_well(self) -> bool:
        """Whether the cache is in line, as far as anybody can know."""
        if self.is_forbidden:
            return True
        since = self._trouble_since
        is_long = since is not None and time.monotonic() - since > self._times.settle_s
        return self._is_listed and not is_long

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._closing.set()
        if stream := self._stream:
            stream.abort()
        self._thread.join()

    def _run(self) -> None:
        version = 0
        while not self._closing.is_set():
            try:
                if version == 0:
                    version = self._list()
                version = self._watch(version)
                self._failures = 0
                self._note_well()
                if time.monotonic() - self._listed_at > self._times.relist_s:
                    version = 0
            except ApiFailure as failure:
                # Without a version the next round lists; what merely failed goes on from there.
                is_lost = not isinstance(failure, Unavailable) or self._failures > 0
                version = 0 if is_lost else version
                self._note_trouble(failure)
                self._closing.wait(self._backoff_s())

    # Listing

    def _list(self) -> int:
        """Bring the cache in line with a complete list; the version to watch from."""
        listed, version = self._pages()
        absent = self._cache.missing_in(listed)
        if len(absent) > max(5, len(self._cache) // 5):
            # A server that has just started, or lost its rights, may show little or nothing.
            _log.warning("much_is_missing %s %d", self._resource.path, len(absent))
            self._closing.wait(self._times.doubt_s)
            listed, version = self._pages()
            absent = self._cache.missing_in(listed)
        self._cache.put_all(listed)
        for each in absent:
            if self._closing.is_set():
                break
            self._look_for(each)
        self._is_listed = True
        self._listed_at = time.monotonic()
        self.lists += 1
        self._note_well()
        return version

    def _pages(self) -> tuple[list[JsonObject], int]:
        """Every object as of one version."""
        for _ in range(LISTS_EXPIRED_MAX):
            try:
                return self._pages_once()
            except Expired:
                continue  # Pages of two versions do not make a list: from the first one again.
        raise Unavailable("a list expires again and again before it is complete")

    def _pages_once(self) -> tuple[list[JsonObject], int]:
        found: list[JsonObject] = []
        expected: int | None = None
        query = self._resource.query(limit=str(self._resource.page))
        while True:
            page = self._server.get(self._resource.path, query)
            if not isinstance(at(page, "items"), list) or version_of(page) == 0:
                raise Unavailable("a list that is none")
            found += parts(page, "items")
            remaining = number(page, "metadata", "remainingItemCount")
            if remaining is not None and expected is None:
                expected = len(found) + remaining
            token = text(page, "metadata", "continue")
            if not token:
                break
            query = self._resource.query(limit=str(self._resource.page), **{"continue": token})
        if expected is not None and len(found) < expected:
            raise Unavailable(f"a list of {len(found)} objects, of which there are {expected}")
        return found, version_of(page)

    def _look_for(self, absent: JsonObject) -> None:
        """Believe that an object is gone if it is not there by name either."""
        if not self._resource.is_confirmed:
            self._cache.remove(absent)
            return
        path = f"{self._collection(absent)}/{name_of(absent)}"
        try:
            found = self._server.get(path)
        except Missing:
            self._cache.remove(absent)
            return
        if uid_of(found) == uid_of(absent):
            self._cache.put(found)
        else:
            self._cache.remove(absent)

    def _collection(self, found: JsonObject) -> str:
        namespace = namespace_of(found)
        root, _, plural = self._resource.path.rpartition("/")
        if not namespace or "/namespaces/" in self._resource.path:
            return self._resource.path
        return f"{root}/namespaces/{namespace}/{plural}"

    # Watching

    def _watch(self, version: int) -> int:
        """Take events until the server ends the watch; the version to go on from."""
        began = time.monotonic()
        words = 0
        query = self._resource.query(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=str(version),
            timeoutSeconds=str(max(1, round(self._times.watch_s))),
        )
        with self._server.stream(
            self._resource.path, query, silence_s_max=self._times.silence_s_max
        ) as stream:
            self._stream = stream
            self._note_well()
            for line in stream.lines():
                version = max(version, self._take(line))
                words += 1
                self._failures = 0
                if self._closing.is_set():
                    break
        lasted = time.monotonic() - began
        if not words and lasted < min(self._times.blink_s, self._times.watch_s / 2):
            raise Expired("the watch ended at once without a word")
        return version

    def _take(self, line: bytes) -> int:
        try:
            event = load(line.decode())
        except (DecodeError, UnicodeDecodeError) as error:
            raise Unavailable("an event that was cut off") from error
        kind, found = text(event, "type"), at(event, "object")
        if not isinstance(found, dict):
            raise Unavailable("an event without an object")
        if kind == "ERROR":
            message = text(found, "message") or "the watch failed"
            is_expired = number(found, "code") == _GONE
            raise Expired(message) if is_expired else Unavailable(message)
        if kind == "DELETED":
            self._cache.remove(found)
        elif kind in ("ADDED", "MODIFIED"):
            self._cache.put(found)
        return version_of(found)

    # Health

    def _note_well(self) -> None:
        was_in_trouble = self._trouble_since is not None
        self._trouble_since = None
        self.is_forbidden = False
        self.trouble = ""
        if was_in_trouble or self.lists == 1:
            self._on_health()

    def _note_trouble(self, failure: ApiFailure) -> None:
        if self._closing.is_set():
            return
        self._failures += 1
        self.is_forbidden = self._resource.is_optional and isinstance(failure, Refused)
        if self._trouble_since is None and not isinstance(failure, Expired):
            self._trouble_since = time.monotonic()
        self.trouble = failure.message
        _log.info("watch_trouble %s %s", self._resource.path, failure.message)
        self._on_health()

    def _backoff_s(self) -> float:
        longest = self._times.retry_s_min * 2 ** min(self._failures, 10)
        return self._rng.uniform(self._times.retry_s_min / 2, min(self._times.retry_s_max, longest))


def collection(namespace: str, plural: str) -> str:
    """Path of a namespace's objects of a kind of the core API."""
    return f"/api/v1/namespaces/{namespace}/{plural}"


def selecting(labels: Mapping[str, str]) -> str:
    """A label selector for objects that have all of these."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
