"""One worker of the fake cluster: what it is told to do, and where it stands at a given instant.

A worker's life is two or three instants computed ahead: made, started, ended. Its state is a
function of them and of the present, so nothing has to run between two looks at it.
"""

from dataclasses import dataclass, field

from scheduler.domain.exit_codes import (
    SIGKILL_EXIT_CODE,
    SIGTERM_EXIT_CODE,
    outcome_of_exit_code,
)
from scheduler.domain.ids import Epoch, Rank
from scheduler.domain.instants import Duration, Instant, after
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.ports.cluster import WorkerReport, WorkerState

AT_ONCE = Duration(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerScript:
    """What one worker does. Without arguments: it is made and runs at once, until it is stopped."""

    make_after: Duration | None = AT_ONCE
    """From `prepare` to made (or refused); None: it is never made."""
    start_after: Duration = AT_ONCE
    """From the release to running."""
    run_for: Duration | None = None
    """From running to its own end; None: it runs until it is stopped."""
    exit_code: int = 0
    """Exit code of its own end."""
    stop_after: Duration | None = AT_ONCE
    """From the stop signal to its end; None: it ignores the signal and is killed."""
    stop_exit_code: int = SIGTERM_EXIT_CODE
    refusal: Outcome | None = None
    """The cluster refuses it instead of making it."""
    message: str = ""
    """Told with the refusal or with its own end."""
    held_back: str = ""
    """What the cluster says keeps it back, from the release until it runs."""
    log: bytes = b""
    """What it writes when it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Some bytes of a log and when they were written."""

    at: Instant
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    at: Instant
    state: WorkerState
    exit_code: int | None
    outcome: Outcome
    message: str = ""


@dataclass(slots=True, kw_only=True)
class ScriptedWorker:
    """A worker of the fake cluster; mutable, owned by MemoryCluster."""

    attempt: AttemptKey
    reservation: Reservation
    script: WorkerScript
    epoch: Epoch = Epoch(0)
    """Leadership term that made it."""
    made_at: Instant | None
    started_at: Instant | None = None
    end: _End | None = None
    stop_signal_at: Instant | None = None
    extra_log: list[Output] = field(default_factory=list)

    @property
    def rank(self) -> Rank:
        """Its number in the gang."""
        return self.reservation.rank

    def state_at(self, now: Instant) -> WorkerState | None:
        """Where it is; None while it is not made yet."""
        if self.end is not None and self.end.at <= now:
            return self.end.state
        if self.started_at is not None and self.started_at <= now:
            return WorkerState.RUNNING
        if self.made_at is None or self.made_at > now:
            return None
        return WorkerState.REFUSED if self.script.refusal else WorkerState.MADE

    def is_over_at(self, now: Instant) -> bool:
        """Whether it has reached its last state."""
        return self.state_at(now) in (WorkerState.ENDED, WorkerState.GONE, WorkerState.REFUSED)

    def has_run_at(self, now: Instant) -> bool:
        """Whether its user code has begun to run by `now`."""
        return self.started_at is not None and self.started_at <= now

    def next_change_after(self, now: Instant) -> Instant | None:
        """When its state changes next if nobody does anything; None for never."""
        if self.is_over_at(now):
            return None
        instants = (self.made_at, self.started_at, None if self.end is None else self.end.at)
        return min((at for at in instants if at is not None and at > now), default=None)

    def report_at(self, now: Instant) -> WorkerReport | None:
        """Its report, or None while it is not made yet."""
        state = self.state_at(now)
        if state is None:
            return None
        end = self.end if state in (WorkerState.ENDED, WorkerState.GONE) else None
        is_refused = state is WorkerState.REFUSED
        return WorkerReport(
            attempt=self.attempt,
            rank=self.rank,
            node=self.reservation.node,
            state=state,
            exit_code=end.exit_code if end else None,
            outcome=end.outcome if end else self.script.refusal if is_refused else None,
            message=end.message if end else self._said_at(now),
            started_at=self.started_at if self.has_run_at(now) else None,
            ended_at=end.at if end else self.made_at if is_refused else None,
            epoch=self.epoch,
            gpus=self.reservation.gpus,
        )

    def _said_at(self, now: Instant) -> str:
        """Its message while it has no end."""
        state = self.state_at(now)
        if state is WorkerState.REFUSED:
            return self.script.message
        is_held_back = state is WorkerState.MADE and self.started_at is not None
        return self.script.held_back if is_held_back else ""

    def output_at(self, now: Instant) -> list[Output]:
        """Everything it has written by `now`, in order."""
        first = []
        if self.started_at is not None and self.started_at <= now and self.script.log:
            first = [Output(at=self.started_at, data=self.script.log)]
        return [*first, *self.extra_log]

    def release(self, at: Instant) -> None:
        """Let it run from `at` on."""
        self.started_at = after(at, self.script.start_after)
        if self.script.run_for is not None:
            self.end_at(
                after(self.started_at, self.script.run_for),
                exit_code=self.script.exit_code,
                message=self.script.message,
            )

    def stop(self, at: Instant, kill_at: Instant) -> None:
        """Signal it at `at` and kill it at `kill_at`; asked again, the earlier kill holds."""
        if not self.has_run_at(at):
            self._be_made_by(at)
            self.started_at = None
            self.end_at(at, exit_code=SIGTERM_EXIT_CODE, message="stopped before it ran")
            return
        if self.stop_signal_at is None:
            self.stop_signal_at = at
        kill_at = max(kill_at, at)
        if self.script.stop_after is not None:
            leaves_at = after(self.stop_signal_at, self.script.stop_after)
            if leaves_at <= kill_at:
                self.end_at(leaves_at, exit_code=self.script.stop_exit_code)
                return
        self.end_at(kill_at, exit_code=SIGKILL_EXIT_CODE)

    def end_at(self, at: Instant, *, exit_code: int, message: str = "") -> None:
        """It ends at `at`, unless it has or will have ended before."""
        self._end_no_later(
            _End(
                at=at,
                state=WorkerState.ENDED,
                exit_code=exit_code,
                outcome=outcome_of_exit_code(exit_code),
                message=message,
            )
        )

    def vanish(self, at: Instant, outcome: Outcome, message: str) -> None:
        """It is gone without a report, unless it ended before."""
        self._be_made_by(at)
        self._end_no_later(
            _End(at=at, state=WorkerState.GONE, exit_code=None, outcome=outcome, message=message)
        )

    def _be_made_by(self, at: Instant) -> None:
        if self.made_at is None or self.made_at > at:
            self.made_at = at

    def _end_no_later(self, end: _End) -> None:
        if self.end is None or end.at < self.end.at:
            self.end = end
