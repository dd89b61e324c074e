"""One attempt of a job in the simulated cluster, and the account of the job it belongs to.

    made ──release──▶ starting up ──▶ running: restoring ──▶ progressing ──▶ ended (rank 0 last)
                                       evicted: saving ──▶ ended (or cut off by the kill)

Progress is settled whenever the speed changes, so between two settlements it is a straight line.
Work is counted in microseconds of ideal time; at full speed all numbers stay whole.
"""

import math
from dataclasses import dataclass, field, replace

from scheduler.domain.copying import maker_of
from scheduler.domain.exit_codes import SIGKILL_EXIT_CODE, SIGTERM_EXIT_CODE, outcome_of_exit_code
from scheduler.domain.ids import LevelName, Rank
from scheduler.domain.instants import SECOND, Instant
from scheduler.domain.job import Outcome
from scheduler.domain.placement import Placement
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.snapshot import Measured
from scheduler.ports.cluster import GangOrder, WorkerReport, WorkerState
from simulator.speeds import FULL_SPEED, Speed
from simulator.world import Costs, SimulatedJob

_report = maker_of(WorkerReport)


@dataclass(slots=True)
class Account:
    """What a job has done and what it cost, over all its attempts; times in microseconds."""

    job: SimulatedJob
    done: float = 0.0
    """Work done and not lost."""
    saved: float = 0.0
    """Work that the last checkpoint holds."""
    first_start: Instant | None = None
    first_placement: Placement | None = None
    """Where it got GPUs first."""
    running: AttemptKey | None = None
    """Its latest attempt."""
    progressed: int = 0
    """Time in which it made progress, lost or not."""
    step_s: float = 0.0
    """Of the speed it goes or last went at; 0 where steps are not modelled."""
    best_step_s: float = 0.0
    """Step time at its closest tier: `done` is counted in it."""
    held: int = 0
    kept: int = 0
    lost: int = 0
    exposed: float = 0.0
    failures: int = 0
    held_by_tier: dict[LevelName, int] = field(default_factory=dict)

    def measured(self) -> Measured | None:
        """What the job has reported of its steps up to the last settlement; None for nothing.

        Where steps are not modelled there are times, and no steps.
        """
        if not self.progressed or self.done <= 0:
            return None
        steps = int(self.done / self.best_step_s / SECOND) if self.best_step_s else 0
        kept = max(1, self.progressed - self.lost)
        exposed = self.exposed * min(1.0, kept / self.progressed)
        return Measured(
            steps=steps,
            step_s=self.step_s,
            compute_s=(kept - exposed) / SECOND,
            best_s=self.done / SECOND,
            run_s=kept / SECOND,
        )


@dataclass(slots=True, kw_only=True)
class SimulatedGang:
    """An attempt; mutable, owned by SimulatedCluster."""

    order: GangOrder
    account: Account
    costs: Costs
    prepared_at: Instant
    state: WorkerState = WorkerState.MADE
    is_released: bool = False
    started_at: Instant | None = None
    """When its containers were up."""
    progress_from: Instant | None = None
    """When it began (or will begin) to do new work: after its restore."""
    settled_at: Instant = Instant(0)
    speed: Speed = FULL_SPEED
    is_still: bool = False
    """It makes no progress any more: it was told to stop, has lost a node or has ended."""
    is_leaving: bool = False
    """It was being stopped when the run began, and goes when that says so."""
    gone_ranks: set[Rank] = field(default_factory=set)
    """Ranks whose node was lost."""
    done_ranks: frozenset[Rank] = frozenset()
    """Ranks that have ended well before rank 0 does."""
    done_at: Instant | None = None
    """When they did."""
    ended_at: Instant | None = None
    exit_code: int = 0
    version: int = 0
    """Counts the plans made for its end: an older plan on the agenda is void."""

    @property
    def key(self) -> AttemptKey:
        """Names the attempt."""
        return self.order.attempt

    @property
    def is_progressing(self) -> bool:
        """Whether it runs and neither was told to stop nor lost a node."""
        return self.progress_from is not None and not self.is_still

    @property
    def gpus_freed(self) -> int:
        """GPUs of the ranks that have ended before the gang has."""
        if not self.done_ranks:
            return 0
        reservations = self.order.reservations
        return sum(held.gpus for held in reservations if held.rank in self.done_ranks)

    @property
    def has_progressed(self) -> bool:
        """Whether it has done any work in this attempt, as far as it is settled."""
        return self.progress_from is not None and self.settled_at > self.progress_from

    def start(self, now: Instant, speed: Speed) -> None:
        """Its containers are up: it restores what was saved, then goes on."""
        assert self.state is WorkerState.MADE, self.key
        restore = self.costs.restore if self.account.saved > 0 else 0
        self.state = WorkerState.RUNNING
        self.started_at = now
        self.progress_from = Instant(now + restore)
        self.settled_at = self.progress_from
        self.go_at(speed)

    def leave(self, now: Instant) -> None:
        """It had been told to stop before the run began: its containers are up, and that is all."""
        self.state = WorkerState.RUNNING
        self.started_at = now
        self.is_still = self.is_leaving = True

    def settle(self, now: Instant) -> None:
        """Count the work done up to `now` at the speed it had."""
        assert self.progress_from is not None, self.key
        passed = now - self.settled_at
        if passed <= 0:
            return
        account, every = self.account, self.costs.checkpoint_every
        if not every:
            account.done += passed * self.speed.progress
            account.saved = account.done
        else:
            checkpoint = now - (now - self.progress_from) % every
            if checkpoint > self.settled_at:
                account.saved = account.done + (checkpoint - self.settled_at) * self.speed.progress
            account.done += passed * self.speed.progress
        account.exposed += passed * self.speed.exposed
        account.progressed += passed
        self.settled_at = now

    def go_at(self, speed: Speed) -> None:
        """From its last settlement on it goes at that speed."""
        self.speed = speed
        if speed.step_s:
            self.account.step_s = speed.step_s
            self.account.best_step_s = speed.step_s * speed.progress

    def stand_still(self, now: Instant) -> None:
        """From now on it makes no progress."""
        if self.is_progressing:
            self.settle(now)
        self.is_still = True

    def ends_at(self) -> Instant:
        """When it has done all its work if its speed stays."""
        left = max(0.0, self.account.job.work - self.account.done)
        return Instant(self.settled_at + math.ceil(left / self.speed.progress))

    def end_others(self, now: Instant) -> None:
        """All work is done, and every rank but the first ends."""
        self.stand_still(now)
        others = [held.rank for held in self.order.reservations if held.rank]
        self.done_ranks, self.done_at = frozenset(others), now

    def finish(self, now: Instant) -> None:
        """All work is done."""
        assert self.progress_from is not None, self.key
        self.stand_still(now)
        self.account.kept += self.settled_at - self.progress_from
        self._end(now, exit_code=0)

    def evict(self, now: Instant, *, saves: bool, killed: bool = False) -> None:
        """It ends before its work is done, and keeps what it has done only if it saves."""
        assert self.is_still, self.key
        account = self.account
        if self.has_progressed:
            assert self.progress_from is not None, self.key
            # Progress stopped at `settled_at`, before a save that may have taken time.
            progressed = self.settled_at - self.progress_from
            every = self.costs.checkpoint_every
            since = 0 if saves or not every else progressed % every
            account.lost += since
            account.kept += progressed - since
        if saves:
            account.saved = account.done
        account.done = account.saved
        self._end(now, exit_code=SIGKILL_EXIT_CODE if killed else SIGTERM_EXIT_CODE)

    def reports(self) -> list[WorkerReport]:
        """One report per rank."""
        key = self.order.attempt
        code = self.exit_code if self.state is WorkerState.ENDED else None
        outcome = None if code is None else outcome_of_exit_code(code)
        reports = [
            _report(
                attempt=key,
                rank=held.rank,
                node=held.node,
                state=self.state,
                exit_code=code,
                outcome=outcome,
                started_at=self.started_at,
                ended_at=self.ended_at,
            )
            if held.rank not in self.gone_ranks
            else _report(
                attempt=key,
                rank=held.rank,
                node=held.node,
                state=WorkerState.GONE,
                outcome=Outcome.NODE_LOST,
            )
            for held in self.order.reservations
        ]
        return [self._as_it_ended(report) for report in reports] if self.done_ranks else reports

    def _as_it_ended(self, report: WorkerReport) -> WorkerReport:
        """A rank that has ended before its gang stays as it was then."""
        if report.rank not in self.done_ranks:
            return report
        ended, well = WorkerState.ENDED, Outcome.COMPLETED
        return replace(report, state=ended, exit_code=0, outcome=well, ended_at=self.done_at)

    def _end(self, now: Instant, *, exit_code: int) -> None:
        self.state = WorkerState.ENDED
        self.is_still = True
        self.ended_at = now
        self.exit_code = exit_code
        account, tier = self.account, self.order.placement.tier_name
        held = now - self.prepared_at
        account.held += held
        account.held_by_tier[tier] = account.held_by_tier.get(tier, 0) + held
