"""Drives every live gang on: asks the cluster for what its phase wants, writes its moves.

Requests follow from what is stored, never the other way round, and each may be made twice: so
whatever a crash leaves undone, the next leader's first look at the store makes good.
"""

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from scheduler.control.cluster_watch import ClusterWatch
from scheduler.control.gang import ONCE_MADE, TERMINAL_STATES, Gang
from scheduler.control.live_jobs import LiveJobs
from scheduler.control.moves import Moment, Move, hang_at, next_due, next_move
from scheduler.control.outside import Outside
from scheduler.control.strays import Strays
from scheduler.control.writing import as_written, step_of, unit_of
from scheduler.domain.copying import copier_of, maker_of, quickly_made, replace
from scheduler.domain.errors import ConflictError
from scheduler.domain.failures import BLAME, Blame, run_time_of
from scheduler.domain.ids import Epoch, JobId
from scheduler.domain.instants import Instant, after, in_seconds
from scheduler.domain.job import Attempt, AttemptPhase, Outcome
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.snapshot import RunningGang
from scheduler.ports.cluster import GangOrder
from scheduler.ports.kill_points import KillPoint, reach

MOVES_MAX = 16
"""More moves than a gang can make in one go; a bound, so that a bug can not spin."""


class Wish(StrEnum):
    """What is asked of the cluster for an attempt."""

    PREPARE = "prepare"
    RELEASE = "release"
    STOP = "stop"


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The last request made for an attempt by this leader."""

    wish: Wish
    kill_at: Instant | None
    at_look: int


_asked, _gang_of, _running_gang = maker_of(_Asked), maker_of(Gang), maker_of(RunningGang)
_with_absence = copier_of(Gang, "absent_are_down")


class Settling:
    """Brings gangs and their records together; owned by the loop."""

    def __init__(
        self,
        outside: Outside,
        live: LiveJobs,
        watch: ClusterWatch,
        *,
        strays: Strays,
    ) -> None:
        self._outside = outside
        self._live = live
        self._watch = watch
        self._strays = strays
        self._asked: dict[AttemptKey, _Asked] = {}
        self._last_steps: dict[AttemptKey, Instant] = {}
        self._has_asked = False
        self._has_lost_a_race = False
        self._again: set[JobId] = set()
        """Gangs to look at in the next round, whatever it brings."""
        self._due: dict[JobId, Instant] = {}
        """When the passing of time alone may bring the next move of a gang."""
        self._due_heap: list[tuple[Instant, JobId]] = []
        """The same in order; an entry that `_due` does not have any more is void."""
        self._rules: object = None
        """Knobs of the last round, its lost nodes and those to be left."""

    def forget(self) -> None:
        """Know nothing of what was asked: a new term begins."""
        self._asked.clear()
        self._last_steps.clear()
        self._again.clear()
        self._due.clear()
        self._due_heap.clear()
        self._rules = None

    def advance_changed(
        self, moment: Moment, epoch: Epoch, *, news: Collection[AttemptKey] | None
    ) -> None:
        """Move every live gang that something has happened to as far as it goes now.

        `news`: attempts that the cluster told something of; None: it may have told of any.
        """
        rules = (moment.knobs, moment.own_knobs, moment.lost_nodes, moment.leaving)
        job_ids = self._live.take_news()
        job_ids |= self._again
        job_ids |= self._take_due(moment.now)
        self._again.clear()
        if news is None or rules != self._rules:
            job_ids |= self._live.attempts.keys()
        else:
            job_ids |= {key.job_id for key in news}
        self._rules = rules
        for job_id in sorted(job_ids):
            self.advance(job_id, moment, epoch)

    def advance(self, job_id: JobId, moment: Moment, epoch: Epoch) -> None:
        """Move one gang as far as it goes now."""
        gang = self._advance(job_id, moment, epoch)
        self._note_due(job_id, gang, moment)

    def _advance(self, job_id: JobId, moment: Moment, epoch: Epoch) -> Gang | None:
        """The gang as it is then; None if there is none any more."""
        live = self._live.attempts.get(job_id)
        if live is None:
            return None
        gang: Gang | None = self._gang(live)
        for _ in range(MOVES_MAX):
            if gang is None:
                break
            if gang.job.spec.hang_timeout is not None:
                gang = self._with_last_step(gang, moment)
            self._ask(gang, moment)
            move = next_move(gang, moment)
            if move is None:
                return gang
            gang = self._write(gang, move, epoch)
        live = self._live.attempts.get(job_id)
        return None if live is None else self._gang(live)

    def has_asked(self) -> bool:
        """Whether the cluster was asked for something since this was last asked: its answer may
        be there already."""
        has_asked, self._has_asked = self._has_asked, False
        return has_asked

    def has_lost_a_race(self) -> bool:
        """Whether, since last asked, a job had changed when its move was to be written."""
        has_lost, self._has_lost_a_race = self._has_lost_a_race, False
        return has_lost

    def next_due(self) -> Instant | None:
        """When the passing of time alone may bring the next move."""
        heap, due = self._due_heap, self._due
        while heap and due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _take_due(self, now: Instant) -> set[JobId]:
        """Gangs whose time has come."""
        taken: set[JobId] = set()
        while (at := self.next_due()) is not None and at <= now:
            _, job_id = heapq.heappop(self._due_heap)
            del self._due[job_id]
            taken.add(job_id)
        return taken

    def _note_due(self, job_id: JobId, gang: Gang | None, moment: Moment) -> None:
        at = None if gang is None else next_due(gang, moment)
        if at is None:
            self._due.pop(job_id, None)
        elif self._due.get(job_id) != at:
            self._due[job_id] = at
            heapq.heappush(self._due_heap, (at, job_id))

    def _gang(self, live: RunningGang) -> Gang:
        attempt = live.attempt
        key = AttemptKey(attempt.job_id, attempt.number)
        return _gang_of(
            key=key,
            job=live.job,
            attempt=attempt,
            reservations=live.reservations,
            reports=self._watch.reports_of(key),
            absent_are_down=self._absent_are_down(key, attempt),
            last_step_at=self._last_steps.get(key),
        )

    def _with_last_step(self, gang: Gang, moment: Moment) -> Gang:
        """Step reports come past the loop: they are looked up only when one seems overdue."""
        overdue_at = hang_at(gang)
        if overdue_at is None or overdue_at > moment.now:
            return gang
        steps = self._outside.store.progress(gang.job.id)
        reported = [step.reported_at for key, step in steps if key == gang.key]
        if not reported:
            return gang
        self._last_steps[gang.key] = max(reported)
        return replace(gang, last_step_at=max(reported))

    def _absent_are_down(self, key: AttemptKey, attempt: Attempt) -> bool:
        if attempt.phase in ONCE_MADE:
            return self._watch.absent_are_down(key)
        asked = self._asked.get(key)
        if attempt.phase is not AttemptPhase.STOPPING or asked is None:
            return False
        return self._watch.absent_are_down(key, since_look=asked.at_look)

    def _ask(self, gang: Gang, moment: Moment) -> None:
        """Ask the cluster for what the phase wants, once a term."""
        wish = _wish_of(gang)
        if wish is None:
            return
        kill_at = gang.attempt.kill_at if wish is Wish.STOP else None
        asked = self._asked.get(gang.key)
        if asked is not None and asked.wish is wish and asked.kill_at == kill_at:
            self._look_for_the_absent(gang)
            return
        # Its answer may be there at the next look although nothing else has changed.
        self._again.add(gang.job.id)
        self._has_asked = True
        self._request(wish, gang, moment)
        self._asked[gang.key] = _asked(wish=wish, kill_at=kill_at, at_look=self._watch.looks)
        self._look_for_the_absent(gang)

    def _look_for_the_absent(self, gang: Gang) -> None:
        """Of a gang that is not seen (any more), only a whole list says that it is not there."""
        phase = gang.attempt.phase
        is_awaited = phase is AttemptPhase.STOPPING or phase in ONCE_MADE
        if is_awaited and not gang.reports and not self._absent_are_down(gang.key, gang.attempt):
            self._watch.look_whole()

    def _request(self, wish: Wish, gang: Gang, moment: Moment) -> None:
        cluster = self._outside.acting_cluster()
        match wish:
            case Wish.PREPARE:
                reach(KillPoint.LAUNCH_BEFORE_PREPARE)
                cluster.prepare(_order_of(gang))
                reach(KillPoint.LAUNCH_AFTER_PREPARE)
            case Wish.RELEASE:
                reach(KillPoint.LAUNCH_BEFORE_RELEASE)
                cluster.release(gang.key)
                reach(KillPoint.LAUNCH_AFTER_RELEASE)
            case Wish.STOP:
                reach(KillPoint.CANCEL_BEFORE_STOP)
                cluster.stop(gang.key, kill_at=gang.attempt.kill_at or moment.now)
                reach(KillPoint.CANCEL_AFTER_STOP)
            case _:
                assert_never(wish)

    def _write(self, before: Gang, move: Move, epoch: Epoch) -> Gang | None:
        """The gang as it goes on; None if it has ended, or had changed meanwhile."""
        after_move = as_written(before, move.gang)
        step = step_of(before, after_move)
        reach(step.before)
        try:
            # The store keeps the very record that is kept here, so that it is known again.
            self._live.write(unit_of(before, after_move, move, epoch), self._outside.store)
        except ConflictError:
            self._has_lost_a_race = True
            self._again.add(before.job.id)
            return None
        reach(step.after)
        if self._outside.is_listened_to:
            self._tell(before, move)
        if after_move.attempt.phase is AttemptPhase.ENDED:
            self._live.put(after_move.job, None)
            self._forget_attempt(after_move)
            return None
        job, attempt = after_move.job, after_move.attempt
        live = _running_gang(job=job, attempt=attempt, reservations=after_move.reservations)
        self._live.put(job, live)
        absent_are_down = self._absent_are_down(after_move.key, attempt)
        if absent_are_down is after_move.absent_are_down:
            return after_move
        return _with_absence(after_move, absent_are_down=absent_are_down)

    def _forget_attempt(self, gang: Gang) -> None:
        self._asked.pop(gang.key, None)
        self._last_steps.pop(gang.key, None)
        if any(report.state not in TERMINAL_STATES for report in gang.reports.values()):
            # Written off with its node, and not seen to end: the strays are looked after later.
            self._strays.note({gang.key})
            return
        cluster = self._outside.acting_cluster()
        reach(KillPoint.RUN_BEFORE_FORGET)
        cluster.forget(gang.key)
        reach(KillPoint.RUN_AFTER_FORGET)
        self._watch.forget_attempt(gang.key)

    def _tell(self, before: Gang, move: Move) -> None:
        job, attempt = move.gang.job, move.gang.attempt
        if attempt.phase is before.attempt.phase:
            return
        facts: dict[str, str | int | float | bool | None] = {
            "job": job.id,
            "queue": job.spec.queue,
            "attempt": attempt.number,
            "phase": attempt.phase,
            "job_phase": job.phase,
        }
        if attempt.phase is AttemptPhase.ENDED:
            facts["outcome"] = attempt.outcome
            facts["run_s"] = in_seconds(run_time_of(attempt))
            facts |= _judged(attempt.outcome)
        self._outside.sink.emit("gang_moved", facts)


def _judged(outcome: Outcome | None) -> dict[str, bool]:
    assert outcome is not None, "an ended attempt has an outcome"
    return {
        "is_failure": BLAME[outcome] in {Blame.USER, Blame.CLUSTER},
        "is_eviction": BLAME[outcome] is Blame.SCHEDULER,
    }


def _wish_of(gang: Gang) -> Wish | None:
    phase = gang.attempt.phase
    if phase is AttemptPhase.STOPPING:
        return Wish.STOP
    if gang.job.stop_requested is not None or phase not in _WISHES:
        return None
    return _WISHES[phase]


_WISHES: Mapping[AttemptPhase, Wish] = {
    AttemptPhase.RESERVED: Wish.PREPARE,
    AttemptPhase.PREPARING: Wish.PREPARE,
    AttemptPhase.PREPARED: Wish.RELEASE,
    AttemptPhase.RELEASED: Wish.RELEASE,
}


_gang_order = maker_of(GangOrder)


def _order_of(gang: Gang) -> GangOrder:
    job, attempt = gang.job, gang.attempt
    run_time_max = job.spec.run_time_max
    return _gang_order(
        attempt=gang.key,
        epoch=attempt.epoch,
        project=job.project,
        name=job.name,
        spec=job.spec,
        placement=attempt.placement,
        reservations=gang.reservations,
        deadline=None if run_time_max is None else after(attempt.created_at, run_time_max),
        priority=job.priority,
        submitted_at=job.submitted_at,
        submitted_by=job.submitted_by,
    )
