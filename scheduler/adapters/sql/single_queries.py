"""Reads of one thing and of what belongs to it, and of the small tables."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, bindparam, func, select, union_all

from scheduler.adapters.sql.account_mapping import to_audit_row, to_reply, to_token
from scheduler.adapters.sql.cluster_mapping import (
    to_cordon,
    to_exclusion,
    to_knob_sheet,
    to_level,
    to_node,
    to_project,
    to_queue,
    to_stray,
)
from scheduler.adapters.sql.mapping import ProgressOf, to_answer, to_attempt, to_job, to_progress
from scheduler.adapters.sql.rows import IDS_AT_ONCE, AnyRow, chunks
from scheduler.adapters.sql.stuck_rows import StuckRows
from scheduler.adapters.sql.tables import (
    THE_ONLY,
    answers,
    attempts,
    audit,
    cordons,
    cycles,
    deleted_jobs,
    exclusions,
    instance,
    jobs,
    levels,
    nodes,
    placements,
    policy_knobs,
    progress,
    projects,
    queues,
    replies,
    strays,
    tokens,
)
from scheduler.domain import ids
from scheduler.domain.cordon import Cordon
from scheduler.domain.errors import NotFoundError
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import JobId, JobName, ProjectName, QueueName
from scheduler.domain.job import Attempt, Job
from scheduler.domain.knob_sheet import NOTHING_SAID, KnobSheet
from scheduler.domain.queue import Project, Queue
from scheduler.domain.stray import Stray
from scheduler.domain.topology import Level, Node
from scheduler.ports.unit import Answer, AuditRow, RecordCycle, RememberReply, Token

JOB_COLUMNS = [column for column in jobs.c if column.name not in {"source", "changed"}]

_JOB_BY_NAME = select(*JOB_COLUMNS).where(
    jobs.c.project == bindparam("project"), jobs.c.name == bindparam("name")
)
_JOB_BY_ID = select(*JOB_COLUMNS).where(jobs.c.id == bindparam("id"))
_JOBS_BY_ID = select(*JOB_COLUMNS).where(jobs.c.id.in_(bindparam("ids", expanding=True)))


# Jobs.


def job_by_name(connection: Connection, project: ProjectName, name: JobName) -> Job:
    """The job. Raises NotFoundError."""
    row = connection.execute(_JOB_BY_NAME, {"project": project, "name": name}).one_or_none()
    if row is None:
        raise NotFoundError("job", name)
    return to_job(row)


def job_by_id(connection: Connection, job_id: JobId) -> Job:
    """The job. Raises NotFoundError."""
    row = connection.execute(_JOB_BY_ID, {"id": job_id}).one_or_none()
    if row is None:
        raise NotFoundError("job", job_id)
    return to_job(row)


def jobs_by_id(connection: Connection, job_ids: Sequence[JobId], stuck: StuckRows) -> list[Job]:
    """Those of the jobs that exist and can be read, in no order."""
    found: list[Job] = []
    for some in chunks(job_ids, IDS_AT_ONCE):
        rows = connection.execute(_JOBS_BY_ID, {"ids": list(some)})
        found += stuck.readable(rows, to_job)
    return found


def job_source(connection: Connection, job_id: JobId) -> str:
    """The job file. Raises NotFoundError."""
    source: str | None = connection.scalar(select(jobs.c.source).where(jobs.c.id == job_id))
    if source is None:
        raise NotFoundError("job", job_id)
    return source


# What belongs to a job.


def attempts_where(
    connection: Connection,
    job_ids: Sequence[JobId],
    stuck: StuckRows,
    *conditions: ColumnElement[bool],
) -> tuple[list[Attempt], list[AnyRow]]:
    """Attempts of these jobs, by job and number, and the rows that can not be read."""
    rows: list[AnyRow] = []
    for some in chunks(job_ids, IDS_AT_ONCE):
        rows += connection.execute(
            select(attempts)
            .where(attempts.c.job_id.in_(some), *conditions)
            .order_by(attempts.c.job_id, attempts.c.number)
        )
    placed = _placements(connection, sorted({row.job_id for row in rows}))
    return stuck.sorted_out(rows, lambda row: to_attempt(row, placed[row.job_id, row.number]))


def _placements(
    connection: Connection, job_ids: Sequence[JobId]
) -> defaultdict[tuple[JobId, int], list[AnyRow]]:
    placed: defaultdict[tuple[JobId, int], list[AnyRow]] = defaultdict(list)
    for some in chunks(job_ids, IDS_AT_ONCE):
        for row in connection.execute(
            select(placements)
            .where(placements.c.job_id.in_(some))
            .order_by(placements.c.job_id, placements.c.attempt, placements.c.position)
        ):
            placed[row.job_id, row.attempt].append(row)
    return placed


def progress_of(connection: Connection, job_id: JobId, stuck: StuckRows) -> tuple[ProgressOf, ...]:
    """All step reports of a job, oldest first."""
    reports = select(progress).where(progress.c.job_id == job_id).order_by(progress.c.sequence)
    return tuple(stuck.readable(connection.execute(reports), to_progress))


def answer_of(connection: Connection, job_id: JobId) -> Answer | None:
    """Why the job waits."""
    row = connection.execute(select(answers).where(answers.c.job_id == job_id)).one_or_none()
    return None if row is None else to_answer(row)


# The cluster and the store itself.


def topology(
    connection: Connection, stuck: StuckRows
) -> tuple[tuple[Level, ...], tuple[Node, ...]]:
    """Levels and nodes."""
    level_rows = connection.execute(select(levels).order_by(levels.c.position))
    node_rows = connection.execute(select(nodes).order_by(nodes.c.name))
    return tuple(map(to_level, level_rows)), tuple(stuck.readable(node_rows, to_node))


def all_strays(connection: Connection, stuck: StuckRows) -> tuple[Stray, ...]:
    """Strays by attempt."""
    rows = connection.execute(select(strays).order_by(strays.c.job_id, strays.c.attempt))
    return tuple(stuck.readable(rows, to_stray))


def latest_job_id(connection: Connection) -> JobId | None:
    """The largest id of a job, deleted or not."""
    found = connection.scalars(
        union_all(select(func.max(jobs.c.id)), select(func.max(deleted_jobs.c.job_id)))
    )
    return max((job_id for job_id in found if job_id is not None), default=None)


def all_projects(connection: Connection, stuck: StuckRows) -> tuple[Project, ...]:
    """Projects by name."""
    rows = connection.execute(select(projects).order_by(projects.c.name))
    return tuple(stuck.readable(rows, to_project))


def all_queues(connection: Connection, stuck: StuckRows) -> tuple[Queue, ...]:
    """Queues by name."""
    rows = connection.execute(select(queues).order_by(queues.c.name))
    return tuple(stuck.readable(rows, to_queue))


def sequence(connection: Connection) -> ids.Sequence:
    """The sequence of the last unit."""
    return ids.Sequence(connection.execute(_SEQUENCE).scalar_one())


def horizon(connection: Connection) -> ids.Sequence:
    """Up to where events and deletions may be forgotten."""
    return ids.Sequence(connection.execute(_HORIZON).scalar_one())


_SEQUENCE = select(instance.c.sequence).where(instance.c.name == THE_ONLY)
_HORIZON = select(instance.c.horizon).where(instance.c.name == THE_ONLY)


def all_cordons(connection: Connection, stuck: StuckRows) -> tuple[Cordon, ...]:
    """What admins say of nodes, by node."""
    rows = connection.execute(select(cordons).order_by(cordons.c.node))
    return tuple(stuck.readable(rows, to_cordon))


def all_exclusions(connection: Connection, stuck: StuckRows) -> dict[ids.NodeName, Exclusion]:
    """Why nodes are or were left alone, by node."""
    rows = connection.execute(select(exclusions).order_by(exclusions.c.node))
    return dict(stuck.readable(rows, to_exclusion))


def knob_sheet(connection: Connection) -> KnobSheet:
    """What was said of the cluster's policy knobs."""
    text = connection.scalar(select(policy_knobs.c.knobs).where(policy_knobs.c.name == THE_ONLY))
    return NOTHING_SAID if text is None else to_knob_sheet(text)


def queue_named(connection: Connection, name: QueueName) -> Queue:
    """The queue. Raises NotFoundError."""
    row = connection.execute(select(queues).where(queues.c.name == name)).one_or_none()
    if row is None:
        raise NotFoundError("queue", name)
    return to_queue(row)


def last_cycle(connection: Connection) -> RecordCycle | None:
    """The last decision cycle."""
    row = connection.execute(select(cycles).where(cycles.c.name == THE_ONLY)).one_or_none()
    return None if row is None else RecordCycle(cycle=row.cycle, at=row.at)


# Accounts.


def token_by_secret(connection: Connection, secret_sha256: str) -> Token | None:
    """The token with that secret hash."""
    wanted = select(tokens).where(tokens.c.secret_sha256 == secret_sha256)
    row = connection.execute(wanted).one_or_none()
    return None if row is None else to_token(row)


def all_tokens(connection: Connection, stuck: StuckRows) -> tuple[Token, ...]:
    """All tokens, by creation."""
    rows = connection.execute(select(tokens).order_by(tokens.c.created_at, tokens.c.id))
    return tuple(stuck.readable(rows, to_token))


def reply(connection: Connection, *, principal: str, route: str, key: str) -> RememberReply | None:
    """The reply remembered under an idempotency key."""
    wanted = select(replies).where(
        replies.c.principal == principal, replies.c.route == route, replies.c.key == key
    )
    row = connection.execute(wanted).one_or_none()
    return None if row is None else to_reply(row)


def newest_audit(connection: Connection, *, limit: int) -> tuple[AuditRow, ...]:
    """Audit rows, newest first."""
    rows = connection.execute(select(audit).order_by(audit.c.sequence.desc()).limit(limit))
    return tuple(map(to_audit_row, rows))
