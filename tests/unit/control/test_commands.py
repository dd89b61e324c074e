"""What users order becomes one unit; races with the leader end well."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.control import commands
from scheduler.control.commands import Requester
from scheduler.domain.errors import (
    ConflictError,
    InvalidTransitionError,
    NameTakenError,
    NotFoundError,
)
from scheduler.domain.ids import Sequence
from scheduler.domain.job import Job, JobPhase, StopCause
from scheduler.ports.job_store import EventQuery
from scheduler.ports.kill_points import KillPoint, arm
from scheduler.ports.unit import (
    AuditRow,
    InsertJob,
    RecordAudit,
    RememberReply,
    SaveJob,
    Unit,
)
from tests.builders import a_job, at

BY = Requester(actor="ada", at=at(5))


def a_store(*jobs: Job) -> MemoryStore:
    store = MemoryStore()
    store.write(Unit(changes=tuple(InsertJob(job=job) for job in jobs)))
    return store


def reasons(store: MemoryStore) -> list[str]:
    return [event.reason for event in store.events(EventQuery())]


def a_reply(key: str = "k") -> RememberReply:
    return RememberReply(
        principal="t", route="r", key=key, body_sha256="", status=201, reply="{}", at=at(5)
    )


def an_audit_row() -> RecordAudit:
    row = AuditRow(
        at=at(5), principal="ada", verb="cancel", target="x", outcome=200, request_id="r"
    )
    return RecordAudit(row=row)


class Rival(MemoryStore):
    """A store in which the leader writes the job just before each of our writes."""

    def __init__(self, *, wins: int) -> None:
        super().__init__()
        self.wins = wins

    def write(self, unit: Unit) -> Sequence:
        saved = [change for change in unit.changes if isinstance(change, SaveJob)]
        if saved and self.wins:
            self.wins -= 1
            job = self.job_by_id(saved[0].job.id)
            super().write(Unit(changes=(SaveJob(job=job, expected_revision=job.revision),)))
        return super().write(unit)


def test_a_submitted_job_its_event_and_its_records_are_one_unit() -> None:
    store = MemoryStore()
    before = store.sequence()
    by = replace(BY, records=(a_reply(), an_audit_row()))

    commands.submit(store, a_job("train"), source="{}", by=by)

    assert store.job_by_id(a_job("train").id).phase is JobPhase.PENDING
    assert reasons(store) == ["JobSubmitted"]
    assert store.reply(principal="t", route="r", key="k") == a_reply()
    assert store.audit(limit=10) == (an_audit_row().row,)
    assert store.sequence() > before


def test_a_taken_name_leaves_nothing_behind() -> None:
    store = a_store(a_job("train"))
    by = replace(BY, records=(a_reply(), an_audit_row()))
    twin = replace(a_job("other"), name=a_job("train").name)

    with pytest.raises(NameTakenError):
        commands.submit(store, twin, source="{}", by=by)

    assert store.reply(principal="t", route="r", key="k") is None
    assert store.audit(limit=10) == ()
    assert reasons(store) == []


def test_of_two_requests_with_one_key_the_second_learns_of_the_first() -> None:
    store = MemoryStore()
    by = replace(BY, records=(a_reply(),))
    commands.submit(store, a_job("train"), source="{}", by=by)

    with pytest.raises(ConflictError) as caught:
        commands.submit(store, a_job("train"), source="{}", by=by)

    assert caught.value.kind == "idempotency key"


@pytest.mark.parametrize("phase", [JobPhase.PENDING, JobPhase.HELD])
def test_a_waiting_job_is_cancelled_at_once(phase: JobPhase) -> None:
    store = a_store(a_job("train", phase=phase))

    job = commands.cancel(store, a_job("train").id, by=BY)

    assert (job.phase, job.reason) == (JobPhase.CANCELLED, "CancelledByUser")
    assert job == store.job_by_id(job.id)
    assert reasons(store) == ["JobCancelled"]


@pytest.mark.parametrize("phase", [JobPhase.STARTING, JobPhase.RUNNING, JobPhase.STOPPING])
def test_a_job_that_holds_gpus_is_only_marked(phase: JobPhase) -> None:
    store = a_store(a_job("train", phase=phase))

    job = commands.cancel(store, a_job("train").id, by=BY)

    assert (job.phase, job.stop_requested, job.stop_now) == (phase, StopCause.CANCEL, False)
    assert job == store.job_by_id(job.id)
    assert reasons(store) == ["CancelRequested"]


def test_cancelling_twice_is_done_once_and_now_comes_on_top() -> None:
    store = a_store(a_job("train", phase=JobPhase.RUNNING))
    job_id = a_job("train").id

    first = commands.cancel(store, job_id, by=BY)
    again = commands.cancel(store, job_id, by=BY)
    at_once = commands.cancel(store, job_id, by=BY, now=True)
    gently = commands.cancel(store, job_id, by=BY)

    assert again.revision == first.revision
    assert at_once.stop_now
    assert gently == at_once


@pytest.mark.parametrize("phase", [JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED])
def test_a_job_that_has_ended_stays_as_it_is(phase: JobPhase) -> None:
    store = a_store(a_job("train", phase=phase))

    job = commands.cancel(store, a_job("train").id, by=replace(BY, records=(an_audit_row(),)))

    assert job == a_job("train", phase=phase)
    assert reasons(store) == []
    assert store.audit(limit=10) == (an_audit_row().row,)


def test_cancel_over_a_preemption_wins() -> None:
    preempted = a_job("train", phase=JobPhase.STOPPING, stop_requested=StopCause.PREEMPT)
    store = a_store(preempted)

    assert commands.cancel(store, preempted.id, by=BY).stop_requested is StopCause.CANCEL


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(lambda store, job: commands.cancel(store, job.id, by=BY), id="cancel"),
        pytest.param(lambda store, job: commands.hold(store, job.id, by=BY), id="hold"),
    ],
)
def test_an_order_outlasts_the_leaders_writes(order: Callable[[MemoryStore, Job], Job]) -> None:
    store = Rival(wins=3)
    store.write(Unit(changes=(InsertJob(job=a_job("train")),)))

    job = order(store, a_job("train"))

    assert job == store.job_by_id(job.id)
    assert job.revision == 4
    assert len(reasons(store)) == 1


def test_an_order_that_never_gets_its_turn_is_told_so() -> None:
    store = Rival(wins=10_000)
    store.write(Unit(changes=(InsertJob(job=a_job("train")),)))

    with pytest.raises(ConflictError):
        commands.cancel(store, a_job("train").id, by=BY)

    assert 10_000 - store.wins == commands.TRIES_MAX


def test_hold_and_release_take_a_job_out_of_the_queue_and_back() -> None:
    store = a_store(a_job("train"))
    job_id = a_job("train").id
    by = replace(BY, reason="wait for the data")

    held = commands.hold(store, job_id, by=by)
    held_again = commands.hold(store, job_id, by=by)
    released = commands.release(store, job_id, by=BY)
    released_again = commands.release(store, job_id, by=BY)

    assert (held.phase, held.message) == (JobPhase.HELD, "held by ada: wait for the data")
    assert held_again == held
    assert (released.phase, released.message) == (JobPhase.PENDING, "")
    assert released_again == released
    assert reasons(store) == ["JobHeld", "JobReleased"]


@pytest.mark.parametrize("phase", [JobPhase.RUNNING, JobPhase.SUCCEEDED])
@pytest.mark.parametrize("order", [commands.hold, commands.release])
def test_only_waiting_jobs_are_held_and_released(
    order: Callable[..., Job], phase: JobPhase
) -> None:
    store = a_store(a_job("train", phase=phase))

    with pytest.raises(InvalidTransitionError):
        order(store, a_job("train").id, by=BY)


def test_a_deleted_job_is_gone_and_an_event_says_who_did_it() -> None:
    store = a_store(a_job("train", phase=JobPhase.FAILED))
    job = store.job_by_id(a_job("train").id)

    commands.delete(store, job, by=BY)

    with pytest.raises(NotFoundError):
        store.job_by_id(job.id)
    (event,) = store.events(EventQuery())
    assert (event.reason, event.job_name, event.job_id) == ("JobDeleted", "train", None)
    assert event.message == "deleted in phase Failed by ada"


def test_a_live_job_is_not_deleted() -> None:
    store = a_store(a_job("train"))

    with pytest.raises(InvalidTransitionError):
        commands.delete(store, store.job_by_id(a_job("train").id), by=BY)


def test_every_kill_point_of_the_commands_is_reached() -> None:
    reached: list[KillPoint] = []
    arm(reached.append)
    try:
        store = MemoryStore()
        commands.submit(store, a_job("train"), source="{}", by=BY)
        commands.cancel(store, a_job("train").id, by=BY)
    finally:
        arm(None)

    assert reached == [
        KillPoint.SUBMIT_BEFORE_WRITE,
        KillPoint.SUBMIT_AFTER_WRITE,
        KillPoint.CANCEL_BEFORE_WRITE,
        KillPoint.CANCEL_AFTER_WRITE,
    ]
