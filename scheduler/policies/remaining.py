"""How long a job will still run, as far as anybody can know.

1. lengths that the policy is told (never in studies, but for policies that are bounds)
2. the iterations that the job declares, less the steps it has reported
3. the mean residual of ended jobs of its queue and demand that ran longer than it has
4. as long as it has run, or `residual_default` if that is longer
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from scheduler.domain.history import PastJobs
from scheduler.domain.ids import QueueName
from scheduler.domain.instants import Duration, seconds
from scheduler.domain.job import Job
from scheduler.domain.ladder import Ladder
from scheduler.domain.snapshot import Snapshot
from scheduler.domain.waits import demand_bucket


@dataclass(frozen=True, slots=True)
class _RunTimes:
    """Run times of ended jobs of one kind, shortest first, and sums of them from each one on."""

    sorted: tuple[Duration, ...]
    sums: tuple[int, ...]

    def mean_residual(self, so_far: Duration, *, samples_min: int) -> Duration | None:
        """Mean of what they ran after that; None if too few ran so long."""
        first = bisect_right(self.sorted, so_far)
        count = len(self.sorted) - first
        if count < max(1, samples_min):
            return None
        return Duration(self.sums[first] // count - so_far)


def remaining_time(
    job: Job, ladder: Ladder, snapshot: Snapshot, *, so_far: Duration | None = None
) -> Duration:
    """Run time left at its best tier. `so_far`: what it has run, if it runs now."""
    told = None if snapshot.lengths is None else snapshot.lengths.remaining(job.id)
    if told is not None:
        return told
    if job.spec.iterations is not None and ladder.rungs:
        return _declared(job, job.spec.iterations, ladder, snapshot)
    ran_for = job.ran_for if so_far is None else so_far
    learned = learned_remaining(job, snapshot, ran_for)
    return learned or max(ran_for, snapshot.knobs.residual_default)


def learned_remaining(job: Job, snapshot: Snapshot, ran_for: Duration) -> Duration | None:
    """The mean residual of ended jobs like it; None where too few ran so long."""
    kind = (job.spec.queue, demand_bucket(job.spec.gpus))
    run_times = _run_times(snapshot.past_jobs).get(kind)
    if run_times is None:
        return None
    return run_times.mean_residual(ran_for, samples_min=snapshot.knobs.residual_samples_min)


def _declared(job: Job, iterations: int, ladder: Ladder, snapshot: Snapshot) -> Duration:
    measured = None if snapshot.measured is None else snapshot.measured.of(job.id)
    done = 0 if measured is None else measured.steps
    return seconds(max(0, iterations - done) * ladder.best.step_s)


@lru_cache(maxsize=8)
def _run_times(past: PastJobs) -> Mapping[tuple[QueueName, int], _RunTimes]:
    found: dict[tuple[QueueName, int], list[Duration]] = {}
    for end in past.ends:
        if end.is_complete:
            found.setdefault((end.queue, demand_bucket(end.gpus)), []).append(end.ran_for)
    return {kind: _run_times_of(run_times) for kind, run_times in found.items()}


def _run_times_of(run_times: list[Duration]) -> _RunTimes:
    in_order = sorted(run_times)
    sums = [0]
    for run_time in reversed(in_order):
        sums.append(sums[-1] + run_time)
    return _RunTimes(tuple(in_order), tuple(reversed(sums)))
