"""Reports of steps are taken in: each is stored in one unit with what it teaches of its job."""

from dataclasses import replace

from scheduler.control.estimating import Distances
from scheduler.domain.errors import ConflictError
from scheduler.domain.job import Attempt, Job
from scheduler.domain.progress import Progress
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.job_store import JobStore, StoredStepTimes
from scheduler.ports.unit import RecordProgress, SaveStepTimes, Unit

TRIES_MAX = 5
"""How often what another has learned meanwhile is looked at again; then the report teaches
nothing: one of thousands."""


def take_in(
    store: JobStore, job: Job, attempt: Attempt, report: Progress, distances: Distances
) -> None:
    """Store a report of an attempt of a job. Raises NotFoundError if they are gone."""
    record = RecordProgress(attempt=AttemptKey(attempt.job_id, attempt.number), progress=report)
    for _ in range(TRIES_MAX):
        stored = store.step_times([job.id]).get(job.id, StoredStepTimes())
        times = distances.learned(job.spec, attempt, report, stored.times)
        if not report.is_from_log:
            times = replace(times, reports_itself=True)
        if times == stored.times:
            break
        save = SaveStepTimes(job_id=job.id, times=times, expected_revision=stored.revision)
        try:
            store.write(Unit(changes=(record, save)))
        except ConflictError:
            continue
        return
    store.write(Unit(changes=(record,)))
