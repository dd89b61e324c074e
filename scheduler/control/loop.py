"""ControlLoop: tick() observes, settles, decides, checks, applies and tells; alike in both worlds.

observe ──────▶ settle ───────▶ decide ──▶ check ──▶ apply ──▶ tell
store, cluster   moves of gangs  Plan                 claims    why-answers
"""

from collections.abc import Mapping
from typing import NamedTuple

from scheduler.control.answers import AnswerBook
from scheduler.control.applying import (
    cancel_waiting,
    claim_starts,
    claim_stops,
    claim_waits,
    withdraw_promises,
)
from scheduler.control.census import Census
from scheduler.control.cluster_watch import ClusterWatch
from scheduler.control.idle_time import IdleByChoice
from scheduler.control.leaving_alone import note_exclusions
from scheduler.control.lessons import PastLessons
from scheduler.control.live_jobs import LiveJobs
from scheduler.control.measuring import ReportedSteps
from scheduler.control.moves import Moment
from scheduler.control.observing import (
    Observed,
    outage_answers,
    safe_mode_answers,
    snapshot_of,
)
from scheduler.control.outside import Outside
from scheduler.control.settling import Settling
from scheduler.control.stray_book import StrayBook
from scheduler.control.strays import Strays
from scheduler.control.timers import TimerWatch
from scheduler.domain.copying import maker_of
from scheduler.domain.errors import (
    ClusterUnavailableError,
    LeaseLapsedError,
    StaleEpochError,
    StoreRestoredError,
    StoreUnavailableError,
)
from scheduler.domain.ids import Epoch, JobId, QueueName, Sequence
from scheduler.domain.instants import SECOND, Duration, Instant, after, in_seconds, seconds
from scheduler.domain.knob_sheet import NOTHING_SAID
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import Blocked, StoreOutdated
from scheduler.domain.plan import Plan
from scheduler.domain.queue import Queue
from scheduler.domain.topology import Node
from scheduler.engine.cycle import decide_by_knobs, has_nobody_to_move, has_nothing_to_decide
from scheduler.engine.decision import Decision, answers_of
from scheduler.engine.invariants import check_starts
from scheduler.engine.standing import Standing
from scheduler.ports.kill_points import KillPoint, reach
from scheduler.ports.unit import Answer, Change, RecordCycle, SaveAnswers, SaveNodes, Unit

CYCLE_TOLD_EVERY = seconds(5)
"""How old the recorded cycle may get while nothing changes: it shows that the loop lives."""


_moment, _observed = maker_of(Moment), maker_of(Observed)


class _Basis(NamedTuple):
    """What a decision was made on; while it is the same, so is the decision."""

    pending: int
    free: int
    cluster: int
    knobs: PolicyKnobs
    queues: Mapping[QueueName, Queue]


class ControlLoop:
    """One scheduler loop. `tick` is called by one thread, never twice at once."""

    quiet_until: Instant | None = None
    """When to call again at the latest if neither the cluster nor the store brings anything
    before, for a driver that knows whether they do; None: at once."""

    def __init__(
        self, outside: Outside, *, poll: Duration = SECOND, tell_every: Duration = Duration(0)
    ) -> None:
        """`poll`: the longest time between two ticks. `tell_every`: why jobs wait, and how many
        there are, is told no more often than so."""
        self._outside = outside
        self._poll, self._tell_every = poll, tell_every
        self._watch = ClusterWatch()
        self._standing = Standing(self._watch.tree, step_times_maker=outside.step_times)
        self._live = LiveJobs(self._standing)
        self._strays = Strays(outside, self._live, self._watch)
        self._stray_book = StrayBook(outside, self._live, self._watch)
        self._outdated: StoreOutdated | None = None
        """Set while nothing is started or stopped."""
        self._told_safe_of = -1
        """Version of the waiting jobs that were told so."""
        self._lessons = PastLessons()
        self._reported = ReportedSteps(self._live, self._standing)
        self._settling = Settling(outside, self._live, self._watch, strays=self._strays)
        self._book = AnswerBook()
        self._timers = TimerWatch(outside.sink)
        self._idle = IdleByChoice(outside.sink)
        self._census = Census(outside.sink)
        self._epoch: Epoch | None = None
        self._knobs = PolicyKnobs()
        self._queues: Mapping[QueueName, Queue] = {}
        self._own_knobs: Mapping[QueueName, PolicyKnobs] = {}
        """Of the queues that have some."""
        self._decision = Decision(plan=Plan(made_on=Sequence(0)))
        self._basis: _Basis | None = None
        """What `_decision` was made on."""
        self._nodes_standing: tuple[Node, ...] = ()
        """The nodes `_standing` was made of."""
        self._nodes_saved = -1
        """Generation of the cluster whose nodes the store has."""
        self._due: Instant | None = None
        """When the passing of time alone brings the next change."""
        self._has_unfinished = False
        """The last tick has left something undone: the next one goes on, whatever it sees."""
        self._cycle = 0
        self._cycle_told_at: Instant | None = None
        self._told: Decision | None = None
        """The decision whose answers the store has."""
        self._told_at: Instant | None = None

    def tick(self) -> Instant:
        """One cycle. Returns when to call again at the latest."""
        now = self._outside.clock.now()
        self.quiet_until = None
        try:
            epoch = self._outside.leadership.lead()
            if epoch != self._epoch:
                self._begin_term(epoch)
            if epoch is not None:
                return self._lead(epoch, now)
        except StaleEpochError as error:
            self._begin_term(None)
            self._outside.sink.emit("deposed", {"mine": error.mine, "current": error.current})
        except LeaseLapsedError:
            self._take_up_again()
            self._outside.sink.emit("lease_lapsed", {})
            return now  # It is renewed before all else.
        except StoreRestoredError as error:
            # Whatever was known, the store has not seen it: the term begins anew, with a look at
            # every gang. One made in this term that it does not know shows that it is older.
            self._begin_term(None)
            self._outside.sink.emit("store_restored", {"error": str(error)})
        except StoreUnavailableError as error:
            # What of the last unit was written is not known: read everything again.
            self._begin_term(None)
            self._outside.sink.emit("store_unavailable", {"error": str(error)})
        except ClusterUnavailableError as error:
            self._take_up_again()
            self._outside.sink.emit("cluster_unavailable", {"error": str(error)})
        return after(now, self._poll)

    def _take_up_again(self) -> None:
        """Half a tick was done. The next one looks at every gang and decides anew, whatever it
        sees: nothing is built on that half. What the store holds is known as it is."""
        self._watch.expect_anything()
        self._basis = None
        self._has_unfinished = True

    def _begin_term(self, epoch: Epoch | None) -> None:
        """Another term, or none: what was known and asked belongs to the past."""
        self._epoch = epoch
        self._live.forget()
        self._watch.forget()
        self._settling.forget()
        self._strays.forget()
        self._stray_book.forget()
        self._outdated = None
        self._book.forget()
        self._timers.forget()
        self._lessons.forget()
        self._reported.forget()
        self._idle.forget()
        self._basis = None
        self._nodes_saved = -1
        self._due = None
        self._told = None
        self._told_at = None
        self._outside.sink.emit("leadership", {"epoch": epoch, "leads": epoch is not None})
        if epoch is not None:
            last = self._outside.store.last_cycle()
            self._cycle = last.cycle if last is not None else 0
            self._cycle_told_at = None

    def _lead(self, epoch: Epoch, now: Instant) -> Instant:
        # 1. Observe: what has changed in the store and in the cluster.
        self._idle.pass_time(now)
        is_news = self._observe(epoch, now)
        self._stray_book.look(epoch, now)
        if self._note_safe_mode():
            self._due = None  # Whatever it was, it waits, and is worked out anew afterwards.
            self._tell(epoch, now)
            return self._next_tick(now)
        is_due = self._has_unfinished or (self._due is not None and now >= self._due)
        if not is_news and not is_due:
            self._tell(epoch, now, is_idle=True)
            self._tell_timers(epoch, now)
            self.quiet_until = self._next_tick(now)
            return self.quiet_until

        # 2. Settle: every gang moves on as far as it goes.
        moment = self._moment(now)
        news = self._watch.take_news()
        self._settling.advance_changed(moment, epoch, news=news)
        self._strays.note(news)
        has_lost_a_race = cancel_waiting(self._live, self._outside, epoch=epoch)
        self._strays.look_after(now)

        # 3. Decide, check and apply, if anything a decision may look at has changed.
        has_lost_a_race |= self._decide_and_apply(moment, epoch)

        # 4. Tell why the rest waits, and what was learned.
        self._idle.look_at(self._decision, self._live, self._standing)
        self._tell(epoch, now)
        self._tell_timers(epoch, now)
        self._due = self._next_due(moment)
        has_lost_a_race |= self._settling.has_lost_a_race()
        self._has_unfinished = self._settling.has_asked() or has_lost_a_race
        next_tick = self._next_tick(now)
        self.quiet_until = None if has_lost_a_race else next_tick
        return now if self._has_unfinished else next_tick

    def _note_safe_mode(self) -> bool:
        """Note what the strays show; whether nothing is to be started or stopped, for the store is
        older than the cluster."""
        outdated = self._stray_book.outdated
        if outdated is None and self._outdated is None:
            return False
        is_new = outdated != self._outdated
        if is_new or (outdated is not None and self._told_safe_of != self._live.pending_version):
            # Nothing that was decided holds any more, and nothing was acted upon meanwhile.
            self._outdated, self._told_safe_of = outdated, self._live.pending_version
            assert self._live.sequence is not None
            self._decision = Decision(plan=Plan(made_on=self._live.sequence))
            self._take_up_again()
        return outdated is not None

    def _observe(self, epoch: Epoch, now: Instant) -> bool:
        read_up_to = self._live.sequence
        is_news = self._live.refresh(self._outside.store)
        if self._live.sequence != read_up_to:
            knobs = self._outside.store.knobs()
            queues = {queue.name: queue for queue in self._outside.store.queues()}
            if (knobs, queues) != (self._knobs, self._queues):
                is_news = True
                self._take_knobs(knobs, queues)
            cordons = {each.node: each for each in self._outside.store.cordons()}
            exclusions = self._outside.store.exclusions()
            is_news = self._watch.set_said(cordons, exclusions, now) or is_news
            self._live.has_lessons = True
        if self._live.has_lessons:
            self._live.has_lessons = False
            assert self._live.sequence is not None
            self._lessons.refresh(self._outside.store, self._live.sequence)
            if self._outside.measured is None:
                self._reported.refresh(self._outside.store, self._live.sequence)
        is_news = self._watch.look(self._outside.cluster, now) or is_news
        if is_news and self._watch.is_reachable:
            note_exclusions(self._watch, self._live, self._outside, epoch=epoch, now=now)
        if self._nodes_standing is not self._watch.nodes:
            self._nodes_standing = self._watch.nodes
            self._standing.renew(self._watch.tree, self._watch.nodes, self._live.attempts.values())
        if self._watch.is_reachable and self._nodes_saved != self._watch.generation:
            save = SaveNodes(levels=self._watch.levels, nodes=self._watch.told_nodes, at=now)
            self._live.write(Unit(changes=(save,), epoch=epoch), self._outside.store)
            self._nodes_saved = self._watch.generation
        return is_news

    def _take_knobs(self, knobs: PolicyKnobs, queues: Mapping[QueueName, Queue]) -> None:
        self._knobs, self._queues = knobs, queues
        self._own_knobs = {
            name: queue.knobs.over(knobs)
            for name, queue in queues.items()
            if queue.knobs != NOTHING_SAID
        }

    def _moment(self, now: Instant) -> Moment:
        return _moment(
            now=now,
            knobs=self._knobs,
            own_knobs=self._own_knobs,
            reachable_since=self._watch.reachable_since,
            lost_nodes=self._watch.lost_nodes(now, self._knobs.node_lost_after),
            leaving=self._watch.leaving,
        )

    def _decide_and_apply(self, moment: Moment, epoch: Epoch) -> bool:
        """Whether to look again at once: a claim was lost."""
        wake_at = self._decision.plan.next_wakeup
        if (wake_at is None or moment.now < wake_at) and self._stands_on(self._basis):
            return False
        basis = self._present_basis()
        self._decision = self._decide(moment.now)
        self._basis = basis
        plan = self._decision.plan
        if plan.withdraw and withdraw_promises(plan, self._live, self._outside, epoch=epoch):
            self._basis = None
            return True
        has_lost_waits = bool(plan.waits) and claim_waits(
            plan, self._live, self._outside, epoch=epoch
        )
        if not (plan.start or plan.stop or plan.promise):
            # Noted clocks change nothing that the same decision would not find again.
            if plan.waits or plan.withdraw:
                self._basis = None if has_lost_waits else self._present_basis()
            return has_lost_waits
        started = claim_starts(
            plan, self._live, self._watch.numbered_nodes, self._outside, epoch=epoch
        )
        stopped = claim_stops(plan, self._live, self._outside, epoch=epoch)
        for job_id in (*started.job_ids, *stopped.job_ids):
            self._settling.advance(job_id, moment, epoch)
        has_lost = has_lost_waits or started.has_lost_a_race or stopped.has_lost_a_race
        if has_lost:
            # What the decision was made on may look the same, and is not.
            self._basis = None
        return has_lost

    def _decide(self, now: Instant) -> Decision:
        self._cycle += 1
        live = self._live
        assert live.sequence is not None
        if not self._watch.is_reachable:
            return Decision(plan=Plan(made_on=live.sequence))
        if has_nothing_to_decide(self._standing, self._knobs):
            return self._nothing(live.sequence, now)
        # The view is renewed as ends are seen, whether anybody waits then or not.
        past_jobs = self._lessons.jobs(live.pending.values(), live.attempts.values(), now)
        if has_nobody_to_move(self._standing, self._knobs):
            return self._nothing(live.sequence, now)
        observed = _observed(
            now=now,
            knobs=self._knobs,
            queues=self._queues,
            lengths=self._outside.lengths,
            measured=self._outside.measured or self._reported,
            step_times=self._standing.step_times,
            past_waits=self._lessons.waits(),
            past_jobs=past_jobs,
        )
        snapshot = snapshot_of(self._live, self._watch, observed)
        began = self._outside.clock.now()
        decision = decide_by_knobs(self._standing, snapshot)
        check_starts(self._standing, snapshot, decision.plan)
        self._tell_cycle(decision, now, took=Duration(self._outside.clock.now() - began))
        return decision

    def _nothing(self, made_on: Sequence, now: Instant) -> Decision:
        decision = Decision(plan=Plan(made_on=made_on))
        self._tell_cycle(decision, now, took=Duration(0))
        return decision

    def _tell_cycle(self, decision: Decision, now: Instant, *, took: Duration) -> None:
        if not self._outside.is_listened_to:
            return
        plan = decision.plan
        self._outside.sink.emit(
            "cycle_decided",
            {
                "cycle": self._cycle,
                "pending": len(self._live.pending),
                "started": len(plan.start),
                "stopped": len(plan.stop),
                "promised": len(plan.promise),
                "declined": sum([wait.episode.runs_since == now for wait in plan.waits]),
                "decision_s": in_seconds(took),
            },
        )

    def _answers(self, now: Instant) -> dict[JobId, Blocked]:
        """Why each pending job waits, as last decided."""
        if self._outdated is not None:
            return safe_mode_answers(self._live, self._outdated)
        if not self._watch.is_reachable:
            return outage_answers(self._live, self._watch.unreachable_since or now)
        return answers_of(self._decision, self._standing, now)

    def _stands_on(self, basis: _Basis | None) -> bool:
        """Whether it is the present one, in less time than it takes to make that."""
        return (
            basis is not None
            and basis.pending == self._live.pending_version
            and basis.free == self._standing.version
            and basis.cluster == self._watch.generation
            and (basis.knobs is self._knobs or basis.knobs == self._knobs)
            and (basis.queues is self._queues or basis.queues == self._queues)
        )

    def _present_basis(self) -> _Basis:
        return _Basis(
            self._live.pending_version,
            self._standing.version,
            self._watch.generation,
            self._knobs,
            self._queues,
        )

    def _tell(self, epoch: Epoch, now: Instant, *, is_idle: bool = False) -> None:
        """Store the answers that have changed, and now and then that the loop lives."""
        if self._told_at is not None and now < self._told_at + self._tell_every:
            return
        answers: tuple[Answer, ...] = ()
        is_news = self._decision is not self._told or self._book.is_behind
        if is_news or not is_idle:
            blocked = self._answers(now)
            answers = self._book.news(blocked, self._live.pending, now) if is_news else ()
            if not is_idle:
                self._census.take(self._live, self._watch, blocked)
        told_at = self._cycle_told_at
        if answers or told_at is None or now >= after(told_at, CYCLE_TOLD_EVERY):
            self._write_answers(answers, epoch, now)
        self._told, self._told_at = self._decision, now

    def _tell_timers(self, epoch: Epoch, now: Instant) -> None:
        """Events of the tuner's timers that have moved."""
        moved = self._timers.news(self._lessons.waits(), self._knobs, now)
        if moved:
            unit = Unit(changes=(), events=moved, epoch=epoch)
            self._live.write(unit, self._outside.store)

    def _write_answers(self, answers: tuple[Answer, ...], epoch: Epoch, now: Instant) -> None:
        changes: list[Change] = [SaveAnswers(answers=answers)] if answers else []
        changes.append(RecordCycle(cycle=self._cycle, at=now))
        reach(KillPoint.RUN_BEFORE_ANSWERS)
        self._live.write(Unit(changes=tuple(changes), epoch=epoch), self._outside.store)
        reach(KillPoint.RUN_AFTER_ANSWERS)
        self._cycle_told_at = now

    def _next_due(self, moment: Moment) -> Instant | None:
        instants = [
            at
            for at in (
                self._decision.plan.next_wakeup,
                self._settling.next_due(),
                self._strays.next_due(),
                self._watch.next_loss(moment.now, moment.knobs.node_lost_after),
                self._watch.next_end(),
            )
            if at is not None
        ]
        return min(instants) if instants else None

    def _next_tick(self, now: Instant) -> Instant:
        latest, due = after(now, self._poll), self._due
        if due is None or due > latest:
            return latest
        return due if due > now else now
