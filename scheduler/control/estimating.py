"""Step times of jobs per tier, for those who ask: from the store, with what was measured."""

from scheduler.domain.job import Job
from scheduler.engine.distance import Distances, Estimate
from scheduler.ports.job_store import JobStore

__all__ = ["Distances", "Estimate", "job_estimates"]


def job_estimates(store: JobStore, job: Job, distances: Distances) -> tuple[Estimate, ...]:
    """The job's step times per tier, corrected by what the steps of its attempts taught."""
    stored = store.step_times([job.id]).get(job.id)
    return distances.estimates(job.spec, None if stored is None else stored.times)
