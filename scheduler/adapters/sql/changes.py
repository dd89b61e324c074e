"""Writes a unit inside the savepoint that the writer has set: the SQL half of `JobStore.write`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from scheduler.adapters.sql.account_mapping import audit_row, reply_row, token_row
from scheduler.adapters.sql.cluster_mapping import (
    cordon_row,
    exclusion_row,
    level_row,
    node_row,
    project_row,
    queue_row,
    stray_row,
    to_stray,
)
from scheduler.adapters.sql.expiring import expire
from scheduler.adapters.sql.job_changes import change_attempt, change_job
from scheduler.adapters.sql.knowledge import change_what_is_known
from scheduler.adapters.sql.lessons import record
from scheduler.adapters.sql.mapping import answer_row, event_row
from scheduler.adapters.sql.rows import IDS_AT_ONCE, chunks
from scheduler.adapters.sql.single_queries import knob_sheet, queue_named
from scheduler.adapters.sql.tables import (
    THE_ONLY,
    answers,
    audit,
    cordons,
    cycles,
    exclusions,
    jobs,
    leader,
    levels,
    nodes,
    policy_knobs,
    projects,
    queues,
    replies,
    strays,
    tokens,
)
from scheduler.adapters.sql.unit_work import UnitWork
from scheduler.adapters.sql.upserts import put, put_event, put_new
from scheduler.adapters.sql.writer import Transaction
from scheduler.domain import ids
from scheduler.domain.codec import to_json
from scheduler.domain.errors import ConflictError, NotFoundError, StaleEpochError
from scheduler.domain.ids import JobId
from scheduler.ports.unit import (
    Answer,
    Change,
    ChangeCordon,
    ChangeExclusion,
    ChangeKnobs,
    DeleteJob,
    DeleteProfile,
    Expire,
    FreeReservations,
    InsertJob,
    OrderStray,
    RecordAudit,
    RecordCycle,
    RecordEnd,
    RecordProgress,
    RecordWaits,
    RememberReply,
    Reserve,
    SaveAnswers,
    SaveAttempt,
    SaveJob,
    SaveKnobs,
    SaveNodes,
    SaveProfile,
    SaveProject,
    SaveQueue,
    SaveStepTimes,
    SaveStrays,
    SaveToken,
    SeedKnobs,
    Unit,
    asks_for_a_decision,
    changed_sheet,
    numbers_of,
)


def carry_out(unit: Unit, transaction: Transaction) -> ids.Sequence:
    """Write the unit and return its sequence, or raise and leave the rest to the writer."""
    connection = transaction.connection
    if unit.epoch is not None:
        _expect_epoch(unit.epoch, connection)
    last = ids.Sequence(transaction.sequence + numbers_of(unit))
    work = UnitWork(connection=connection, sequence=transaction.sequence, last=last)
    for change in unit.changes:
        _carry_out_change(change, work)
    for event in unit.events:
        put_event(connection, event_row(event) | {"sequence": work.next_sequence()})
    _mark_changed(work)
    assert work.next_sequence() == last
    transaction.sequence = last
    transaction.asks_for_a_decision |= asks_for_a_decision(unit)
    return last


def _expect_epoch(mine: ids.Epoch, connection: Connection) -> None:
    current = connection.execute(_EPOCH).scalar_one()
    if current != mine:
        raise StaleEpochError(mine=mine, current=current)


_EPOCH = select(leader.c.epoch).where(leader.c.name == THE_ONLY)
_MARK_CHANGED = (
    update(jobs)
    .where(jobs.c.id.in_(bindparam("touched", expanding=True)))
    .values(changed=bindparam("now"))
)


def _mark_changed(work: UnitWork) -> None:
    if work.touched:
        values = {"touched": sorted(work.touched), "now": work.last}
        work.connection.execute(_MARK_CHANGED, values)


def _carry_out_change(change: Change, work: UnitWork) -> None:
    match change:
        case InsertJob() | SaveJob() | DeleteJob():
            change_job(change, work)
        case SaveAttempt() | Reserve() | FreeReservations() | RecordProgress():
            change_attempt(change, work)
        case SaveStepTimes() | SaveProfile() | DeleteProfile():
            change_what_is_known(change, work)
        case SaveToken() | RememberReply() | RecordAudit():
            _change_account(change, work)
        case (
            SaveNodes()
            | ChangeCordon()
            | ChangeExclusion()
            | SaveProject()
            | SaveQueue()
            | SaveKnobs()
            | SeedKnobs()
            | ChangeKnobs()
        ):
            _change_cluster(change, work)
        case (
            SaveAnswers()
            | RecordCycle()
            | RecordWaits()
            | RecordEnd()
            | SaveStrays()
            | OrderStray()
        ):
            _change_notes(change, work)
        case Expire():
            expire(change, work.connection)
        case _:
            assert_never(change)


# Accounts.

_OTHER_TOKEN = select(tokens.c.id).where(
    tokens.c.secret_sha256 == bindparam("secret"), tokens.c.id != bindparam("mine")
)

_INSERT_AUDIT = insert(audit)


def _change_account(change: SaveToken | RememberReply | RecordAudit, work: UnitWork) -> None:
    connection = work.connection
    match change:
        case SaveToken(token=token):
            wanted = {"secret": token.secret_sha256, "mine": token.id}
            if connection.scalar(_OTHER_TOKEN, wanted) is not None:
                raise ConflictError("token", token.id, expected=0, found=1)
            put(connection, tokens, [token_row(token)])
        case RememberReply():
            if not put_new(connection, replies, reply_row(change)):
                raise ConflictError("idempotency key", change.key, expected=0, found=1)
        case RecordAudit(row=told):
            connection.execute(_INSERT_AUDIT, audit_row(told) | {"sequence": work.next_sequence()})
        case _:
            assert_never(change)


# The cluster and its configuration.


def _change_cluster(
    change: SaveNodes
    | ChangeCordon
    | ChangeExclusion
    | SaveProject
    | SaveQueue
    | SaveKnobs
    | SeedKnobs
    | ChangeKnobs,
    work: UnitWork,
) -> None:
    connection = work.connection
    match change:
        case SaveNodes() | ChangeCordon() | ChangeExclusion():
            _change_nodes(change, work)
        case SaveProject(project=project):
            put(connection, projects, [project_row(project)])
        case SaveQueue(queue=queue):
            put(connection, queues, [queue_row(queue)])
        case SaveKnobs() | SeedKnobs() | ChangeKnobs():
            _change_knobs(change, connection)
        case _:
            assert_never(change)


def _change_nodes(
    change: SaveNodes | ChangeCordon | ChangeExclusion,
    work: UnitWork,
) -> None:
    connection = work.connection
    match change:
        case SaveNodes():
            _save_nodes(change, connection)
        case ChangeCordon(node=node, cordon=None):
            connection.execute(delete(cordons).where(cordons.c.node == node))
        case ChangeCordon(cordon=cordon):
            assert cordon is not None
            put(connection, cordons, [cordon_row(cordon)])
        case ChangeExclusion(node=node, exclusion=None):
            connection.execute(delete(exclusions).where(exclusions.c.node == node))
        case ChangeExclusion(node=node, exclusion=exclusion):
            assert exclusion is not None
            put(connection, exclusions, [exclusion_row(node, exclusion)])
        case _:
            assert_never(change)


def _change_knobs(change: SaveKnobs | SeedKnobs | ChangeKnobs, connection: Connection) -> None:
    if isinstance(change, SaveKnobs) or change.queue is None:
        sheet = changed_sheet(knob_sheet(connection), change)
        put(connection, policy_knobs, [{"name": THE_ONLY, "knobs": to_json(sheet)}])
        return
    queue = queue_named(connection, change.queue)
    changed = replace(queue, knobs=changed_sheet(queue.knobs, change))
    put(connection, queues, [queue_row(changed)])


_THIS_STRAY = (strays.c.job_id == bindparam("of_job")) & (
    strays.c.attempt == bindparam("of_attempt")
)
_DELETE_STRAY = delete(strays).where(_THIS_STRAY)
_ORDER_STRAY = (
    update(strays).where(_THIS_STRAY).values(order=bindparam("wanted"), stray=bindparam("told"))
)
_ALL_STRAYS = select(strays.c.job_id, strays.c.attempt, strays.c.order)


def _change_strays(change: SaveStrays | OrderStray, connection: Connection) -> None:
    if isinstance(change, OrderStray):
        _order_stray(change, connection)
        return
    orders = {(r.job_id, r.attempt): r.order for r in connection.execute(_ALL_STRAYS)}
    rows = {
        (stray.attempt.job_id, stray.attempt.number): stray_row(stray) for stray in change.strays
    }
    if gone := sorted(orders.keys() - rows.keys()):
        connection.execute(_DELETE_STRAY, [{"of_job": j, "of_attempt": a} for j, a in gone])
    put(connection, strays, [row | {"order": orders.get(key)} for key, row in rows.items()])


def _order_stray(change: OrderStray, connection: Connection) -> None:
    key = {"of_job": change.attempt.job_id, "of_attempt": change.attempt.number}
    row = connection.execute(select(strays).where(_THIS_STRAY), key).one_or_none()
    if row is None:
        raise NotFoundError("stray", str(change.attempt))
    told = stray_row(replace(to_stray(row), problem=None))["stray"]
    connection.execute(_ORDER_STRAY, {**key, "wanted": change.order, "told": told})


_DELETE_NODE = delete(nodes).where(nodes.c.name == bindparam("gone"))


def _save_nodes(change: SaveNodes, connection: Connection) -> None:
    known = connection.execute(select(levels.c.position, levels.c.level).order_by("position"))
    wanted = [level_row(level, position=place) for place, level in enumerate(change.levels)]
    if [row._asdict() for row in known] != wanted:
        connection.execute(delete(levels))
        put(connection, levels, wanted)
    stored = {row.name: row.node for row in connection.execute(select(nodes.c.name, nodes.c.node))}
    rows = {node.name: node_row(node) for node in change.nodes}
    if gone := sorted(stored.keys() - rows.keys()):
        connection.execute(_DELETE_NODE, [{"gone": name} for name in gone])
    new = [row for name, row in rows.items() if stored.get(name) != row["node"]]
    put(connection, nodes, [row | {"changed_at": change.at} for row in new])


def _change_notes(
    change: SaveAnswers | RecordCycle | RecordWaits | RecordEnd | SaveStrays | OrderStray,
    work: UnitWork,
) -> None:
    """What the loop notes: why jobs wait, its last cycle, what past jobs teach."""
    match change:
        case SaveAnswers(answers=answered):
            _save_answers(answered, work.connection)
        case RecordCycle(cycle=cycle, at=at):
            put(work.connection, cycles, [{"name": THE_ONLY, "cycle": cycle, "at": at}])
        case RecordWaits() | RecordEnd():
            record(change, work)
        case SaveStrays() | OrderStray():
            _change_strays(change, work.connection)
        case _:
            assert_never(change)


def _save_answers(answered: Sequence[Answer], connection: Connection) -> None:
    rows = {answer.job_id: answer_row(answer) for answer in answered}
    existing = _existing_jobs(list(rows), connection)
    put(connection, answers, [row for job_id, row in rows.items() if job_id in existing])


def _existing_jobs(job_ids: Sequence[JobId], connection: Connection) -> set[JobId]:
    found: set[JobId] = set()
    for some in chunks(job_ids, IDS_AT_ONCE):
        found.update(connection.scalars(select(jobs.c.id).where(jobs.c.id.in_(some))))
    return found
