"""What may be concluded from a worker that the cluster does not list, and what may not."""

from dataclasses import replace

from scheduler.adapters.memory.clock import ManualClock
from scheduler.adapters.memory.cluster import MemoryCluster
from scheduler.control.cluster_watch import ClusterWatch
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.ports.cluster import ClusterView, WorkerReport, WorkerState
from tests.builders import a_node
from tests.gangs import a_key

KEY = a_key()
NODE = a_node("n0", path=())
NOW = Instant(0)
EMPTY = ClusterView(levels=(), nodes=(NODE,), workers=(), is_complete=True)
RUNNING = replace(
    EMPTY,
    workers=(WorkerReport(attempt=KEY, rank=Rank(0), node=NODE.name, state=WorkerState.RUNNING),),
    attempts_complete=frozenset({KEY}),
)
WITH_GAPS = replace(EMPTY, is_complete=False)
UNSETTLED = replace(EMPTY, attempts_unsettled=frozenset({KEY}))


class ToldCluster(MemoryCluster):
    """Shows what it was told to show."""

    def __init__(self) -> None:
        super().__init__(ManualClock(NOW), [NODE])
        self.shown = EMPTY
        self.asked_after: int | None = None

    def observe(self, after: int | None = None) -> ClusterView:
        self.asked_after = after
        return self.shown


class Watching:
    """A watch and the cluster it looks at."""

    def __init__(self) -> None:
        self.watch = ClusterWatch()
        self.cluster = ToldCluster()

    def look_whole(self, view: ClusterView) -> bool:
        """A whole look that somebody waits for; whether it is news."""
        self.watch.look_whole()
        return self.look(view)

    def look(self, view: ClusterView) -> bool:
        """The next look; whether it is news."""
        self.cluster.shown = view
        return self.watch.look(self.cluster, NOW)


def test_a_whole_list_says_what_is_not_there() -> None:
    watching = Watching()
    watching.look(EMPTY)
    assert watching.watch.absent_are_down(KEY)
    assert not watching.watch.absent_are_down(KEY, since_look=1)


def test_a_list_with_gaps_says_nothing_whatever_was_known_before() -> None:
    watching = Watching()
    watching.look(RUNNING)
    watching.look_whole(WITH_GAPS)
    assert not watching.watch.absent_are_down(KEY)
    watching.look_whole(EMPTY)
    assert watching.watch.absent_are_down(KEY)


def test_a_list_says_nothing_of_what_is_unsettled() -> None:
    watching = Watching()
    watching.look(UNSETTLED)
    assert not watching.watch.absent_are_down(KEY)
    assert watching.watch.absent_are_down(a_key("another"))
    watching.look(EMPTY)
    assert not watching.watch.absent_are_down(KEY), "it was a change set"
    watching.look_whole(EMPTY)
    assert watching.watch.absent_are_down(KEY)


def test_a_whole_look_that_is_awaited_is_news_and_the_next_one_is_not() -> None:
    watching = Watching()
    watching.look(EMPTY)
    assert watching.look_whole(EMPTY)
    assert watching.cluster.asked_after is None
    assert not watching.look(EMPTY)
    assert watching.cluster.asked_after is not None
