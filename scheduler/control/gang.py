"""One live attempt with all that is known of it, and what its workers' reports mean."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.domain.copying import quickly_made, replace
from scheduler.domain.failures import OUTCOME_OF_CAUSE
from scheduler.domain.ids import NodeName, Rank
from scheduler.domain.instants import Duration, Instant, after
from scheduler.domain.job import Attempt, AttemptPhase, Job, Outcome, StopCause, WorkerEnd
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.ports.cluster import WorkerReport, WorkerState

TERMINAL_STATES = frozenset({WorkerState.ENDED, WorkerState.GONE, WorkerState.REFUSED})

ONCE_MADE = frozenset({AttemptPhase.PREPARED, AttemptPhase.RELEASED, AttemptPhase.RUNNING})
"""Phases in which every worker has been seen: one that is not there any more is lost."""

NO_RANKS: frozenset[Rank] = frozenset()


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A job, its attempt that has not ended, and what the cluster says of its workers."""

    key: AttemptKey
    """Names the attempt."""
    job: Job
    attempt: Attempt
    reservations: tuple[Reservation, ...]
    """What it still holds."""
    reports: Mapping[Rank, WorkerReport] = field(default_factory=dict)
    absent_are_down: bool = False
    """Ranks without a report are known not to exist and will not be made any more."""
    last_step_at: Instant | None = None
    """Last reported step of this attempt, as far as it was looked up."""

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The node of rank 0, 1, 2, ..."""
        return tuple(node for _, node in self.attempt.placement.node_of_ranks())

    @property
    def ended_ranks(self) -> frozenset[Rank]:
        """Ranks whose end is recorded."""
        ends = self.attempt.worker_ends
        return frozenset([end.rank for end in ends]) if ends else NO_RANKS

    @property
    def deciding_end(self) -> WorkerEnd | None:
        """The first recorded end that was not a success: it decides what the attempt ends as."""
        return next(
            (end for end in self.attempt.worker_ends if end.outcome is not Outcome.COMPLETED), None
        )

    @property
    def is_untouched(self) -> bool:
        """Whether no rank is known to have ended: none has reported so, none is known missing."""
        if self.attempt.worker_ends or self.absent_are_down:
            return False
        for report in self.reports.values():  # noqa: SIM110 - every tick asks it of many gangs
            if report.state in TERMINAL_STATES:
                return False
        return True

    def in_state(self, *states: WorkerState) -> bool:
        """Whether every rank is in one of these states by its report, or its end is recorded."""
        reports, ends = self.reports, self.attempt.worker_ends
        if not (reports or ends):
            return False
        ended = self.ended_ranks if ends and WorkerState.ENDED in states else NO_RANKS
        for rank in self._ranks():
            report = reports.get(rank)
            if (report is None or report.state not in states) and rank not in ended:
                return False
        return True

    def is_down(self) -> bool:
        """Whether no worker of it exists any more, and none will be made."""
        ended = self.ended_ranks
        if len(ended) == self.job.spec.workers:
            return True
        return all(
            rank in ended or (self.absent_are_down and rank not in self.reports)
            for rank in self._ranks()
        )

    def new_ends(
        self, now: Instant, lost_nodes: frozenset[NodeName] = frozenset()
    ) -> tuple[WorkerEnd, ...]:
        """Ends that are known and not recorded yet, in the order they happened.

        A worker on a lost node is written off once the grace of its stop is over.
        """
        recorded = self.ended_ranks
        found = [end for end in self._ends(now, lost_nodes) if end.rank not in recorded]
        return tuple(sorted(found, key=lambda end: (end.ended_at, end.rank)))

    def gathers_until(self, span: Duration) -> Instant | None:
        """That long after the first end that is reported and not recorded; None if there is none,
        or nobody knows when it was."""
        recorded = self.ended_ranks
        ended_at = [
            report.ended_at
            for rank, report in self.reports.items()
            if report.state in TERMINAL_STATES and rank not in recorded
        ]
        known = [at for at in ended_at if at is not None]
        return after(min(known), span) if known and len(known) == len(ended_at) else None

    def with_ends(self, ends: tuple[WorkerEnd, ...]) -> "Gang":
        """This gang with these ends recorded and their reservations freed."""
        if not ends:
            return self
        ranks = {end.rank for end in ends}
        return replace(
            self,
            attempt=replace(self.attempt, worker_ends=(*self.attempt.worker_ends, *ends)),
            reservations=tuple([held for held in self.reservations if held.rank not in ranks]),
        )

    def has_succeeded(self) -> bool:
        """Whether the success policy is met by the recorded ends."""
        completed = {
            end.rank for end in self.attempt.worker_ends if end.outcome is Outcome.COMPLETED
        }
        if len(completed) == self.job.spec.workers:
            return True
        return _deciding_ranks(self.job, self.attempt) <= completed

    def verdict(self) -> Outcome | None:
        """What the recorded ends make of the attempt; None while they decide nothing."""
        if self.has_succeeded():
            return Outcome.COMPLETED
        end = self.deciding_end
        return None if end is None else end.outcome

    def outcome_of_stop(self, cause: StopCause) -> Outcome:
        """What a stop for that cause makes of the attempt."""
        if cause is StopCause.WORKER_ENDED:
            verdict = self.verdict()
            assert verdict is not None, self.key
            return verdict
        return OUTCOME_OF_CAUSE[cause]

    def _ranks(self) -> Iterator[Rank]:
        return map(Rank, range(self.job.spec.workers))

    def _ends(self, now: Instant, lost_nodes: frozenset[NodeName]) -> Iterator[WorkerEnd]:
        nodes = self.nodes
        for rank in self._ranks():
            report = self.reports.get(rank)
            if report is not None and report.state in TERMINAL_STATES:
                yield _end_of(report, now)
            elif nodes[rank] in lost_nodes and self._grace_is_over(now):
                yield _lost(rank, Outcome.NODE_LOST, f"node {nodes[rank]} is lost", now)
            elif report is None and self.absent_are_down and self.attempt.phase in ONCE_MADE:
                yield _lost(rank, Outcome.WORKER_LOST, "the cluster does not have it", now)

    def _grace_is_over(self, now: Instant) -> bool:
        return self.attempt.kill_at is not None and self.attempt.kill_at <= now


def _deciding_ranks(job: Job, attempt: Attempt) -> frozenset[Rank]:
    """Ranks that must complete for the job to have succeeded."""
    policy = job.spec.success_policy
    if policy == "rank0":
        return frozenset({Rank(0)})
    wanted = policy.removeprefix("role:") if policy.startswith("role:") else None
    return frozenset(
        Rank(rank)
        for rank, (role, _) in enumerate(attempt.placement.node_of_ranks())
        if wanted is None or role == wanted
    )


def _end_of(report: WorkerReport, now: Instant) -> WorkerEnd:
    return WorkerEnd(
        rank=report.rank,
        exit_code=report.exit_code,
        outcome=report.outcome or Outcome.WORKER_LOST,
        message=report.message,
        ended_at=now if report.ended_at is None else report.ended_at,
    )


def _lost(rank: Rank, outcome: Outcome, message: str, now: Instant) -> WorkerEnd:
    return WorkerEnd(rank=rank, exit_code=None, outcome=outcome, message=message, ended_at=now)
