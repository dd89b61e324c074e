"""What jobs were measured to lose by distance: the step reports in the store, as policies see them.

All that matters is what was measured. Where a job has run on closer GPUs as well, that is how fast
it can be. Where it has not, nobody has measured that; then it counts as losing the least of what
gangs of its size usually lose and of what the network model makes of its own profile: a profile
may say that a job loses little, and never that it loses much.
"""

from dataclasses import dataclass

from scheduler.control.live_jobs import LiveJobs
from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.job import Job
from scheduler.domain.ladder import Ladder
from scheduler.domain.snapshot import Measured, StepTimes
from scheduler.domain.step_times import LearnedStepTimes, LearnedTier
from scheduler.domain.topology import TopologyTree
from scheduler.engine.standing import Standing
from scheduler.ports.job_store import JobStore


class ReportedSteps:
    """See Measurements. Owned by the loop; what nobody asks of is not worked out."""

    def __init__(self, live: LiveJobs, standing: Standing) -> None:
        self._live = live
        self._standing = standing
        self._learned: dict[JobId, LearnedStepTimes] = {}
        self._measured: dict[JobId, Measured | None] = {}
        self._step_times: StepTimes | None = None
        """What `_measured` was worked out with."""
        self._read_up_to: Sequence | None = None

    def forget(self) -> None:
        """A term begins or ends: everything is read again."""
        self._learned.clear()
        self._measured.clear()
        self._read_up_to = None

    def refresh(self, store: JobStore, up_to: Sequence) -> None:
        """Read what was reported since the last time.

        `up_to`: the sequence that the rest of the store was read at.
        """
        for job_id, times in store.live_step_times(self._read_up_to).items():
            self._learned[job_id] = times
            self._measured.pop(job_id, None)
        self._read_up_to = up_to
        if len(self._learned) > 2 * (len(self._live.pending) + len(self._live.attempts)) + 100:
            self._learned = {
                job_id: times for job_id, times in self._learned.items() if self._job(job_id)
            }
            self._measured.clear()

    def of(self, job_id: JobId) -> Measured | None:
        """See Measurements."""
        if self._step_times is not self._standing.step_times:
            self._step_times = self._standing.step_times
            self._measured.clear()
        if job_id not in self._measured:
            self._measured[job_id] = self._worked_out(job_id)
        return self._measured[job_id]

    def _worked_out(self, job_id: JobId) -> Measured | None:
        learned, job = self._learned.get(job_id), self._job(job_id)
        if learned is None or job is None:
            return None
        return measured(job, learned, self._standing.step_times, self._standing.free.tree)

    def _job(self, job_id: JobId) -> Job | None:
        held = self._live.attempts.get(job_id)
        return self._live.pending.get(job_id) if held is None else held.job


def measured(
    job: Job, learned: LearnedStepTimes, times: StepTimes, tree: TopologyTree
) -> Measured | None:
    """What the reports of a job come to; None if they tell of no step."""
    runs = [
        _Run(index, tier)
        for tier in learned.tiers
        if tier.steps > 0 and (index := tree.level_index(tier.level)) is not None
    ]
    if not runs:
        return None
    steps, run_s = sum(run.tier.steps for run in runs), sum(run.tier.run_s for run in runs)
    own, usual = times.ladder(job), times.prior_ladder(job)
    best_s = usual_best_s = 0.0
    for run in runs:
        fastest = min(
            (r for r in runs if r.tier.gpu_model == run.tier.gpu_model and r.index <= run.index),
            key=lambda r: (r.step_s, r.index),
        )
        at_fastest_s = run.tier.steps * fastest.step_s
        by_size = _share_at_best(usual, fastest)
        usual_best_s += at_fastest_s * by_size
        best_s += at_fastest_s * max(by_size, _share_at_best(own, fastest))
    return Measured(
        steps=learned.steps,
        step_s=run_s / steps,
        compute_s=usual_best_s * times.prior_share(job),
        best_s=best_s,
        run_s=run_s,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """Steps that were taken at one tier."""

    index: int
    """Of the tier."""
    tier: LearnedTier

    @property
    def step_s(self) -> float:
        """What each of them took."""
        return self.tier.run_s / self.tier.steps


def _share_at_best(ladder: Ladder, run: _Run) -> float:
    """Predicted step time at the best tier by that at the tier of a run; 1 if it is no wider."""
    model = run.tier.gpu_model
    place = ladder.place_of(run.index, model)
    if place is None:
        return 1.0
    best = next(r for r in ladder.rungs if not ladder.names_models or r.gpu_model == model)
    return best.step_s / ladder.rungs[place].step_s
