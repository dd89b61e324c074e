"""Changes of jobs in order, for watches."""

from dataclasses import replace

import pytest

from scheduler.domain.errors import HistoryGoneError
from scheduler.domain.ids import Sequence
from scheduler.domain.job import Job, JobPhase
from scheduler.ports.job_store import ChangeCursor
from scheduler.ports.unit import DeleteJob, Expire, InsertJob, SaveJob, Unit
from tests.builders import a_job, at
from tests.contract.stores import Store

START = ChangeCursor(Sequence(1))


def _names(store: Store, after: ChangeCursor, *, limit: int = 100) -> list[str]:
    return [change.name for change in store.job_changes(after, limit=limit)]


def _insert(store: Store, *jobs: Job) -> None:
    store.write(Unit(changes=tuple(InsertJob(job=job) for job in jobs)))


def test_every_job_is_told_once_with_its_last_change(store: Store) -> None:
    _insert(store, a_job("a"))
    _insert(store, a_job("b"))
    held = store.job_by_id(a_job("a").id).moved_to(JobPhase.HELD, at=at(1))
    store.write(Unit(changes=(SaveJob(job=held, expected_revision=0),)))

    changes = store.job_changes(START, limit=100)

    assert [change.name for change in changes] == ["b", "a"]
    assert changes[1].job == replace(held, revision=1)


def test_a_cursor_can_stand_inside_one_unit(store: Store) -> None:
    _insert(store, a_job("a"), a_job("b"), a_job("c"))

    first = store.job_changes(START, limit=1)
    rest = _names(store, first[-1].cursor)

    assert [change.name for change in first] == ["a"]
    assert rest == ["b", "c"]


def test_a_deletion_is_told_with_the_name_of_what_is_gone(store: Store) -> None:
    _insert(store, a_job("a", phase=JobPhase.CANCELLED))
    store.write(Unit(changes=(DeleteJob(job_id=a_job("a").id, expected_revision=0, at=at(2)),)))

    (change,) = store.job_changes(START, limit=100)

    assert (change.project, change.name, change.job) == ("default", "a", None)


def test_forgotten_deletions_are_not_passed_over_in_silence(store: Store) -> None:
    _insert(store, a_job("a", phase=JobPhase.CANCELLED))
    store.write(Unit(changes=(DeleteJob(job_id=a_job("a").id, expected_revision=0, at=at(2)),)))
    long_after = at(1000)
    store.write(
        Unit(
            changes=(
                Expire(
                    events_before=long_after, replies_before=long_after, audit_before=long_after
                ),
            )
        )
    )

    with pytest.raises(HistoryGoneError):
        store.job_changes(START, limit=100)

    assert _names(store, ChangeCursor(Sequence(store.sequence() + 1))) == []
