"""What is known of models and step times, in the memory store."""

from typing import assert_never

from scheduler.adapters.memory.tables import Tables, UndoLog
from scheduler.domain.errors import ConflictError, NotFoundError
from scheduler.ports.job_store import StoredStepTimes
from scheduler.ports.unit import DeleteProfile, SaveProfile, SaveStepTimes


def change_what_is_known(
    change: SaveStepTimes | SaveProfile | DeleteProfile, tables: Tables, undo: UndoLog
) -> None:
    """Write what was learned of a job, or a profile."""
    match change:
        case SaveStepTimes():
            _save_step_times(change, tables, undo)
        case SaveProfile(project=project, profile=profile):
            if project not in tables.projects:
                raise NotFoundError("project", project)
            undo.put(tables.profiles, (project, profile.name), profile)
        case DeleteProfile(project=project, name=name):
            if (project, name) not in tables.profiles:
                raise NotFoundError("profile", name)
            undo.drop(tables.profiles, (project, name))
        case _:
            assert_never(change)


def _save_step_times(change: SaveStepTimes, tables: Tables, undo: UndoLog) -> None:
    job_id, expected = change.job_id, change.expected_revision
    if job_id not in tables.jobs:
        raise NotFoundError("job", job_id)
    found = tables.step_times.get(job_id, StoredStepTimes()).revision
    if found != expected:
        raise ConflictError("step times", job_id, expected=expected, found=found)
    stored = StoredStepTimes(times=change.times, revision=expected + 1)
    undo.put(tables.step_times, job_id, stored)
