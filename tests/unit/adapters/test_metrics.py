"""Metrics by name, without a job's or a user's name in any label."""

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.adapters.prometheus import Metrics
from scheduler.domain.instants import seconds
from scheduler.domain.job import FailurePolicy
from tests.builders import a_job
from tests.worlds import Script, World, runs


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
