"""Metrics of a run; each formula stands with its name. Seconds, GPU-seconds and plain shares.

Percentiles take the sorted value at index floor(q x n), as the reference tables do. Gains of one
policy over another are `1 - new / old`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from scheduler.domain.ids import LevelName
from scheduler.domain.instants import SECOND
from simulator.outcome import JobOutcome, RunOutcome, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """A run in numbers."""

    jobs: int
    makespan_s: float
    """Last end - first submission."""
    jct_mean_s: float
    """Mean of end - submission."""
    jct_p50_s: float
    jct_p95_s: float
    jct_p99_s: float
    wait_mean_s: float
    """Mean of first start - submission."""
    wait_p95_s: float
    queueing_mean_s: float
    """Mean of all time a job was there and held no GPUs: JCT - time held."""
    queueing_total_s: float
    """The sum of it."""
    exposed_communication_s: float
    """Sum over jobs and segments of iterations x (t_iter - t_compute)."""
    exposed_communication_gpu_s: float
    """The same, each job's part times its GPUs."""
    slowdown_mean: float
    """Mean of JCT / the time alone at the closest tier."""
    slowdown_p95: float
    utilisation: float
    """GPU-seconds held / GPU-seconds available, first submission to last end."""
    goodput: float
    """GPU-seconds of progress that was kept / GPU-seconds held."""
    lost_gpu_s: float
    """GPU-seconds of progress lost after the last checkpoint of a run that was ended."""
    overhead_gpu_s: float
    """GPU-seconds held in start-up and restore: held - kept - lost."""
    held_share_by_tier: Mapping[LevelName, float]
    """GPU-seconds held at a tier / GPU-seconds held."""
    preemptions: int
    preemptions_per_job: float
    upgrades: int
    failures: int
    fairness_mean: float
    """Mean of finish-time fairness rho: JCT / (time alone x contention of its life)."""
    fairness_p99: float
    fairness_max: float
    fragmentation: float
    """Mean over time of free GPUs / available GPUs while a waiting job asks for no more than are
    free; 0 while none does."""

    def facts(self) -> dict[str, object]:
        """By name."""
        return asdict(self)


def measured(run: RunOutcome) -> Metrics:
    """All metrics of a run of at least one job."""
    jobs = run.jobs
    jct = sorted(job.jct for job in jobs)
    waits = sorted(job.wait for job in jobs)
    slowdowns = sorted(job.jct / job.ideal for job in jobs)
    rhos = sorted(finish_time_fairness(jobs, run.steps))
    held = sum(job.gpus * job.held for job in jobs)
    kept = sum(job.gpus * job.kept for job in jobs)
    lost = sum(job.gpus * job.lost for job in jobs)
    queueing = sum(job.queueing for job in jobs)
    preemptions = sum(job.preemptions for job in jobs)
    return Metrics(
        jobs=len(jobs),
        makespan_s=makespan(jobs) / SECOND,
        jct_mean_s=sum(jct) / len(jobs) / SECOND,
        jct_p50_s=percentile(jct, 50) / SECOND,
        jct_p95_s=percentile(jct, 95) / SECOND,
        jct_p99_s=percentile(jct, 99) / SECOND,
        wait_mean_s=sum(waits) / len(jobs) / SECOND,
        wait_p95_s=percentile(waits, 95) / SECOND,
        queueing_mean_s=queueing / len(jobs) / SECOND,
        queueing_total_s=queueing / SECOND,
        exposed_communication_s=sum(job.exposed for job in jobs) / SECOND,
        exposed_communication_gpu_s=sum(job.gpus * job.exposed for job in jobs) / SECOND,
        slowdown_mean=sum(slowdowns) / len(jobs),
        slowdown_p95=percentile(slowdowns, 95),
        utilisation=utilisation(run.steps),
        goodput=kept / held if held else 0.0,
        lost_gpu_s=lost / SECOND,
        overhead_gpu_s=(held - kept - lost) / SECOND,
        held_share_by_tier=held_share_by_tier(jobs),
        preemptions=preemptions,
        preemptions_per_job=preemptions / len(jobs),
        upgrades=sum(job.upgrades for job in jobs),
        failures=sum(job.failures for job in jobs),
        fairness_mean=sum(rhos) / len(jobs),
        fairness_p99=percentile(rhos, 99),
        fairness_max=rhos[-1],
        fragmentation=fragmentation(run.steps),
    )


def gain(*, new: float, old: float) -> float:
    """How much less `new` is than `old`: 1 - new / old; 0 where both are nothing."""
    if old == 0:
        return 0.0 if new == 0 else float("-inf")
    return 1 - new / old


def percentile(in_order: Sequence[float], percent: float) -> float:
    """The value at index floor(percent / 100 x n) of values in ascending order."""
    return in_order[min(len(in_order) - 1, int(percent / 100 * len(in_order)))]


def makespan(jobs: Sequence[JobOutcome]) -> int:
    """Last end - first submission."""
    return max(job.end for job in jobs) - min(job.arrival for job in jobs)


def utilisation(steps: Sequence[Step]) -> float:
    """GPU time held over GPU time available, from the first step to the last."""
    held = available = 0
    for step, length in _lengths(steps):
        held += step.gpus_held * length
        available += step.gpus_available * length
    return held / available if available else 0.0


def held_share_by_tier(jobs: Iterable[JobOutcome]) -> dict[LevelName, float]:
    """GPU time held at each tier over all GPU time held; tiers by name."""
    held: dict[LevelName, int] = {}
    for job in jobs:
        for tier, duration in job.held_by_tier.items():
            held[tier] = held.get(tier, 0) + job.gpus * duration
    total = sum(held.values())
    return {tier: held[tier] / total for tier in sorted(held)} if total else {}


def fragmentation(steps: Sequence[Step]) -> float:
    """Mean over time of the share of GPUs that are free though the smallest waiting job asks for no
    more than so many: placement, a timer or a rule of order keeps them free."""
    total, weighted = 0, 0.0
    for step, length in _lengths(steps):
        total += length
        free = step.gpus_available - step.gpus_held
        if 0 < step.smallest_waiting <= free:
            weighted += length * free / step.gpus_available
    return weighted / total if total else 0.0


def finish_time_fairness(jobs: Sequence[JobOutcome], steps: Sequence[Step]) -> list[float]:
    """Rho of each job: its JCT over what it would be in a fair share of the cluster.

    A job's fair JCT is the time alone times the contention of its life: the mean over [arrival,
    end] of max(1, GPUs asked by all live jobs / GPUs available). 1 is fair, more is worse.
    """
    # contention_before[i] is the integral of contention from the first step to step i.
    starts = [step.at for step in steps]
    contention_before = [0.0]
    for step, length in _lengths(steps):
        contention_before.append(contention_before[-1] + length * _contention(step))
    rhos = []
    for job in jobs:
        integral = _integral(job.end, steps, starts, contention_before) - _integral(
            job.arrival, steps, starts, contention_before
        )
        rhos.append(job.jct / (job.ideal * max(1.0, integral / job.jct)))
    return rhos


def _contention(step: Step) -> float:
    return max(1.0, step.gpus_asked / step.gpus_available) if step.gpus_available else 1.0


def _integral(
    at: int, steps: Sequence[Step], starts: Sequence[int], before: Sequence[float]
) -> float:
    """The contention from the first step to `at`."""
    index = bisect_right(starts, at) - 1
    assert index >= 0, at
    return before[index] + (at - starts[index]) * _contention(steps[index])


def _lengths(steps: Sequence[Step]) -> Iterable[tuple[Step, int]]:
    return ((step, after.at - step.at) for step, after in pairwise(steps))
