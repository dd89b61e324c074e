"""What a store promises of attempts, reservations, progress and answers."""

from dataclasses import replace

from scheduler.domain.ids import (
    AttemptNumber,
    Epoch,
    JobId,
    PoolName,
    Rank,
    RoleName,
)
from scheduler.domain.instants import Instant
from scheduler.domain.job import (
    AttemptPhase,
    Outcome,
    StopCause,
    WorkerEnd,
)
from scheduler.domain.placement import PoolMissing
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.resources import Resources
from scheduler.ports.unit import (
    FreeReservations,
    RecordProgress,
    Reserve,
    SaveAnswers,
    SaveAttempt,
)
from tests.builders import a_job
from tests.contract.stores import (
    CLUSTER,
    HOLD,
    JOB,
    KEY,
    REPORT,
    START,
    Store,
    an_answer,
    gang_of,
    insert,
    write,
)


def test_an_attempt_comes_back_as_it_was_saved(store: Store) -> None:
    insert(store, JOB)
    write(store, START)
    assert store.attempts(JOB.id) == (START.attempt,)
    ended = replace(
        START.attempt,
        phase=AttemptPhase.ENDED,
        phase_since=Instant(20),
        epoch=Epoch(3),
        running_since=Instant(11),
        stop_cause=StopCause.WORKER_ENDED,
        kill_at=Instant(12),
        outcome=Outcome.OUT_OF_MEMORY,
        message="worker 1 ran out of memory",
        worker_ends=(
            WorkerEnd(
                rank=Rank(1),
                exit_code=137,
                outcome=Outcome.OUT_OF_MEMORY,
                message="m",
                ended_at=Instant(13),
            ),
            WorkerEnd(
                rank=Rank(0), exit_code=None, outcome=Outcome.NODE_LOST, ended_at=Instant(14)
            ),
        ),
        ended_at=Instant(20),
    )
    write(store, SaveAttempt(attempt=ended))
    assert store.attempts(JOB.id) == (ended,)


def test_attempts_come_oldest_first_each_with_its_placement(store: Store) -> None:
    insert(store, JOB)
    second, _ = gang_of(JOB, number=1, nodes=2)
    write(store, second)
    write(store, START)
    assert store.attempts(JOB.id) == (START.attempt, second.attempt)


def test_a_changed_placement_replaces_the_former(store: Store) -> None:
    insert(store, JOB)
    elsewhere, _ = gang_of(JOB, nodes=2)
    write(store, START)
    write(store, elsewhere)
    assert store.attempts(JOB.id) == (elsewhere.attempt,)


# Reservations.


def test_reservations_are_held_rank_by_rank_until_freed(store: Store) -> None:
    insert(store, JOB)
    write(store, START, HOLD)
    assert store.reservations() == HOLD.reservations
    write(store, FreeReservations(attempt=KEY, ranks=(0,)))
    assert store.reservations() == HOLD.reservations[1:]
    write(store, FreeReservations(attempt=KEY, ranks=(0, 5)))
    write(store, FreeReservations(attempt=KEY, ranks=()))
    write(store, FreeReservations(attempt=AttemptKey(JobId("none"), AttemptNumber(0))))
    assert store.reservations() == HOLD.reservations[1:]
    write(store, FreeReservations(attempt=KEY))
    assert store.reservations() == ()


def test_a_reservation_comes_back_as_it_went_in(store: Store) -> None:
    insert(store, JOB)
    full = Reservation(
        attempt=KEY,
        role=RoleName("w"),
        rank=Rank(7),
        node=CLUSTER.nodes[1].name,
        gpus=3,
        resources=Resources(cpu_milli=1, memory_bytes=2**40, extended=(("ib", 2), ("nic", 1))),
        gpu_indices=(5, 0, 3),
    )
    write(store, START, Reserve(reservations=(full,)))
    assert store.reservations() == (full,)
    assert store.live().reservations == (full,)


# Progress and answers.


def test_progress_comes_in_its_order_whatever_a_diverging_loss_is(store: Store) -> None:
    insert(store, JOB)
    reports = [
        replace(REPORT, step=2, loss=float("inf")),
        replace(REPORT, step=1, loss=0.25, accuracy=0.5, steps_total=10),
        replace(REPORT, step=3),
    ]
    write(store, START, *(RecordProgress(attempt=KEY, progress=report) for report in reports[:2]))
    write(store, RecordProgress(attempt=KEY, progress=reports[2]))
    assert store.progress(JOB.id) == tuple((KEY, report) for report in reports)


def test_a_loss_that_is_no_number_is_kept(store: Store) -> None:
    insert(store, JOB)
    diverged = replace(REPORT, loss=float("nan"))
    write(store, START, RecordProgress(attempt=KEY, progress=diverged))
    (_, report), *_ = store.progress(JOB.id)
    assert report.loss is not None
    assert report.loss != report.loss


def test_an_answer_replaces_the_former_and_is_dropped_for_a_job_that_is_gone(store: Store) -> None:
    insert(store, JOB)
    write(store, SaveAnswers(answers=(an_answer(JOB), an_answer(a_job("gone")))))
    assert store.answer(JOB.id) == an_answer(JOB)
    other = replace(an_answer(JOB, position=3), blocked=PoolMissing(pool=PoolName("p")))
    write(store, SaveAnswers(answers=(an_answer(JOB), other)))
    assert store.answer(JOB.id) == other
    assert store.answer(JobId("id-gone")) is None
