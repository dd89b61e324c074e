"""What workers say as they end is kept, though their containers are gone at once."""

import threading

import pytest

from scheduler.adapters.kubernetes import log_keeping
from scheduler.adapters.kubernetes.log_keeping import EndedLogs
from scheduler.adapters.kubernetes.pods import PodFacts
from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.ids import Rank
from scheduler.domain.instants import seconds
from scheduler.ports.cluster import WorkerState
from tests.contract.cluster_worlds import Deed
from tests.gangs import report_of
from tests.kubernetes.faulty_world import KEY, FaultyWorld
from tests.polling import comes_true, wait_until

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


def test_a_gang_is_not_forgotten_while_its_log_is_being_copied(
    world: FaultyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_keeping, "WAIT_S_MAX", 0.05)
    may_copy = threading.Event()
    copy = EndedLogs._copy

    def wait_first(logs: EndedLogs, facts: PodFacts) -> None:
        assert may_copy.wait(60)
        copy(logs, facts)

    monkeypatch.setattr(EndedLogs, "_copy", wait_first)
    world.run(Deed(WorkerScript(log=b""), "echo up"))
    world.wait_for(KEY, WorkerState.ENDED)
    world.cluster.forget(KEY)
    assert not comes_true(lambda: state_of(world) is None, within_s=1.0)
    may_copy.set()
    wait_until(lambda: state_of(world) is None, "it is forgotten")
    assert cluster_said(world) == b"up\n"


def state_of(world: FaultyWorld) -> WorkerState | None:
    """What the view says of the first worker."""
    report = report_of(world.cluster.observe(), KEY, 0)
    return None if report is None else report.state


def cluster_said(world: FaultyWorld) -> bytes:
    """All that is known of the log."""
    return world.cluster.read(KEY, Rank(0), offset=0, bytes_max=999).data
