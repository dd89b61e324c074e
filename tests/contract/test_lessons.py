"""What a store keeps of past waits and ended jobs: the newest of each kind, through restarts."""

from dataclasses import replace

import pytest

from scheduler.adapters.sql.job_store import open_store
from scheduler.domain.errors import ConflictError
from scheduler.domain.ids import Sequence
from scheduler.domain.instants import Instant
from scheduler.domain.job import JobPhase
from scheduler.domain.waits import (
    ENDS_KEPT,
    ENDS_KEPT_FOR,
    WAITS_KEPT,
    WAITS_KEPT_FOR,
)
from scheduler.ports.unit import DeleteJob, RecordEnd, RecordWaits, SaveJob
from tests.contract.stores import DONE, JOB, LATE, Store, a_wait, an_end, insert, write


def test_waits_and_ends_are_read_back_in_the_order_they_were_written(store: Store) -> None:
    waits = (a_wait("b", censored=True), a_wait("a", level="é"))
    write(store, RecordWaits(waits=waits[:1]))
    write(store, RecordWaits(waits=waits[1:]), RecordEnd(end=an_end("z")))
    write(store, RecordEnd(end=replace(an_end("a"), is_complete=False)))
    assert store.past_waits() == waits
    assert store.ended_jobs() == (an_end("z"), replace(an_end("a"), is_complete=False))


def test_a_reader_who_says_what_it_knows_is_told_the_rest(store: Store) -> None:
    known = write(store, RecordWaits(waits=(a_wait("a"),)), RecordEnd(end=an_end("a")))
    assert (store.past_waits(known), store.ended_jobs(known)) == ((), ())
    write(store, RecordWaits(waits=(a_wait("b"),)))
    write(store, RecordEnd(end=an_end("b")))
    assert (store.past_waits(known), store.ended_jobs(known)) == ((a_wait("b"),), (an_end("b"),))
    assert store.past_waits(store.sequence()) == ()


def test_a_wait_written_twice_is_kept_once(store: Store) -> None:
    first = write(store, RecordWaits(waits=(a_wait(),)), RecordEnd(end=an_end()))
    write(store, RecordWaits(waits=(a_wait(censored=True),)), RecordEnd(end=an_end()))
    assert store.past_waits() == (a_wait(censored=True),)
    assert store.past_waits(first) == (a_wait(censored=True),)
    assert store.ended_jobs(first) == (an_end(),)


def test_of_each_demand_and_level_the_newest_waits_stay(store: Store) -> None:
    others = (a_wait(demand=4), a_wait(level="block"))
    write(store, RecordWaits(waits=others))
    # Written out of order: what counts is when the wait ended.
    crowd = tuple(a_wait(f"j{n}", at=LATE + n) for n in reversed(range(WAITS_KEPT + 5)))
    write(store, RecordWaits(waits=crowd[:50]))
    write(store, RecordWaits(waits=crowd[50:]))
    kept = store.past_waits()
    assert set(kept) == {*others, *crowd[:WAITS_KEPT]}


def test_of_each_queue_the_newest_ends_stay(store: Store) -> None:
    write(store, RecordEnd(end=an_end(queue="other")))
    crowd = [RecordEnd(end=an_end(f"j{n}", at=LATE + n)) for n in range(ENDS_KEPT + 3)]
    write(store, *crowd)
    kept = store.ended_jobs()
    assert set(kept) == {an_end(queue="other"), *(change.end for change in crowd[3:])}


def test_what_is_long_past_is_forgotten_when_its_like_is_written(store: Store) -> None:
    old, edge = (
        a_wait("old", at=LATE - WAITS_KEPT_FOR - 1),
        a_wait("edge", at=LATE - WAITS_KEPT_FOR),
    )
    unlike = replace(old, demand=1)
    write(store, RecordWaits(waits=(old, edge, unlike)))
    write(store, RecordWaits(waits=(a_wait(),)))
    assert set(store.past_waits()) == {edge, unlike, a_wait()}
    write(store, RecordEnd(end=an_end("old", at=LATE - ENDS_KEPT_FOR - 1)))
    write(store, RecordEnd(end=an_end()))
    assert store.ended_jobs() == (an_end(),)


def test_nothing_is_learned_from_a_claim_that_was_lost(store: Store) -> None:
    insert(store, JOB)
    with pytest.raises(ConflictError):
        write(
            store,
            RecordWaits(waits=(a_wait(),)),
            RecordEnd(end=an_end()),
            SaveJob(job=replace(JOB, phase=JobPhase.CANCELLED), expected_revision=7),
        )
    assert (store.past_waits(), store.ended_jobs()) == ((), ())


def test_deleting_a_job_forgets_nothing_of_what_it_taught(store: Store) -> None:
    insert(store, DONE)
    write(store, RecordWaits(waits=(a_wait(DONE.id),)), RecordEnd(end=an_end(DONE.id)))
    write(store, DeleteJob(job_id=DONE.id, expected_revision=0, at=Instant(1)))
    assert store.past_waits() == (a_wait(DONE.id),)
    assert store.ended_jobs() == (an_end(DONE.id),)


def test_what_was_learned_survives_a_restart(database_url: str) -> None:
    with open_store(database_url) as store:
        write(store, RecordWaits(waits=(a_wait(),)), RecordEnd(end=an_end()))
    with open_store(database_url) as store:
        assert store.past_waits() == (a_wait(),)
        assert store.ended_jobs(Sequence(0)) == (an_end(),)
