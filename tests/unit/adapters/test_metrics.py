"""Metrics by name, without a job's or a user's name in any label."""

from pathlib import Path

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.adapters.prometheus import Metrics
from scheduler.adapters.sql.job_store import open_store
from scheduler.adapters.sql.migrating import upgrade
from scheduler.domain.errors import NameTakenError
from scheduler.domain.instants import seconds
from scheduler.domain.job import FailurePolicy
from scheduler.domain.knobs import PolicyKnobs
from scheduler.ports.unit import InsertJob, RecordAudit, Unit
from tests.builders import a_job
from tests.contract.stores import an_audit_row
from tests.worlds import Script, World, runs
from tools.reference.metrics import described


def test_a_run_is_counted() -> None:
    world = World("r1: 8 8", script=Script(runs(5, exit_code=1), runs(5)))
    world.submit(
        a_job("alice-secret", workers=2, failure_policy=FailurePolicy(restarts_max=1)),
        a_job("waits", workers=2),
    )
    world.run(seconds(3))
    metrics = Metrics(version="1.2.3")
    for name, facts in world.sink.facts:
        metrics.emit(name, facts)
    text = metrics.text().decode()
    for line in (
        'dally_jobs{queue="default",state="Running"} 1.0',
        'dally_jobs{queue="default",state="Pending"} 1.0',
        'dally_pending_reason{reason="TooFewGpus"} 1.0',
        'dally_gpus{product="",state="total"} 16.0',
        'dally_gpus{product="",state="allocated"} 16.0',
        'dally_job_queue_seconds_count{gpus="9-64",queue="default"} 1.0',
        'dally_build_info{version="1.2.3"} 1.0',
        "dally_leader 1.0",
    ):
        assert line in text, line
    assert "alice" not in text


def test_failures_are_counted_by_reason() -> None:
    world = World("r1: 8", script=Script(runs(5, exit_code=1), WorkerScript()))
    world.submit(a_job("a", failure_policy=FailurePolicy(restarts_max=1)))
    world.run(seconds(60))
    metrics = Metrics(version="x")
    for name, facts in world.sink.facts:
        metrics.emit(name, facts)
    text = metrics.text().decode()
    assert 'dally_attempt_failures_total{reason="UserError"} 1.0' in text
    assert 'dally_attempts_total{outcome="UserError"} 1.0' in text


def test_what_only_a_leader_knows_goes_with_the_leadership() -> None:
    world = World()
    world.submit(a_job("a"))
    world.ticks()
    metrics = Metrics(version="x")
    for name, facts in world.sink.facts:
        metrics.emit(name, facts)
    metrics.emit("leadership", {"leads": False, "epoch": None})
    text = metrics.text().decode()
    assert "dally_leader 0.0" in text
    assert "dally_jobs{" not in text


def test_requests_are_counted_by_template() -> None:
    metrics = Metrics(version="x")
    metrics.observe_request(route="/api/v1/jobs/{name}", method="GET", status=200, seconds=0.01)
    text = metrics.text().decode()
    assert (
        'dally_http_requests_total{code="200",method="GET",route="/api/v1/jobs/{name}"} 1.0' in text
    )


LABELS = {
    *("queue", "state", "reason", "product", "gpus", "kind", "outcome", "cause"),
    *("route", "method", "code", "demand", "level", "version"),
}
"""Each has few values: none is the name of a job, a user, a node or a pod."""


def test_no_label_has_values_without_end() -> None:
    assert {label for _, _, labels, _ in described() for label in labels} == LABELS


def test_waiting_by_choice_is_counted_by_queue() -> None:
    """Sixteen free GPUs are declined for a minute, and then a rack becomes free."""
    knobs = PolicyKnobs(policy="dally-manual", fixed_timer=seconds(600))
    world = World("r1: 8 8\nr2: 8 8", knobs=knobs)
    world.submit(a_job("x"), a_job("y"), a_job("z"))
    world.ticks()
    world.submit(a_job("s", workers=2))
    world.cancel("x", at_once=True)
    world.ticks()
    waiting = counted(world)
    assert waiting["dally_idle_by_choice_gpus", "default"] == 16
    world.run(seconds(60))
    world.cancel("z", at_once=True)
    world.run(seconds(10))
    over = counted(world)
    assert over["dally_idle_by_choice_gpu_seconds_total", "default"] == 16 * 60
    assert over["dally_idle_by_choice_gpus", "default"] == 0
    assert over["dally_decisions_total", "decline"] == 1
    assert over["dally_decisions_total", "start"] == 4


def test_what_waits_have_saved_is_counted_by_queue() -> None:
    metrics = Metrics(version="x")
    metrics.emit("holding_out", {"queue": "q", "gpus": 8, "saves_gpu_s": 60.0})
    metrics.emit("wait_paid", {"queue": "q", "gpu_s": 50.0})
    metrics.emit("wait_paid", {"queue": "q", "gpu_s": 5.0})
    text = metrics.text().decode()
    assert 'dally_waits_expected_gpu_seconds{queue="q"} 60.0' in text
    assert 'dally_waits_saved_gpu_seconds_total{queue="q"} 55.0' in text


def test_a_gpu_that_several_jobs_decline_is_left_idle_once() -> None:
    knobs = PolicyKnobs(policy="dally-manual", fixed_timer=seconds(600))
    world = World("r1: 8 8\nr2: 8 8", knobs=knobs)
    world.submit(a_job("x"), a_job("y"), a_job("z"))
    world.ticks()
    world.submit(*(a_job(name, workers=2) for name in ("s1", "s2", "s3")))
    world.cancel("x", at_once=True)
    world.ticks()
    assert counted(world)["dally_idle_by_choice_gpus", "default"] == 16


def test_timers_are_shown_while_they_are_known() -> None:
    metrics = Metrics(version="x")
    metrics.emit("timer", {"demand": 8, "level": "rack", "timer_s": None})
    metrics.emit("timer", {"demand": 8, "level": "rack", "timer_s": 300.0})
    assert 'dally_timer_seconds{demand="8",level="rack"} 300.0' in metrics.text().decode()
    metrics.emit("timer", {"demand": 8, "level": "rack", "timer_s": None})
    assert "dally_timer_seconds{" not in metrics.text().decode()


def test_writes_are_timed_and_failures_counted_by_code(tmp_path: Path) -> None:
    metrics = Metrics(version="x")
    url = f"sqlite:///{tmp_path / 'dally.db'}"
    upgrade(url)
    with open_store(url, observer=metrics) as store:
        store.write(Unit(changes=(InsertJob(job=a_job("a")),)))
        with pytest.raises(NameTakenError):
            store.write(Unit(changes=(InsertJob(job=a_job("a")), RecordAudit(row=an_audit_row()))))
        store.write(
            Unit(changes=(RecordAudit(row=an_audit_row()), RecordAudit(row=an_audit_row())))
        )
    text = metrics.text().decode()
    assert "dally_db_transaction_seconds_count 3.0" in text
    assert "dally_audit_events_total 2.0" in text
    assert "dally_db_retries_total 0.0" in text
    assert 'dally_db_failures_total{reason="AlreadyExists"} 1.0' in text


def test_a_transaction_that_is_run_again_is_counted() -> None:
    metrics = Metrics(version="x")
    metrics.observe_retry()
    assert "dally_db_retries_total 1.0" in metrics.text().decode()


def test_open_streams_are_counted_when_they_are_asked_for() -> None:
    metrics = Metrics(version="x")
    is_open = [1, 2]
    metrics.count_streams(lambda: len(is_open))
    assert "dally_sse_clients 2.0" in metrics.text().decode()
    is_open.pop()
    assert "dally_sse_clients 1.0" in metrics.text().decode()


def test_free_gpus_that_would_be_enough_for_a_waiting_job_are_fragments() -> None:
    """16 of 32 GPUs are free across the racks; who waits asks for 16, and for one rack."""
    knobs = PolicyKnobs(policy="dally-manual", fixed_timer=seconds(600))
    world = World("r1: 8 8\nr2: 8 8", knobs=knobs)

    def fragmented() -> float:
        return float(world.sink.named("fragmented")[-1]["ratio"] or 0)

    world.submit(a_job("x"), a_job("y"), a_job("z"))
    world.ticks()
    assert fragmented() == 0
    world.submit(a_job("s", workers=2))
    world.cancel("x", at_once=True)
    world.ticks()
    assert fragmented() == 0.5
    world.cancel("z", at_once=True)
    world.ticks()
    assert fragmented() == 0


def counted(world: World) -> dict[tuple[str, str], float]:
    """Samples by name and the value of their one label."""
    metrics = Metrics(version="x")
    for name, facts in world.sink.facts:
        metrics.emit(name, facts)
    return {
        (sample.name, next(iter(sample.labels.values()))): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if len(sample.labels) == 1
    }


def test_what_the_api_server_was_asked_is_counted() -> None:
    metrics = Metrics(version="x")
    metrics.emit("kubernetes_answer", {"method": "POST", "outcome": "Refused"})
    state = {"is_held_back": True, "waited_s": 1.5, "lists": 3, "in_line": 2}
    metrics.emit("kubernetes_state", state)
    text = metrics.text().decode()
    for line in (
        'dally_kubernetes_requests_total{method="POST",outcome="Refused"} 1.0',
        "dally_kubernetes_held_back 1.0",
        "dally_kubernetes_throttled_seconds 1.5",
        "dally_kubernetes_lists 3.0",
        "dally_kubernetes_watches_in_line 2.0",
    ):
        assert line in text, line
