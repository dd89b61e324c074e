"""The feeds of one application (changes of jobs, events) and the thread that reads them."""

from collections.abc import Sequence
from typing import NamedTuple

from api.jobs.news import JobNews
from api.streams.feed import PAGE, Feed
from api.streams.feeder import Feeder
from scheduler.domain.errors import HistoryGoneError
from scheduler.domain.event import Event
from scheduler.domain.ids import Sequence as StoreSequence
from scheduler.ports.job_store import ChangeCursor, EventQuery, JobStore

POLL_S = 0.25
"""Writes of other processes are seen by looking; the store's own hint comes sooner."""


class EventCursor(NamedTuple):
    """A place in the order of events."""

    sequence: StoreSequence


class Broadcaster:
    """One thread reads what has changed in the store and tells every watch."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self.jobs: Feed[JobNews, ChangeCursor] = Feed(self._changes, lambda news: news.cursor)
        self.events: Feed[Event, EventCursor] = Feed(self._events, _event_cursor)
        self._feeder = Feeder("dally-watches", self._work, poll_s=POLL_S)
        self._unsubscribe = store.on_change(self._feeder.wake)

    def start(self) -> None:
        """A follower has joined."""
        self._feeder.start()

    def close(self) -> None:
        """End the thread and every watch."""
        self._unsubscribe()
        self._feeder.close()
        self.jobs.close()
        self.events.close()

    def _work(self) -> bool:
        # Both, whatever the first one says.
        followed = [self.jobs.work(), self.events.work()]
        return any(followed)

    def _changes(self, after: ChangeCursor) -> Sequence[JobNews]:
        changes = self._store.job_changes(after, limit=PAGE)
        if not changes:
            # Without a job the place is before everything of its sequence.
            reached = after.sequence if after.job_id else after.sequence - 1
            self._must_have_been(StoreSequence(reached))
        return [JobNews(change) for change in changes]

    def _events(self, after: EventCursor) -> Sequence[Event]:
        horizon = self._store.horizon()
        if after.sequence < horizon:
            raise HistoryGoneError(asked=after.sequence, horizon=horizon)
        events = self._store.events(EventQuery(after=after.sequence, limit=PAGE))
        if not events:
            self._must_have_been(after.sequence)
        return events

    def _must_have_been(self, sequence: StoreSequence) -> None:
        """Raise HistoryGoneError for a place that the store has not come to (any more): a backup
        was put back, and what was told after it is not so."""
        now = self._store.sequence()
        if sequence > now:
            raise HistoryGoneError(asked=sequence, horizon=now)


def _event_cursor(event: Event) -> EventCursor:
    assert event.sequence is not None, "the store numbers its events"
    return EventCursor(event.sequence)
