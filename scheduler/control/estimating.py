"""Step times of jobs per tier, for those who ask: from the store, with what was measured."""

from collections.abc import Mapping

from scheduler.domain.communication import ModelProfile
from scheduler.domain.job import Job
from scheduler.domain.progress import Progress
from scheduler.domain.step_times import LearnedStepTimes
from scheduler.engine.distance import MODELS, Distances, Estimate
from scheduler.ports.job_store import JobStore

__all__ = ["Distances", "Estimate", "job_estimates", "known_models"]


def known_models() -> Mapping[str, ModelProfile]:
    """The models a job file may name, by name."""
    return MODELS


def job_estimates(store: JobStore, job: Job, distances: Distances) -> tuple[Estimate, ...]:
    """The job's step times per tier, corrected by the steps that its attempts reported."""
    return distances.estimates(job.spec, _learned(store, job, distances))


def _learned(store: JobStore, job: Job, distances: Distances) -> LearnedStepTimes:
    reports: dict[int, list[Progress]] = {}
    for key, progress in store.progress(job.id):
        reports.setdefault(key.number, []).append(progress)
    runs = [
        (attempt, reports[attempt.number])
        for attempt in store.attempts(job.id)
        if attempt.number in reports and distances.knows(attempt)
    ]
    return distances.learned(job.spec, runs)
