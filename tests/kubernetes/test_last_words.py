"""What workers say as they end is kept, though their containers are gone at once."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.adapters.kubernetes import log_keeping
from scheduler.adapters.kubernetes.log_keeping import EndedLogs
from scheduler.adapters.kubernetes.pods import PodFacts
from scheduler.adapters.memory.log_archive import MemoryLogArchive
from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.errors import StoreUnavailableError
from scheduler.domain.ids import Rank
from scheduler.domain.instants import seconds
from scheduler.ports.cluster import WorkerState
from tests.contract.cluster_worlds import Deed
from tests.gangs import report_of
from tests.kubernetes.faulty_world import KEY, FaultyWorld
from tests.polling import DEADLINE_S, comes_true, wait_until

SAYS_GOODBYE = Deed(
    WorkerScript(log=b""),
    "trap 'echo saved; exit 143' TERM; echo up; while :; do sleep 0.05; done",
)


def test_the_last_words_of_a_stopped_worker_are_kept_though_its_container_is_removed(
    world: FaultyWorld,
) -> None:
    world.place.kubelet.removes_containers = True
    world.run(SAYS_GOODBYE)
    cluster = world.cluster
    wait_until(
        lambda: cluster.read(KEY, Rank(0), offset=0, bytes_max=99).data == b"up\n", "it is up"
    )
    cluster.stop(KEY, kill_at=world.inner.in_time(seconds(30)))
    world.wait_for(KEY, WorkerState.ENDED)
    assert cluster_said(world).endswith(b"saved\n")


def test_a_kubelet_that_has_nothing_any_more_is_not_taken_for_the_worker(
    world: FaultyWorld,
) -> None:
    world.place.kubelet.removes_containers = True
    world.run(Deed(WorkerScript(log=b""), "echo up"))
    world.wait_for(KEY, WorkerState.ENDED)
    assert cluster_said(world) == b""


def test_nobody_sees_an_end_before_the_log_is_being_copied(
    world: FaultyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_too_early: list[bool] = []
    copy = EndedLogs.worker_ended

    def look_first(logs: EndedLogs, facts: PodFacts) -> None:
        # Another thread is made to publish what it knows of the gang.
        world.cluster.release(facts.attempt)
        seen_too_early.append(
            comes_true(lambda: state_of(world) is WorkerState.ENDED, within_s=0.5)
        )
        copy(logs, facts)

    monkeypatch.setattr(EndedLogs, "worker_ended", look_first)
    world.run(Deed(WorkerScript(log=b""), "echo up"))
    world.wait_for(KEY, WorkerState.ENDED)
    assert seen_too_early == [False]


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No log is copied before it is set."""
    may_copy = threading.Event()
    copy = EndedLogs._copy

    def wait_first(logs: EndedLogs, facts: PodFacts) -> None:
        may_copy.wait(DEADLINE_S)
        copy(logs, facts)

    monkeypatch.setattr(EndedLogs, "_copy", wait_first)
    yield may_copy
    may_copy.set()


def test_a_gang_is_not_forgotten_while_its_log_is_being_copied(
    world: FaultyWorld, held_back: threading.Event
) -> None:
    world.run(Deed(WorkerScript(log=b""), "echo up"))
    world.wait_for(KEY, WorkerState.ENDED)
    world.cluster.forget(KEY)
    assert not comes_true(lambda: state_of(world) is None, within_s=1.0)
    held_back.set()
    wait_until(lambda: state_of(world) is None, "it is forgotten")
    assert cluster_said(world) == b"up\n"


def test_gangs_whose_logs_are_long_in_coming_hold_up_no_other(
    world: FaultyWorld, held_back: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_keeping, "WAIT_S_MAX", 3_600.0)
    over = [world.run(Deed(WorkerScript(log=b""), "echo up"), job=f"over-{n}") for n in range(4)]
    for key in over:
        world.wait_for(key, WorkerState.ENDED)
        world.cluster.forget(key)
    world.make(job="job-2")
    assert [world.states(key) for key in over] == [[WorkerState.ENDED]] * len(over)
    held_back.set()
    wait_until(lambda: not any(world.states(key) for key in over), "they are forgotten")


def test_a_log_that_does_not_come_keeps_no_gang_for_ever(
    world: FaultyWorld, held_back: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_keeping, "FORGET_S_MAX", 0.5)
    world.run(Deed(WorkerScript(log=b""), "echo up"))
    world.wait_for(KEY, WorkerState.ENDED)
    world.cluster.forget(KEY)
    wait_until(lambda: state_of(world) is None, "it is forgotten")
    assert not held_back.is_set()


def test_gangs_outlive_a_database_that_does_not_answer_for_a_while(
    world: FaultyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    is_there = threading.Event()

    def answer(name: str) -> None:
        do = getattr(MemoryLogArchive, name)

        def unless_it_is_away(*told: Any, **more: Any) -> Any:
            asked[name] += 1
            if not is_there.is_set():
                raise StoreUnavailableError("the database does not answer")
            return do(*told, **more)

        monkeypatch.setattr(MemoryLogArchive, name, unless_it_is_away)

    monkeypatch.setattr(log_keeping, "STORE_PAUSE_S", 0.05)
    monkeypatch.setattr(log_keeping, "FORGET_S_MAX", 0.0)
    world.run(Deed(WorkerScript(log=b""), "echo up"))
    for name in ("is_attempt_closed", "keep_log", "close_attempt"):
        answer(name)
    world.wait_for(KEY, WorkerState.ENDED)
    wait_until(lambda: asked["keep_log"] > 1, "the log is to be kept")
    world.cluster.forget(KEY)
    later = world.prepare(job="job-2")
    wait_until(lambda: asked["close_attempt"] > 1, "it is to be forgotten")
    wait_until(lambda: asked["is_attempt_closed"] > 1, "it is to be made")
    assert state_of(world) is WorkerState.ENDED
    is_there.set()
    world.wait_for(later, WorkerState.MADE)
    wait_until(lambda: state_of(world) is None, "it is forgotten")
    wait_until(lambda: cluster_said(world) == b"up\n", "its log is kept")


def state_of(world: FaultyWorld) -> WorkerState | None:
    """What the view says of the first worker."""
    report = report_of(world.cluster.observe(), KEY, 0)
    return None if report is None else report.state


def cluster_said(world: FaultyWorld) -> bytes:
    """All that is known of the log."""
    return world.cluster.read(KEY, Rank(0), offset=0, bytes_max=999).data
