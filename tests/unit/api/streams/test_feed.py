"""A feed tells each follower every change after its place once, in order."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from api.streams.feed import MAILBOX_SIZE, PAGE, Feed, Follower
from api.streams.mailbox import Mailbox
from scheduler.domain.errors import HistoryGoneError


class Place(NamedTuple):
    """A place in the stream of numbers."""

    number: int


class Numbers:
    """A stream of numbers, read in pages."""

    def __init__(self, count: int = 0) -> None:
        self.last = count
        self.horizon = 0
        self.reads = 0
        self.feed: Feed[int, Place] = Feed(self._read, Place)

    def _read(self, after: Place) -> Sequence[int]:
        self.reads += 1
        if after.number < self.horizon:
            raise HistoryGoneError(asked=after.number, horizon=self.horizon)
        return range(after.number + 1, min(self.last, after.number + PAGE) + 1)


@pytest.fixture
def loop() -> asyncio.AbstractEventLoop:
    made = asyncio.new_event_loop()
    made.close()
    # Closed: what is put into mailboxes is only counted, as nobody waits.
    return made


def joined(numbers: Numbers, loop: asyncio.AbstractEventLoop, at: int) -> Follower[int, Place]:
    follower: Follower[int, Place] = Follower(loop, Place(at))
    numbers.feed.join(follower)
    return follower


def taken(follower: Follower[int, Place]) -> list[int]:
    """What has come."""
    return asyncio.run(follower.mailbox.take(0.001)) or []


def test_each_follower_is_told_what_comes_after_its_place(
    loop: asyncio.AbstractEventLoop,
) -> None:
    numbers = Numbers(5)
    early, late = joined(numbers, loop, 0), joined(numbers, loop, 3)
    assert numbers.feed.work()
    numbers.last = 7
    numbers.feed.work()

    assert taken(early) == [1, 2, 3, 4, 5, 6, 7]
    assert taken(late) == [4, 5, 6, 7]


def test_nobody_is_told_twice_when_a_newcomer_comes_from_further_back(
    loop: asyncio.AbstractEventLoop,
) -> None:
    numbers = Numbers(5)
    settled = joined(numbers, loop, 0)
    numbers.feed.work()
    # More changes come while the newcomer catches up: the settled one is told of them later.
    newcomer = joined(numbers, loop, 5)
    ahead = joined(numbers, loop, 8)
    numbers.feed.work()
    numbers.last = 10
    numbers.feed.work()

    assert taken(settled) == list(range(1, 11))
    assert taken(newcomer) == list(range(6, 11))
    assert taken(ahead) == [9, 10]


def test_settled_followers_cost_one_read_together(loop: asyncio.AbstractEventLoop) -> None:
    numbers = Numbers()
    for _ in range(50):
        joined(numbers, loop, 0)
    numbers.feed.work()
    before = numbers.reads
    numbers.last = 1
    numbers.feed.work()

    assert numbers.reads - before == 1


def test_a_newcomer_far_behind_is_not_taken_for_slow(loop: asyncio.AbstractEventLoop) -> None:
    numbers = Numbers(3 * MAILBOX_SIZE)
    follower = joined(numbers, loop, 0)
    seen: list[int] = []
    while len(seen) < numbers.last:
        numbers.feed.work()
        seen += taken(follower)

    assert seen == list(range(1, numbers.last + 1))
    assert not follower.is_too_slow


def test_who_does_not_take_is_cut_off_and_the_others_are_not(
    loop: asyncio.AbstractEventLoop,
) -> None:
    numbers = Numbers()
    slow, quick = joined(numbers, loop, 0), joined(numbers, loop, 0)
    numbers.feed.work()
    seen: list[int] = []
    for _ in range(MAILBOX_SIZE // PAGE + 1):
        numbers.last += PAGE
        numbers.feed.work()
        seen += taken(quick)

    assert slow.is_too_slow
    assert not quick.is_too_slow
    assert seen == list(range(1, numbers.last + 1))


def test_a_forgotten_place_ends_only_its_own_follower(loop: asyncio.AbstractEventLoop) -> None:
    numbers = Numbers(10)
    numbers.horizon = 5
    old, present = joined(numbers, loop, 2), joined(numbers, loop, 8)
    numbers.feed.work()

    assert old.gone is not None
    assert present.gone is None
    assert taken(present) == [9, 10]


def test_nobody_follows_once_the_last_one_has_left(loop: asyncio.AbstractEventLoop) -> None:
    numbers = Numbers()
    follower = joined(numbers, loop, 0)
    assert numbers.feed.work()
    numbers.feed.leave(follower)

    assert not numbers.feed.work()


def test_who_joins_a_closed_feed_is_sent_away(loop: asyncio.AbstractEventLoop) -> None:
    numbers = Numbers()
    before = joined(numbers, loop, 0)
    numbers.feed.close()
    later = joined(numbers, loop, 0)

    assert asyncio.run(before.mailbox.take(0.001)) is None
    assert asyncio.run(later.mailbox.take(0.001)) is None


def test_a_mailbox_gives_what_it_has_before_it_says_that_it_is_closed() -> None:
    async def take_twice() -> list[list[int] | None]:
        mailbox: Mailbox[int] = Mailbox(asyncio.get_running_loop(), size_max=5)
        mailbox.put([1, 2])
        mailbox.close()
        return [await mailbox.take(1), await mailbox.take(1)]

    assert asyncio.run(take_twice()) == [[1, 2], None]
