"""At most one leads; a challenger waits on its own clock; a deposed leader writes nothing."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.memory.leadership import MemoryLeadership
from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.adapters.sql.leader import SqlLeadership
from scheduler.domain.errors import StaleEpochError
from scheduler.domain.ids import Epoch
from scheduler.domain.lease import LeaseTimes
from scheduler.ports.leasing import LeaseLeadership
from scheduler.ports.unit import InsertJob, Unit
from tests.builders import a_job
from tests.contract.stores import Store
from tests.databases import Databases

TIMES = LeaseTimes(ttl_s=15, act_s=10, renew_s=2)


@dataclass
class HandClock:
    """A monotonic clock moved by hand."""

    now_s: float = 100.0

    def __call__(self) -> float:
        """The time it shows."""
        return self.now_s


def leadership(store: Store, holder: str, clock: Callable[[], float]) -> LeaseLeadership:
    """A competitor with a clock of its own."""
    if isinstance(store, MemoryStore):
        return MemoryLeadership(store, holder=holder, times=TIMES, monotonic=clock)
    assert isinstance(store, SqlStore)
    return SqlLeadership(store, holder=holder, times=TIMES, monotonic=clock)


def test_the_first_leads_at_once_and_stays_the_leader_while_it_renews(store: Store) -> None:
    clock = HandClock()
    ada = leadership(store, "ada", clock)
    assert not ada.is_leader()
    assert ada.lead() == 1
    for _ in range(20):
        clock.now_s += 3
        assert ada.lead() == 1
        assert ada.is_leader()


def test_a_leader_writes_to_the_lease_only_when_it_is_time(store: Store) -> None:
    clock = HandClock()
    ada = leadership(store, "ada", clock)
    ada.lead()
    clock.now_s += 1
    ada.lead()
    assert store.lease().renewals == 0
    clock.now_s += 1
    ada.lead()
    assert store.lease().renewals == 1


def test_a_leader_stops_acting_before_anyone_may_take_over(store: Store) -> None:
    clock = HandClock()
    ada = leadership(store, "ada", clock)
    ada.lead()
    clock.now_s += 9.9
    assert ada.is_leader()
    clock.now_s += 0.2
    assert not ada.is_leader()


def test_a_challenger_takes_over_a_lease_that_stands_still_on_its_own_clock(store: Store) -> None:
    hers, his = HandClock(now_s=5_000), HandClock(now_s=-7.0)
    ada, bob = leadership(store, "ada", hers), leadership(store, "bob", his)
    assert ada.lead() == 1
    assert bob.lead() is None
    his.now_s += 14.9
    assert bob.lead() is None
    his.now_s += 0.1
    assert bob.lead() == 2
    assert bob.is_leader()


def test_a_challenger_begins_to_wait_anew_at_each_renewal(store: Store) -> None:
    hers, his = HandClock(), HandClock()
    ada, bob = leadership(store, "ada", hers), leadership(store, "bob", his)
    ada.lead()
    for _ in range(5):
        hers.now_s += 3
        assert ada.lead() == 1
        assert bob.lead() is None
        his.now_s += 14
    assert bob.lead() is None


def test_a_deposed_leader_learns_it_at_its_next_renewal_and_competes_again(store: Store) -> None:
    hers, his = HandClock(), HandClock()
    ada, bob = leadership(store, "ada", hers), leadership(store, "bob", his)
    ada.lead()
    bob.lead()
    his.now_s += 15
    assert bob.lead() == 2
    hers.now_s += 15
    assert ada.lead() is None
    assert not ada.is_leader()
    assert ada.lead() is None
    hers.now_s += 15
    assert ada.lead() == 3


def test_who_resigns_is_followed_at_once(store: Store) -> None:
    ada, bob = leadership(store, "ada", HandClock()), leadership(store, "bob", HandClock())
    ada.lead()
    assert bob.lead() is None
    ada.resign()
    assert not ada.is_leader()
    assert bob.lead() == 2
    ada.resign()
    assert store.lease().holder == "bob"


def test_who_lost_the_answer_to_its_own_taking_takes_again(store: Store) -> None:
    assert store.take_lease(seen=store.lease(), holder="ada") == 1
    assert leadership(store, "ada", HandClock()).lead() == 2


def test_two_who_take_at_the_same_time_do_not_both_get_it(store: Store) -> None:
    seen = store.lease()
    assert store.take_lease(seen=seen, holder="ada") == 1
    assert store.take_lease(seen=seen, holder="bob") is None
    assert store.lease().holder == "ada"


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_unit_of_another_epoch_is_refused_whole(store: Store, epoch: int) -> None:
    store.take_lease(seen=store.lease(), holder="ada")
    current = store.take_lease(seen=store.lease(), holder="bob")
    assert current == 2
    stale = Unit(changes=(InsertJob(job=a_job("a")),), epoch=Epoch(epoch))
    with pytest.raises(StaleEpochError) as caught:
        store.write(stale)
    assert (caught.value.mine, caught.value.current) == (epoch, 2)
    assert store.live().jobs == ()
    store.write(Unit(changes=stale.changes, epoch=current))
    assert len(store.live().jobs) == 1


def test_a_restarted_server_on_sqlite_need_not_wait_for_the_dead_one(databases: Databases) -> None:
    url = databases.new("sqlite")
    with open_store(url) as store:
        assert SqlLeadership(store, times=TIMES, monotonic=HandClock()).lead() == 1
    with open_store(url) as store:
        leader = SqlLeadership(store, times=TIMES, monotonic=HandClock())
        assert leader.lead() == 2
        # Inside one process the rules are the same as everywhere.
        other = SqlLeadership(store, times=TIMES, monotonic=HandClock())
        assert other.lead() is None


def test_another_server_on_postgres_waits_for_the_lease_to_run_out(databases: Databases) -> None:
    clock = HandClock()
    with databases.lent("postgres") as url, open_store(url) as one, open_store(url) as other:
        assert SqlLeadership(one, times=TIMES, monotonic=HandClock()).lead() == 1
        challenger = SqlLeadership(other, times=TIMES, monotonic=clock)
        assert challenger.lead() is None
        clock.now_s += 15
        assert challenger.lead() == 2
        with pytest.raises(StaleEpochError):
            one.write(Unit(changes=(), epoch=Epoch(1)))
