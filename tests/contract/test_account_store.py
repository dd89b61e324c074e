"""What a store promises of tokens, replies, audit rows and secrets, and of what grows old."""

from dataclasses import replace

import pytest

from scheduler.domain.errors import ConflictError
from scheduler.domain.ids import ProjectName, Sequence
from scheduler.domain.instants import Instant
from scheduler.domain.job import JobPhase
from scheduler.ports.job_store import EventQuery
from scheduler.ports.unit import DeleteJob, Expire, RecordAudit, RememberReply, SaveToken
from tests.builders import a_job
from tests.contract.stores import Store, a_reply, a_token, an_audit_row, an_event, insert, write


def test_a_token_is_found_by_the_hash_of_its_secret(store: Store) -> None:
    full = replace(
        a_token("ada"),
        is_admin=True,
        projects=(ProjectName("p"), ProjectName("q")),
        expires_at=Instant(9),
    )
    write(store, SaveToken(token=full))
    assert store.token_by_secret(full.secret_sha256) == full
    assert store.token_by_secret("hash-of-nobody") is None
    revoked = replace(full, is_revoked=True)
    write(store, SaveToken(token=revoked))
    assert store.token_by_secret(full.secret_sha256) == revoked


def test_tokens_come_by_creation(store: Store) -> None:
    late, early, twin = (
        a_token("late", created_at=3),
        a_token("early", created_at=1),
        a_token("a-twin", created_at=3),
    )
    for token in (late, early, twin):
        write(store, SaveToken(token=token))
    assert store.tokens() == (early, twin, late)


def test_two_tokens_never_share_a_secret(store: Store) -> None:
    write(store, SaveToken(token=a_token("ada")))
    with pytest.raises(ConflictError, match="token"):
        write(store, SaveToken(token=a_token("bob", secret="hash-of-ada")))  # noqa: S106 - a hash
    assert store.tokens() == (a_token("ada"),)


def test_a_reply_is_remembered_once_under_its_key(store: Store) -> None:
    write(store, a_reply())
    assert found(store, a_reply()) == a_reply()
    with pytest.raises(ConflictError) as caught:
        write(store, replace(a_reply(), body_sha256="other"))
    assert (caught.value.kind, caught.value.name) == ("idempotency key", "k")
    assert found(store, a_reply()) == a_reply()
    write(store, a_reply(principal="bob"))
    assert found(store, a_reply("other")) is None


def found(store: Store, like: RememberReply) -> RememberReply | None:
    return store.reply(principal=like.principal, route=like.route, key=like.key)


def test_audit_rows_come_newest_first_each_as_it_went_in(store: Store) -> None:
    rows = [an_audit_row(f"job/{number}") for number in range(5)]
    write(store, *(RecordAudit(row=row) for row in rows[:3]))
    write(store, *(RecordAudit(row=row) for row in rows[3:]))
    write(store, RecordAudit(row=rows[0]))
    assert store.audit(limit=3) == (rows[0], rows[4], rows[3])
    assert len(store.audit(limit=100)) == 6


def test_a_secret_is_made_once_and_is_another_for_each_name(store: Store) -> None:
    first = store.server_secret("tokens")
    assert len(first) == 32
    assert store.server_secret("tokens") == first
    assert store.server_secret("cursors") != first


def test_an_installation_has_one_id(store: Store) -> None:
    assert store.instance_id() == store.instance_id()
    assert len(bytes.fromhex(store.instance_id())) == 8


# Growing old.

OLD, NEW, NOW = Instant(10), Instant(30), Instant(20)
EVERYTHING = Expire(events_before=NOW, replies_before=NOW, audit_before=NOW)


def fill_old_and_new(store: Store) -> None:
    for at in (OLD, NEW):
        write(
            store,
            a_reply(f"k{at}", at=at),
            RecordAudit(row=an_audit_row(f"job/{at}", at=at)),
            events=(an_event(f"R{at}", at=at),),
        )


def test_what_is_old_is_forgotten_and_the_rest_stays(store: Store) -> None:
    fill_old_and_new(store)
    write(store, EVERYTHING)
    assert [event.at for event in store.events(EventQuery())] == [NEW]
    assert [row.at for row in store.audit(limit=9)] == [NEW]
    assert found(store, a_reply("k10")) is None
    assert found(store, a_reply("k30")) == a_reply("k30", at=30)


def test_each_kind_has_an_age_of_its_own(store: Store) -> None:
    fill_old_and_new(store)
    write(store, replace(EVERYTHING, events_before=OLD, audit_before=OLD))
    assert len(store.events(EventQuery())) == 2
    assert len(store.audit(limit=9)) == 2
    assert found(store, a_reply("k10")) is None


def test_the_oldest_go_first_so_many_at_a_time(store: Store) -> None:
    for at in (3, 1, 2):
        write(store, RecordAudit(row=an_audit_row(at=at)), events=(an_event(f"R{at}", at=at),))
    write(store, replace(EVERYTHING, rows_max=2))
    assert [event.at for event in store.events(EventQuery())] == [3]
    assert [row.at for row in store.audit(limit=9)] == [3]


def test_who_stands_before_the_horizon_is_told_everything_anew(store: Store) -> None:
    insert(store, a_job("done", phase=JobPhase.FAILED), a_job("waits"))
    before = store.sequence()
    deleting = DeleteJob(job_id=a_job("done").id, expected_revision=0, at=OLD)
    deleted_at = write(store, deleting)
    assert not store.live(before).is_whole
    write(store, EVERYTHING)
    assert store.horizon() == deleted_at
    anew = store.live(before)
    assert (anew.is_whole, [job.name for job in anew.jobs]) == (True, ["waits"])
    assert not store.live(deleted_at).is_whole


def test_forgotten_events_move_the_horizon(store: Store) -> None:
    write(store, events=(an_event("A", at=10), an_event("B", at=11), an_event("C", at=30)))
    write(store, EVERYTHING)
    assert store.horizon() == 2
    write(store, replace(EVERYTHING, events_before=OLD))
    assert store.horizon() == Sequence(2)
