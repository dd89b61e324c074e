"""What is known of models and step times: rows, reads and changes."""

from collections.abc import Mapping
from collections.abc import Sequence as Several
from typing import assert_never

from sqlalchemy import Connection, bindparam, delete, exists, select

from scheduler.adapters.sql.rows import IDS_AT_ONCE, AnyRow, Values, chunks, reading
from scheduler.adapters.sql.stuck_rows import StuckRows
from scheduler.adapters.sql.tables import jobs, profiles, projects, step_times
from scheduler.adapters.sql.unit_work import UnitWork
from scheduler.adapters.sql.upserts import put
from scheduler.domain import ids
from scheduler.domain.codec import from_json, to_json
from scheduler.domain.communication import ModelProfile
from scheduler.domain.errors import ConflictError, NotFoundError
from scheduler.domain.ids import JobId, ProjectName
from scheduler.domain.job import JobPhase
from scheduler.domain.step_times import LearnedStepTimes
from scheduler.ports.job_store import StoredStepTimes
from scheduler.ports.unit import DeleteProfile, SaveProfile, SaveStepTimes

_STEP_TIMES = select(step_times).where(step_times.c.job_id.in_(bindparam("ids", expanding=True)))
_LIVE_STEP_TIMES = (
    select(step_times)
    .join(jobs, jobs.c.id == step_times.c.job_id)
    .where(jobs.c.phase.in_([phase.value for phase in JobPhase if not phase.is_terminal]))
)
_STEP_TIMES_SINCE = select(step_times).where(step_times.c.sequence > bindparam("after"))
_REVISION = select(step_times.c.revision).where(step_times.c.job_id == bindparam("id"))
_JOB_EXISTS = select(exists().where(jobs.c.id == bindparam("id")))
_PROJECT_EXISTS = select(exists().where(projects.c.name == bindparam("name")))
_PROFILES = (
    select(profiles).where(profiles.c.project == bindparam("wanted")).order_by(profiles.c.name)
)
_DELETE_PROFILE = delete(profiles).where(
    profiles.c.project == bindparam("wanted"), profiles.c.name == bindparam("gone")
)


def step_times_of(
    connection: Connection, job_ids: Several[JobId], stuck: StuckRows
) -> Mapping[JobId, StoredStepTimes]:
    """What was learned of these jobs."""
    found: dict[JobId, StoredStepTimes] = {}
    for some in chunks(job_ids, IDS_AT_ONCE):
        rows = connection.execute(_STEP_TIMES, {"ids": list(some)})
        found |= dict(stuck.readable(rows, _to_step_times))
    return found


def live_step_times(
    connection: Connection, after: ids.Sequence | None, stuck: StuckRows
) -> Mapping[JobId, LearnedStepTimes]:
    """What was learned of jobs that are not over, or written since `after`."""
    if after is None:
        rows = connection.execute(_LIVE_STEP_TIMES)
    else:
        rows = connection.execute(_STEP_TIMES_SINCE, {"after": after})
    return {job_id: stored.times for job_id, stored in stuck.readable(rows, _to_step_times)}


def profiles_of(
    connection: Connection, project: ProjectName, stuck: StuckRows
) -> tuple[ModelProfile, ...]:
    """A project's own profiles, by name."""
    return tuple(stuck.readable(connection.execute(_PROFILES, {"wanted": project}), _to_profile))


def change_what_is_known(
    change: SaveStepTimes | SaveProfile | DeleteProfile, work: UnitWork
) -> None:
    """Write what was learned of a job, or a profile."""
    connection = work.connection
    match change:
        case SaveStepTimes():
            _save_step_times(change, work)
        case SaveProfile(project=project, profile=profile):
            if not connection.scalar(_PROJECT_EXISTS, {"name": project}):
                raise NotFoundError("project", project)
            row: Values = {"project": project, "name": profile.name, "profile": to_json(profile)}
            put(connection, profiles, [row])
        case DeleteProfile(project=project, name=name):
            gone = connection.execute(_DELETE_PROFILE, {"wanted": project, "gone": name})
            if not gone.rowcount:
                raise NotFoundError("profile", name)
        case _:
            assert_never(change)


def _save_step_times(change: SaveStepTimes, work: UnitWork) -> None:
    connection = work.connection
    job_id, expected = change.job_id, change.expected_revision
    if not connection.scalar(_JOB_EXISTS, {"id": job_id}):
        raise NotFoundError("job", job_id)
    found = connection.scalar(_REVISION, {"id": job_id}) or 0
    if found != expected:
        raise ConflictError("step times", job_id, expected=expected, found=found)
    row: Values = {
        "job_id": job_id,
        "revision": expected + 1,
        "sequence": work.last,
        "learned": to_json(change.times),
    }
    put(connection, step_times, [row])


def _to_step_times(row: AnyRow) -> tuple[JobId, StoredStepTimes]:
    times = reading("step_times", row.job_id, lambda r: from_json(LearnedStepTimes, r.learned), row)
    return JobId(row.job_id), StoredStepTimes(times=times, revision=row.revision)


def _to_profile(row: AnyRow) -> ModelProfile:
    key = f"{row.project}/{row.name}"
    return reading("profiles", key, lambda r: from_json(ModelProfile, r.profile), row)
