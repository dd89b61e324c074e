"""Each change of a unit, carried out on the tables of the memory store."""

from collections.abc import Callable, Mapping
from heapq import nsmallest
from typing import assert_never

from scheduler.adapters.memory.knowledge import change_what_is_known
from scheduler.adapters.memory.tables import ReplyKey, Singles, Tables, Tombstone, UndoLog
from scheduler.domain.copying import replace
from scheduler.domain.errors import (
    ConflictError,
    InvalidTransitionError,
    NameTakenError,
    NotFoundError,
    StaleEpochError,
)
from scheduler.domain.event import Event
from scheduler.domain.ids import JobId, Sequence
from scheduler.domain.job import Job
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.lessons import keyed_ends, keyed_waits
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.unit import (
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
    changed_sheet,
)


class UnitInProgress:
    """One unit while it is carried out."""

    __slots__ = ("deleted", "lessons", "tables", "touched", "undo")

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.undo = UndoLog()
        self.touched: dict[JobId, None] = {}
        """Jobs that readers of changes must look at again."""
        self.deleted: list[tuple[Job, DeleteJob]] = []
        self.lessons: list[RecordWaits | RecordEnd] = []

    def next_sequence(self) -> Sequence:
        """The store's next sequence number."""
        sequence = self.tables.sequence = Sequence(self.tables.sequence + 1)
        return sequence

    def set_singles(self, singles: Singles) -> None:
        """Set what there is one of; `carry_out` takes it back."""
        self.tables.singles = singles


def carry_out(unit: Unit, tables: Tables) -> Sequence:
    """Write a unit, or raise and leave the tables as they were."""
    if unit.epoch is not None and unit.epoch != tables.lease.epoch:
        raise StaleEpochError(mine=unit.epoch, current=tables.lease.epoch)
    work = UnitInProgress(tables)
    before, last_before = tables.singles, tables.sequence
    try:
        for change in unit.changes:
            _COMMON.get(type(change), _carry_out_change)(change, work)
    except BaseException:
        work.undo.undo()
        tables.singles, tables.sequence = before, last_before
        raise
    # From here on nothing fails.
    if tables.keeps_events:
        for event in unit.events:
            _record_event(event, work)
    else:
        tables.sequence = Sequence(tables.sequence + len(unit.events))
    sequence = _mark_changed(work)
    if tables.step_times:
        _date_step_times(unit, tables, sequence)
    return sequence


def _date_step_times(unit: Unit, tables: Tables, sequence: Sequence) -> None:
    for change in unit.changes:
        if isinstance(change, SaveStepTimes) and change.job_id in tables.step_times:
            tables.step_times_written[change.job_id] = sequence


def _carry_out_change(change: Change, work: UnitInProgress) -> None:
    match change:
        case InsertJob() | SaveJob() | DeleteJob():
            _change_job(change, work)
        case SaveAttempt() | Reserve() | FreeReservations() | RecordProgress():
            _change_attempt(change, work)
        case SaveStepTimes() | SaveProfile() | DeleteProfile():
            change_what_is_known(change, work.tables, work.undo)
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
            _expire(change, work)
        case _:
            assert_never(change)


def _change_strays(change: SaveStrays | OrderStray, work: UnitInProgress) -> None:
    known, undo = work.tables.strays, work.undo
    if isinstance(change, OrderStray):
        stray = known.get(change.attempt)
        if stray is None:
            raise NotFoundError("stray", str(change.attempt))
        undo.put(known, change.attempt, replace(stray, order=change.order, problem=None))
        return
    wanted = {stray.attempt: stray for stray in change.strays}
    for key in [key for key in known if key not in wanted]:
        undo.drop(known, key)
    for key, stray in wanted.items():
        order = known[key].order if key in known else stray.order
        undo.put(known, key, replace(stray, order=order))


def _change_job(change: InsertJob | SaveJob | DeleteJob, work: UnitInProgress) -> None:
    match change:
        case InsertJob():
            _insert_job(change, work)
        case SaveJob():
            _save_job(change, work)
        case DeleteJob():
            _delete_job(change, work)
        case _:
            assert_never(change)


def _insert_job(change: InsertJob, work: UnitInProgress) -> None:
    job, tables = change.job, work.tables
    if job.project not in tables.projects:
        raise NotFoundError("project", job.project)
    if job.spec.queue not in tables.queues:
        raise NotFoundError("queue", job.spec.queue)
    if (job.project, job.name) in tables.job_ids:
        raise NameTakenError("job", job.name)
    if job.id in tables.jobs or job.id in tables.tombstones:
        same = tables.jobs.get(job.id)
        raise ConflictError("job", job.id, expected=0, found=same.revision if same else None)
    work.undo.put(tables.jobs, job.id, job)
    work.undo.put(tables.sources, job.id, change.source)
    work.undo.put(tables.job_ids, (job.project, job.name), job.id)
    if not job.phase.is_terminal:
        work.undo.put(tables.live, job.id, None)
    work.touched[job.id] = None


def _save_job(change: SaveJob, work: UnitInProgress) -> None:
    job, tables = change.job, work.tables
    stored = _expect_revision(job.id, change.expected_revision, tables)
    assert (stored.project, stored.name) == (job.project, job.name), job.id
    assert stored.spec is job.spec or stored.spec == job.spec, job.id
    if job.phase is not stored.phase and stored.phase.is_terminal:
        raise InvalidTransitionError(job.id, stored.phase, job.phase)
    revision = change.expected_revision + 1
    saved = job if job.revision == revision else replace(job, revision=revision)
    work.undo.put(tables.jobs, job.id, saved)
    if job.phase.is_terminal:
        work.undo.drop(tables.live, job.id)
    work.touched[job.id] = None


def _delete_job(change: DeleteJob, work: UnitInProgress) -> None:
    tables, job_id = work.tables, change.job_id
    job = _expect_revision(job_id, change.expected_revision, tables)
    if not job.phase.is_terminal or tables.reservations.get(job_id):
        raise InvalidTransitionError(job_id, job.phase, "Deleted")
    undo = work.undo
    undo.on_undo(tables.restore_order)
    undo.drop(tables.jobs, job_id)
    undo.drop(tables.sources, job_id)
    undo.drop(tables.job_ids, (job.project, job.name))
    undo.drop(tables.changed, job_id)
    undo.drop(tables.attempts, job_id)
    undo.drop(tables.reservations, job_id)
    undo.drop(tables.progress, job_id)
    undo.drop(tables.step_times, job_id)
    undo.drop(tables.step_times_written, job_id)
    undo.drop(tables.answers, job_id)
    for key in [key for key in tables.events if key.job_id == job_id]:
        undo.drop(tables.events, key)
    work.touched.pop(job_id, None)
    work.deleted.append((job, change))


def _expect_revision(job_id: JobId, expected: int, tables: Tables) -> Job:
    stored = tables.jobs.get(job_id)
    if stored is None:
        raise NotFoundError("job", job_id)
    if stored.revision != expected:
        raise ConflictError("job", stored.name, expected=expected, found=stored.revision)
    return stored


def _change_attempt(
    change: SaveAttempt | Reserve | FreeReservations | RecordProgress, work: UnitInProgress
) -> None:
    match change:
        case SaveAttempt():
            _save_attempt(change, work)
        case Reserve():
            _reserve(change, work)
        case FreeReservations():
            _free(change, work)
        case RecordProgress():
            _record_progress(change, work)
        case _:
            assert_never(change)


def _save_attempt(change: SaveAttempt, work: UnitInProgress) -> None:
    attempt = change.attempt
    tables, job_id = work.tables, attempt.job_id
    if job_id not in tables.jobs:
        raise NotFoundError("job", job_id)
    known = tables.attempts.get(job_id, ())
    if not known or known[-1].number < attempt.number:
        attempts = (*known, attempt)
    elif known[-1].number == attempt.number:
        attempts = (*known[:-1], attempt)
    else:
        others = [a for a in known if a.number != attempt.number]
        attempts = tuple(sorted([*others, attempt], key=lambda a: a.number))
    work.undo.put(tables.attempts, job_id, attempts)
    work.touched[job_id] = None


def _reserve(change: Reserve, work: UnitInProgress) -> None:
    tables = work.tables
    for key in {reservation.attempt: None for reservation in change.reservations}:
        _expect_attempt(key, tables)
        held = tables.reservations.get(key.job_id, ())
        ranks = {r.rank for r in held if r.attempt == key}
        added = tuple([r for r in change.reservations if r.attempt == key])
        for reservation in added:
            if reservation.rank in ranks:
                name = f"{key} rank {reservation.rank}"
                raise ConflictError("reservation", name, expected=0, found=1)
            ranks.add(reservation.rank)
        work.undo.put(tables.reservations, key.job_id, (*held, *added))
        work.touched[key.job_id] = None


def _free(change: FreeReservations, work: UnitInProgress) -> None:
    tables, key = work.tables, change.attempt
    held = tables.reservations.get(key.job_id, ())
    ranks = change.ranks
    kept = tuple(
        [r for r in held if r.attempt != key or (ranks is not None and r.rank not in ranks)]
    )
    if len(kept) < len(held):
        work.undo.put(tables.reservations, key.job_id, kept)
        work.touched[key.job_id] = None


def _record_progress(change: RecordProgress, work: UnitInProgress) -> None:
    _expect_attempt(change.attempt, work.tables)
    work.next_sequence()
    reports = work.tables.progress.setdefault(change.attempt.job_id, [])
    reports.append((change.attempt, change.progress))
    work.undo.on_undo(reports.pop)


def _expect_attempt(key: AttemptKey, tables: Tables) -> None:
    if key.number not in [a.number for a in tables.attempts.get(key.job_id, ())]:
        raise NotFoundError("attempt", str(key))


def _change_account(change: SaveToken | RememberReply | RecordAudit, work: UnitInProgress) -> None:
    tables = work.tables
    match change:
        case SaveToken(token=token):
            if any(
                other.secret_sha256 == token.secret_sha256 and other.id != token.id
                for other in tables.tokens.values()
            ):
                raise ConflictError("token", token.id, expected=0, found=1)
            work.undo.put(tables.tokens, token.id, token)
        case RememberReply():
            key = ReplyKey(change.principal, change.route, change.key)
            if key in tables.replies:
                raise ConflictError("idempotency key", change.key, expected=0, found=1)
            work.undo.put(tables.replies, key, change)
        case RecordAudit():
            work.next_sequence()
            tables.audit.append(change.row)
            work.undo.on_undo(tables.audit.pop)
        case _:
            assert_never(change)


def _change_cluster(
    change: SaveNodes
    | ChangeCordon
    | ChangeExclusion
    | SaveProject
    | SaveQueue
    | SaveKnobs
    | SeedKnobs
    | ChangeKnobs,
    work: UnitInProgress,
) -> None:
    tables = work.tables
    match change:
        case SaveNodes() | ChangeCordon() | ChangeExclusion():
            _change_nodes(change, work)
        case SaveProject(project=project):
            work.undo.put(tables.projects, project.name, project)
        case SaveQueue(queue=queue):
            work.undo.put(tables.queues, queue.name, queue)
        case SaveKnobs() | SeedKnobs() | ChangeKnobs():
            _change_knobs(change, work)
        case _:
            assert_never(change)


def _change_nodes(
    change: SaveNodes | ChangeCordon | ChangeExclusion,
    work: UnitInProgress,
) -> None:
    tables = work.tables
    match change:
        case SaveNodes(levels=levels):
            nodes = tuple(sorted(change.nodes, key=lambda node: node.name))
            work.set_singles(replace(tables.singles, levels=levels, nodes=nodes))
        case ChangeCordon(node=node, cordon=None):
            work.undo.drop(tables.cordons, node)
        case ChangeCordon(node=node, cordon=cordon):
            assert cordon is not None
            work.undo.put(tables.cordons, node, cordon)
        case ChangeExclusion(node=node, exclusion=None):
            work.undo.drop(tables.exclusions, node)
        case ChangeExclusion(node=node, exclusion=exclusion):
            assert exclusion is not None
            work.undo.put(tables.exclusions, node, exclusion)
        case _:
            assert_never(change)


def _change_knobs(change: SaveKnobs | SeedKnobs | ChangeKnobs, work: UnitInProgress) -> None:
    tables = work.tables
    if isinstance(change, SaveKnobs) or change.queue is None:
        sheet = changed_sheet(tables.singles.knob_sheet, change)
        knobs = sheet.over(PolicyKnobs())
        work.set_singles(replace(tables.singles, knob_sheet=sheet, knobs=knobs))
        return
    queue = tables.queues.get(change.queue)
    if queue is None:
        raise NotFoundError("queue", change.queue)
    changed = replace(queue, knobs=changed_sheet(queue.knobs, change))
    work.undo.put(tables.queues, queue.name, changed)


def _change_notes(
    change: SaveAnswers | RecordCycle | RecordWaits | RecordEnd | SaveStrays | OrderStray,
    work: UnitInProgress,
) -> None:
    """What the loop notes: why jobs wait, its last cycle, what past jobs teach."""
    tables = work.tables
    match change:
        case SaveAnswers(answers=answers):
            for answer in answers:
                if answer.job_id in tables.jobs:
                    work.undo.put(tables.answers, answer.job_id, answer)
        case RecordCycle():
            work.set_singles(replace(tables.singles, cycle=change))
        case RecordWaits() | RecordEnd():
            work.lessons.append(change)
        case SaveStrays() | OrderStray():
            _change_strays(change, work)
        case _:
            assert_never(change)


def _expire(change: Expire, work: UnitInProgress) -> None:
    tables, undo, rows_max = work.tables, work.undo, change.rows_max
    horizon = tables.singles.horizon
    undo.on_undo(tables.restore_order)
    old_events = [e for e in tables.events.values() if e.at < change.events_before]
    for event in nsmallest(rows_max, old_events, key=lambda e: (e.at, e.sequence)):
        assert event.sequence is not None
        horizon = max(horizon, event.sequence)
        undo.drop(tables.events, event.fold_key)
    old_tombstones = [
        (t.at, i) for i, t in tables.tombstones.items() if t.at < change.events_before
    ]
    for _, job_id in nsmallest(rows_max, old_tombstones):
        horizon = max(horizon, tables.tombstones[job_id].sequence)
        undo.drop(tables.tombstones, job_id)
    old_replies = [(r.at, key) for key, r in tables.replies.items() if r.at < change.replies_before]
    for _, reply_key in nsmallest(rows_max, old_replies):
        undo.drop(tables.replies, reply_key)
    _expire_audit(change, work)
    work.set_singles(replace(tables.singles, horizon=horizon))


def _expire_audit(change: Expire, work: UnitInProgress) -> None:
    audit = work.tables.audit
    old = [(row.at, place) for place, row in enumerate(audit) if row.at < change.audit_before]
    dropped = {place for _, place in nsmallest(change.rows_max, old)}
    if dropped:
        former = audit.copy()
        audit[:] = [row for place, row in enumerate(former) if place not in dropped]
        work.undo.on_undo(lambda: audit.__setitem__(slice(None), former))


def _record_event(event: Event, work: UnitInProgress) -> None:
    sequence = work.next_sequence()
    earlier = work.tables.events.pop(event.fold_key, None)
    if earlier is not None:
        first_at = earlier.at if earlier.first_at is None else earlier.first_at
        event = replace(event, count=earlier.count + event.count, first_at=first_at)
    work.tables.events[event.fold_key] = replace(event, sequence=sequence)


def _learn(work: UnitInProgress, sequence: Sequence) -> None:
    tables = work.tables
    for lesson in work.lessons:
        match lesson:
            case RecordWaits(waits=waits):
                tables.waits.add(keyed_waits(waits), sequence)
            case RecordEnd(end=end):
                tables.ends.add(keyed_ends([end]), sequence)
            case _:
                assert_never(lesson)


def _mark_changed(work: UnitInProgress) -> Sequence:
    tables = work.tables
    sequence = tables.sequence = Sequence(tables.sequence + 1)
    if work.lessons:
        _learn(work, sequence)
    changed = tables.changed
    for job_id in work.touched:
        changed.pop(job_id, None)
        changed[job_id] = sequence
    for job, change in work.deleted:
        tables.tombstones[job.id] = Tombstone(
            sequence=sequence, project=job.project, name=job.name, at=change.at
        )
    return sequence


_COMMON: Mapping[type[Change], Callable[..., None]] = {
    SaveJob: _save_job,
    SaveAttempt: _save_attempt,
    Reserve: _reserve,
    FreeReservations: _free,
}
"""What nearly all units are made of, without asking which of all changes it is."""
