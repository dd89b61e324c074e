"""One ordered stream of changes, told to many followers who stand at different places of it."""

import asyncio
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from api.streams.mailbox import Mailbox
from scheduler.domain.errors import HistoryGoneError

MAILBOX_SIZE = 2_000
"""Items a follower may be behind what its client has taken; further on, it is cut off."""

PAGE = 500


Item = TypeVar("Item")
Cursor = TypeVar("Cursor", bound=tuple[object, ...])


class Follower(Generic[Item, Cursor]):
    """One reader of a feed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cursor: Cursor) -> None:
        self.cursor = cursor
        """Everything up to here has been told."""
        self.mailbox: Mailbox[Item] = Mailbox(loop, size_max=MAILBOX_SIZE)
        self.gone: HistoryGoneError | None = None
        """Why it was cut off, if what it asked for is forgotten."""
        self.is_too_slow = False


class Feed(Generic[Item, Cursor]):
    """Reads each change once for all followers that are up to date; catches up the new ones."""

    def __init__(
        self,
        read: Callable[[Cursor], Sequence[Item]],
        cursor_of: Callable[[Item], Cursor],
    ) -> None:
        self._read = read
        self._cursor_of = cursor_of
        self._lock = Lock()
        self._new: list[Follower[Item, Cursor]] = []
        self._settled: list[Follower[Item, Cursor]] = []
        self._is_closed = False
        self._at: Cursor | None = None
        """How far the settled followers have been told."""

    def join(self, follower: Follower[Item, Cursor]) -> None:
        """Tell `follower` everything after its cursor from now on."""
        with self._lock:
            if self._is_closed:
                follower.mailbox.close()
            else:
                self._new.append(follower)

    def leave(self, follower: Follower[Item, Cursor]) -> None:
        """Tell it nothing more."""
        with self._lock:
            self._new = [f for f in self._new if f is not follower]
            self._settled = [f for f in self._settled if f is not follower]

    def work(self) -> bool:
        """One round; whether anybody follows."""
        with self._lock:
            new, settled = list(self._new), list(self._settled)
        if settled and self._at is not None:
            self._at = self._tell_all(settled, self._at)
        for follower in new:
            self._settle(follower)
        with self._lock:
            return bool(self._new or self._settled)

    def close(self) -> None:
        """Send everybody away, those who come later too."""
        with self._lock:
            self._is_closed = True
            for follower in (*self._new, *self._settled):
                follower.mailbox.close()
            self._new, self._settled = [], []

    def _settle(self, follower: Follower[Item, Cursor]) -> None:
        """Catch up as far as the client takes it; the rest in the next round."""
        at = follower.cursor
        while follower.mailbox.room >= PAGE:
            page = self._page([follower], at)
            if not page:
                break
            at = self._cursor_of(page[-1])
            self._tell(follower, page)
            if len(page) < PAGE:
                break
        else:
            return
        with self._lock:
            if follower in self._new:
                self._new.remove(follower)
                self._settled.append(follower)
                # Whoever is further than this one passes over what it knows already.
                if self._at is None or len(self._settled) == 1 or follower.cursor < self._at:
                    self._at = follower.cursor

    def _tell_all(self, followers: list[Follower[Item, Cursor]], at: Cursor) -> Cursor:
        """Tell what comes after `at`; where that ended."""
        while page := self._page(followers, at):
            at = self._cursor_of(page[-1])
            for follower in followers:
                self._tell(follower, page)
            if len(page) < PAGE:
                break
        return at

    def _page(self, followers: list[Follower[Item, Cursor]], at: Cursor) -> Sequence[Item]:
        try:
            return self._read(at)
        except HistoryGoneError as error:
            for follower in followers:
                follower.gone = error
                self._dismiss(follower)
            return ()

    def _tell(self, follower: Follower[Item, Cursor], page: Sequence[Item]) -> None:
        news = [item for item in page if self._cursor_of(item) > follower.cursor]
        if not news:
            return
        if follower.mailbox.room < len(news):
            follower.is_too_slow = True
            self._dismiss(follower)
            return
        follower.cursor = self._cursor_of(news[-1])
        follower.mailbox.put(news)

    def _dismiss(self, follower: Follower[Item, Cursor]) -> None:
        self.leave(follower)
        follower.mailbox.close()
