"""Running gangs by rank, kept from one decision to the next, so that each costs what has changed.

    its record is another one         it began to run, was asked to stop, lost a worker, moved
    its answer holds no longer        it left its class, or may be stopped from now on
    the policy's version is another   all are ranked anew

A Ranking that was renewed for a snapshot equals one made anew for it.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter

from scheduler.domain.ids import JobId
from scheduler.domain.instants import Instant
from scheduler.domain.job import JobPhase
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.engine.known_gangs import KnownGangs
from scheduler.policies.interface import Key, Ranks

ANEW_SHARE = 4
"""Where one in so many has changed, sorting them all is less work than filing these."""

VOID_MAX = 100
"""So much that is out of date is kept however few gangs there are."""


@dataclass(slots=True, eq=False, kw_only=True)
class Ranked:
    """A running gang and what the policy says of it."""

    gang: RunningGang
    rank: Key
    gpus: int
    """That it holds."""
    may_stop: bool
    """And does not go anyway."""
    tells_length: bool
    holds_until: Instant | None
    changes_at: Instant | None


_Filed = tuple[Key, Ranked]
"""No two gangs have the same rank."""

_Dated = tuple[Instant, int, Ranked]
"""With a number, so that two of one instant are never compared any further."""

_rank_of = itemgetter(0)


class Ranking:
    """The gangs of the last snapshot. Mutable: it follows the snapshots it is shown."""

    def __init__(self) -> None:
        self._version: object = None
        self._at = Instant(0)
        self._gangs = KnownGangs()
        self._known: dict[JobId, Ranked] = {}
        """What was said of them."""
        self._stoppable: list[_Filed] = []
        """Gangs that may be stopped, the first in rank first."""
        self._ends: list[_Dated] = []
        """When answers hold no longer; an entry may be out of date."""
        self._changes: list[_Dated] = []
        """When gangs give reason for another decision; the same."""
        self._numbers = count()

    def clear(self) -> None:
        """No gang runs."""
        self._gangs.clear()
        self._known.clear()
        self._stoppable.clear()
        self._ends.clear()
        self._changes.clear()

    def renew(self, snapshot: Snapshot, ranks: Ranks) -> None:
        """Follow what has changed since the last time."""
        version, now = ranks.rank_version, snapshot.now
        # A clock that was set back makes answers new that were given for later.
        if version != self._version or now < self._at:
            self.clear()
        self._version, self._at = version, now
        self._drop(self._gangs.take_gone(snapshot.holding))
        new = self._gangs.take_new(snapshot.holding) + self._take_ended(now)
        if len(new) * ANEW_SHARE > len(snapshot.holding):
            self._make([*self._known.values(), *(_ranked(gang, ranks) for gang in new)])
            return
        for gang in new:
            self._file(_ranked(gang, ranks))
        self._thin_out()

    def keep(self, holding: Sequence[RunningGang]) -> None:
        """Nobody waits: the others are forgotten, and nothing is asked."""
        self._drop(self._gangs.take_gone(holding))
        self._thin_out()

    def stoppable_behind(self, key: Key) -> Sequence[Ranked]:
        """Gangs ranked behind a key that may be stopped, the first in rank first."""
        behind = self._stoppable[bisect_right(self._stoppable, key, key=_rank_of) :]
        return [each for _, each in behind]

    def next_change_at(self) -> Instant | None:
        """When the first gang gives reason for another decision."""
        heap = self._changes
        while heap and self._is_void(heap[0][2]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _take_ended(self, now: Instant) -> list[RunningGang]:
        """Gangs whose answers hold no longer."""
        heap = self._ends
        ended: list[RunningGang] = []
        while heap and heap[0][0] <= now:
            each = heapq.heappop(heap)[2]
            if not self._is_void(each):
                self._drop([each.gang.job.id])
                ended.append(each.gang)
        return ended

    def _is_void(self, each: Ranked) -> bool:
        return self._known.get(each.gang.job.id) is not each

    def _drop(self, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            each = self._known.pop(job_id)
            if each.may_stop:
                del self._stoppable[bisect_left(self._stoppable, each.rank, key=_rank_of)]

    def _file(self, each: Ranked) -> None:
        self._known[each.gang.job.id] = each
        if each.may_stop:
            insort(self._stoppable, (each.rank, each), key=_rank_of)
        if each.holds_until is not None:
            heapq.heappush(self._ends, (each.holds_until, next(self._numbers), each))
        if each.changes_at is not None:
            heapq.heappush(self._changes, (each.changes_at, next(self._numbers), each))

    def _make(self, every: Sequence[Ranked]) -> None:
        """All at once."""
        self._known = {each.gang.job.id: each for each in every}
        self._stoppable = [(each.rank, each) for each in every if each.may_stop]
        self._stoppable.sort(key=_rank_of)
        self._put_in_order()

    def _thin_out(self) -> None:
        """What is out of date is not kept for ever."""
        if max(len(self._ends), len(self._changes)) > 2 * len(self._known) + VOID_MAX:
            self._put_in_order()

    def _put_in_order(self) -> None:
        every = self._known.values()
        self._ends = self._heap((each.holds_until, each) for each in every)
        self._changes = self._heap((each.changes_at, each) for each in every)

    def _heap(self, dated: Iterable[tuple[Instant | None, Ranked]]) -> list[_Dated]:
        heap = [(at, next(self._numbers), each) for at, each in dated if at is not None]
        heapq.heapify(heap)
        return heap


def _ranked(gang: RunningGang, ranks: Ranks) -> Ranked:
    is_leaving = gang.job.phase is JobPhase.STOPPING or gang.job.stop_requested is not None
    may_stop = not is_leaving and ranks.may_stop(gang)
    return Ranked(
        gang=gang,
        rank=ranks.rank(gang) if may_stop else (),
        gpus=sum(held.gpus for held in gang.reservations),
        may_stop=may_stop,
        tells_length=may_stop and ranks.tells_length(gang),
        holds_until=ranks.holds_until(gang),
        changes_at=ranks.changes_at(gang),
    )
