"""The live state: whole, and as changes since a sequence."""

from dataclasses import replace

import pytest

from scheduler.domain.instants import Instant
from scheduler.domain.job import (
    AttemptPhase,
    JobPhase,
    Outcome,
)
from scheduler.ports.unit import (
    Change,
    FreeReservations,
    SaveAttempt,
    SaveJob,
)
from tests.builders import a_job
from tests.contract.stores import (
    DONE,
    HOLD,
    JOB,
    KEY,
    RUNNING,
    START,
    Store,
    gang_of,
    insert,
    move,
    write,
)


def test_the_live_state_holds_what_is_not_over(store: Store) -> None:
    later = a_job("later", submitted_at=Instant(5))
    insert(store, later, DONE, JOB)
    over = replace(START.attempt, phase=AttemptPhase.ENDED, outcome=Outcome.PREEMPTED)
    second, hold = gang_of(JOB, number=1)
    write(store, SaveAttempt(attempt=over), second, hold)
    live = store.live()
    assert live.is_whole
    assert live.jobs == (JOB, later)
    assert live.attempts == (second.attempt,)
    assert live.reservations == hold.reservations
    assert live.sequence == store.sequence()
    assert (live.stuck, live.held_by_stuck) == ((), ())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([SaveJob(job=RUNNING, expected_revision=0)], id="the job"),
        pytest.param([START], id="an attempt of it"),
        pytest.param([START, HOLD, FreeReservations(attempt=KEY, ranks=(1,))], id="what it holds"),
    ],
)
def test_a_change_of_a_job_or_of_what_is_its_own_is_told(
    store: Store, changes: list[Change]
) -> None:
    insert(store, JOB, a_job("quiet"))
    before = store.sequence()
    write(store, *changes)
    told = store.live(before)
    whole = store.live()
    assert not told.is_whole
    assert [job.id for job in told.jobs] == [JOB.id]
    assert told.jobs == tuple(job for job in whole.jobs if job.id == JOB.id)
    assert (told.attempts, told.reservations) == (whole.attempts, whole.reservations)
    assert store.live(told.sequence).jobs == ()


def test_a_job_that_ended_is_told_once(store: Store) -> None:
    insert(store, JOB)
    before = store.sequence()
    ended = move(store, JOB, JobPhase.CANCELLED)
    assert store.live(before).jobs == (ended,)
    assert store.live().jobs == ()


def test_freeing_what_is_free_is_no_change(store: Store) -> None:
    insert(store, JOB)
    write(store, START)
    before = store.sequence()
    write(store, FreeReservations(attempt=KEY))
    assert store.live(before).jobs == ()
