"""What would happen next in a live cluster."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.control.stored import stored_snapshot
from scheduler.domain.codec import from_json, to_json
from scheduler.domain.communication import CommunicationProfile, Strategy
from scheduler.domain.forecast import LengthFrom, Prediction, WhatIf
from scheduler.domain.history import PastJobs
from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant, after
from scheduler.domain.job import AttemptPhase, JobPhase, Outcome, StopCause
from scheduler.domain.knob_sheet import KnobSheet
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.links import FabricPlan
from scheduler.domain.queue import DEFAULT_QUEUE, Queue
from scheduler.domain.snapshot import Snapshot
from scheduler.domain.step_times import LearnedStepTimes
from scheduler.domain.topology import topology_tree
from scheduler.domain.waits import JobEnd
from scheduler.ports.unit import (
    Change,
    InsertJob,
    Reserve,
    SaveAttempt,
    SaveKnobs,
    SaveNodes,
    SaveStepTimes,
    Unit,
)
from simulator.app import app
from simulator.forecasting import forecast
from tests.builders import a_cluster, a_job, a_snapshot, at

LENGTH = PolicyKnobs().residual_default
"""What a job is taken to need of which nobody knows anything."""

NOW = at(3600)


def a_busy_cluster(policy: str = "fifo") -> Snapshot:
    """Two nodes of four GPUs: a gang holds both; one of eight GPUs waits, then one of two."""
    picture = a_cluster("r1: 4 4")
    holder, large = (a_job(name, workers=8, gpus=1) for name in ("holder", "large"))
    small = a_job("small", workers=2, gpus=1, submitted_at=at(20))
    snapshot = a_snapshot(
        picture,
        running=[(holder, {"r1-n0": 4, "r1-n1": 4})],
        pending=[replace(large, submitted_at=at(10)), small],
        now=NOW,
        knobs=PolicyKnobs(policy=policy),
    )
    return replace(snapshot, tree=topology_tree(snapshot.levels, snapshot.nodes))


def by_name(predictions: tuple[Prediction, ...]) -> dict[str, Prediction]:
    return {each.name: each for each in predictions}


def test_a_gang_that_runs_goes_on_where_it_is() -> None:
    found = by_name(forecast(a_busy_cluster()))["holder"]
    assert found.is_running
    assert found.starts_at == NOW
    # It has run for an hour, and is taken to need as long as any job nobody knows.
    assert found.ends_at == after(NOW, LENGTH)


def test_jobs_that_wait_start_when_those_before_them_have_ended() -> None:
    found = by_name(forecast(a_busy_cluster()))
    assert found["large"].starts_at == found["holder"].ends_at
    assert found["small"].starts_at == found["large"].ends_at


def test_more_nodes_start_what_fits_on_them_at_once() -> None:
    found = by_name(forecast(a_busy_cluster("nowait"), what_if=WhatIf(nodes_more=1)))
    assert found["small"].starts_at == NOW
    assert found["large"].starts_at == found["holder"].ends_at


def test_another_policy_may_start_them_in_another_order() -> None:
    snapshot = a_busy_cluster()
    strict = by_name(forecast(snapshot, what_if=WhatIf(nodes_more=1)))
    passing = by_name(forecast(snapshot, what_if=WhatIf(policy="nowait", nodes_more=1)))
    assert strict["small"].starts_at == strict["holder"].ends_at
    assert passing["small"].starts_at == NOW


def test_one_job_more_is_one_more_in_the_line() -> None:
    snapshot = a_busy_cluster()
    newcomer = a_job("newcomer", workers=8, gpus=1, submitted_at=NOW)
    found = by_name(forecast(replace(snapshot, pending=(*snapshot.pending, newcomer))))
    assert found["newcomer"].starts_at == found["small"].ends_at


def test_a_job_that_fits_nowhere_has_no_start() -> None:
    snapshot = a_busy_cluster("nowait")
    giant = a_job("giant", workers=64, gpus=1, submitted_at=NOW)
    found = by_name(forecast(replace(snapshot, pending=(*snapshot.pending, giant))))
    assert (found["giant"].starts_at, found["giant"].ends_at) == (None, None)
    assert found["small"].ends_at is not None


def a_cluster_whose_gang_is_stopped(
    cause: StopCause, outcome: Outcome, *, kill_at: Instant = after(NOW, MINUTE)
) -> Snapshot:
    """As `a_busy_cluster`; the gang that holds both nodes has been told to leave them."""
    snapshot = a_busy_cluster()
    gang = snapshot.holding[0]
    job = gang.job.moved_to(JobPhase.STOPPING, at=NOW, reason=cause)
    stopping = gang.attempt.moved_to(AttemptPhase.STOPPING, at=NOW)
    attempt = replace(stopping, stop_cause=cause, outcome=outcome, kill_at=kill_at)
    return replace(snapshot, holding=(replace(gang, job=job, attempt=attempt),))


def test_a_gang_that_is_stopped_holds_its_gpus_until_its_grace_ends_then_its_job_waits() -> None:
    found = by_name(forecast(a_cluster_whose_gang_is_stopped(StopCause.PREEMPT, Outcome.PREEMPTED)))
    holder, large, small = (found[name] for name in ("holder", "large", "small"))
    assert not holder.is_running
    # It was submitted first, so it is also the first to get them back.
    assert holder.starts_at == after(NOW, MINUTE)
    assert holder.ends_at == after(NOW, Duration(MINUTE + holder.remaining))
    assert large.starts_at == holder.ends_at
    assert small.starts_at == large.ends_at


@pytest.mark.parametrize(
    ("cause", "outcome"),
    [
        pytest.param(StopCause.CANCEL, Outcome.CANCELLED_BY_USER, id="cancelled"),
        pytest.param(StopCause.WORKER_ENDED, Outcome.COMPLETED, id="done"),
        pytest.param(StopCause.DEADLINE, Outcome.DEADLINE_EXCEEDED, id="out of time"),
    ],
)
def test_a_gang_whose_stop_is_its_end_does_not_come_back(
    cause: StopCause, outcome: Outcome
) -> None:
    found = by_name(forecast(a_cluster_whose_gang_is_stopped(cause, outcome)))
    assert (found["holder"].starts_at, found["holder"].ends_at) == (None, after(NOW, MINUTE))
    assert found["large"].starts_at == after(NOW, MINUTE)


def test_a_grace_that_is_over_ends_at_once() -> None:
    snapshot = a_cluster_whose_gang_is_stopped(
        StopCause.CANCEL, Outcome.CANCELLED_BY_USER, kill_at=at(1)
    )
    assert by_name(forecast(snapshot))["large"].starts_at == NOW


@pytest.mark.parametrize(
    ("limit", "expected", "source"),
    [
        pytest.param(HOUR, HOUR, LengthFrom.RUN_TIME_MAX, id="shorter than the guess"),
        pytest.param(Duration(100 * HOUR), LENGTH, LengthFrom.DEFAULT, id="longer than the guess"),
    ],
)
def test_no_job_is_taken_to_outlive_its_time_limit(
    limit: Duration, expected: Duration, source: LengthFrom
) -> None:
    snapshot = a_snapshot("r1: 8", pending=[a_job("job", run_time_max=limit)], now=NOW)
    found = by_name(forecast(snapshot))["job"]
    assert found.remaining == expected
    assert found.ends_at == Instant(NOW + expected)
    assert found.length_from is source


def test_a_gang_that_runs_has_the_rest_of_its_time_limit() -> None:
    job = a_job("job", run_time_max=Duration(90 * MINUTE))
    snapshot = a_snapshot("r1: 8", running=[(job, {"r1-n0": 1})], now=NOW)
    found = by_name(forecast(snapshot))["job"]
    assert found.remaining == 30 * MINUTE
    assert found.ends_at == after(NOW, Duration(30 * MINUTE))
    assert found.length_from is LengthFrom.RUN_TIME_MAX


def test_the_length_of_a_job_is_learned_from_enough_ended_ones_like_it() -> None:
    end = JobEnd(
        job_id=JobId("ended"),
        queue=QueueName("default"),
        gpus=1,
        ran_for=Duration(HOUR),
        is_complete=True,
        at=NOW,
    )
    waiting = [a_job("alike", gpus=1), a_job("larger", gpus=8, submitted_at=at(1))]
    snapshot = a_snapshot("r1: 8", pending=waiting, now=NOW)
    few = PolicyKnobs().residual_samples_min - 1
    for ends, source in ((few, LengthFrom.DEFAULT), (few + 1, LengthFrom.PAST_JOBS)):
        past = PastJobs(ends=(end,) * ends)
        found = by_name(forecast(replace(snapshot, past_jobs=past)))
        assert found["alike"].length_from is source
        assert found["larger"].length_from is LengthFrom.DEFAULT
    assert found["alike"].remaining == HOUR


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param({"is_cordoned": True}, id="cordoned"),
        pytest.param({"is_ready": False, "unready_reason": "NotReady"}, id="down"),
        pytest.param({"taints": ("a=b:NoSchedule",)}, id="tainted"),
    ],
)
def test_more_nodes_are_in_order_though_the_last_one_is_not(trouble: dict[str, Any]) -> None:
    snapshot = a_snapshot("r1: 8", pending=[a_job("job")], now=NOW)
    (node,) = snapshot.nodes
    snapshot = replace(snapshot, nodes=(replace(node, **trouble),), tree=None)
    assert by_name(forecast(snapshot))["job"].starts_at is None
    found = by_name(forecast(snapshot, what_if=WhatIf(nodes_more=1)))
    assert found["job"].starts_at == NOW


def test_an_empty_cluster_has_nothing_to_tell() -> None:
    assert forecast(a_snapshot("r1: 8", now=NOW)) == ()


def test_a_snapshot_of_a_store_is_told_on_by_the_command(tmp_path: Path) -> None:
    file = tmp_path / "live.json"
    file.write_text(to_json(a_busy_cluster()))
    told = CliRunner().invoke(app, ["from-live", str(file), "--more-nodes", "1", "--json"])
    assert told.exit_code == 0, told.output
    rows = {row["job"]: row for row in map(json.loads, told.output.splitlines())}
    assert set(rows) == {"holder", "large", "small"}
    assert rows["holder"]["starts_in_s"] == 0
    assert rows["large"]["starts_in_s"] == LENGTH / SECOND


def test_a_knob_may_be_another_than_the_live_one(tmp_path: Path) -> None:
    file = tmp_path / "live.json"
    file.write_text(to_json(a_busy_cluster()))
    options = ["--set", "residualDefault=90m", "--json"]
    told = CliRunner().invoke(app, ["from-live", str(file), *options])
    assert told.exit_code == 0, told.output
    rows = {row["job"]: row for row in map(json.loads, told.output.splitlines())}
    assert rows["large"]["starts_in_s"] == 90 * 60
    wrong = CliRunner().invoke(app, ["from-live", str(file), "--set", "residualDefault=90"])
    assert wrong.exit_code == 2
    assert "--set: residualDefault: must be a time with its unit" in wrong.stderr


def test_a_queue_that_keeps_its_own_knob_is_told_of(tmp_path: Path) -> None:
    own = Queue(name=DEFAULT_QUEUE, knobs=KnobSheet(changed={"wait_max": "3600000000"}))
    file = tmp_path / "live.json"
    file.write_text(to_json(replace(a_busy_cluster(), queues={own.name: own})))
    for setting, told in (
        ("waitMax=2h", "note: queue default keeps its own waitMax\n"),
        ("timers=zero", ""),
    ):
        found = CliRunner().invoke(app, ["from-live", str(file), "--set", setting, "--json"])
        assert found.exit_code == 0, found.output
        assert found.stderr == told


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        pytest.param("{}", [], "live.json is no snapshot", id="not a snapshot"),
        pytest.param("x", [], "live.json is no snapshot", id="not JSON"),
        pytest.param("{}", ["--policy", "fast"], "no policy named 'fast'", id="unknown policy"),
    ],
)
def test_what_can_not_be_foretold_is_refused(
    tmp_path: Path, text: str, options: list[str], message: str
) -> None:
    file = tmp_path / "live.json"
    file.write_text(text)
    told = CliRunner().invoke(app, ["from-live", str(file), *options])
    assert told.exit_code == 2
    assert message in told.stderr


def test_the_snapshot_of_a_store_holds_what_was_written() -> None:
    store = MemoryStore()
    snapshot = a_busy_cluster()
    gang = snapshot.holding[0]
    jobs = [*snapshot.pending, gang.job]
    changes: list[Change] = [InsertJob(job=job) for job in jobs]
    changes += [SaveAttempt(attempt=gang.attempt), Reserve(reservations=gang.reservations)]
    changes += [SaveNodes(levels=snapshot.levels, nodes=snapshot.nodes, at=NOW)]
    changes += [SaveKnobs(knobs=snapshot.knobs)]
    store.write(Unit(changes=tuple(changes)))
    found = stored_snapshot(store, NOW)
    assert forecast(found) == forecast(snapshot)
    assert forecast(from_json(Snapshot, to_json(found)))[0].name == "holder"


STEPS = 36_000
STEP_S = 0.2
STEADY = CommunicationProfile(strategy=Strategy.NONE, compute_s=STEP_S)
"""Its steps take as long wherever it runs."""


def a_training(steps_done: int) -> Snapshot:
    """A job of two hours of steps that has run for one, and has reported so many steps; and one
    that waits for it."""
    job = a_job("job", iterations=STEPS, communication=STEADY)
    waits = a_job("waits", iterations=STEPS, communication=STEADY, submitted_at=at(10))
    snapshot = a_snapshot("r1: 8", running=[(job, {"r1-n0": 1})], pending=[waits], now=NOW)
    return replace(snapshot, steps_done={job.id: steps_done} if steps_done else {})


@pytest.mark.parametrize(
    ("steps_done", "left"),
    [
        pytest.param(27_000, 9_000, id="as many less as it has reported"),
        pytest.param(0, 18_000, id="it reports none: as many less as take so long"),
        pytest.param(40_000, 0, id="more than it declares: it ends now"),
    ],
)
def test_a_gang_that_runs_has_done_a_part_of_its_iterations(steps_done: int, left: int) -> None:
    found = by_name(forecast(a_training(steps_done)))
    assert found["job"].length_from is LengthFrom.ITERATIONS
    assert found["job"].remaining == pytest.approx(left * STEP_S * SECOND, rel=0.01, abs=1)
    assert found["waits"].starts_at == found["job"].ends_at
    assert found["waits"].remaining == pytest.approx(STEPS * STEP_S * SECOND, rel=0.01)


def test_a_job_that_was_stopped_goes_on_from_the_steps_it_had_reported() -> None:
    snapshot = a_training(0)
    stopped = snapshot.pending[0]
    found = by_name(forecast(replace(snapshot, steps_done={stopped.id: 27_000})))
    assert found["waits"].remaining == pytest.approx(9_000 * STEP_S * SECOND, rel=0.01)


def test_the_snapshot_of_a_store_tells_the_steps_that_were_reported() -> None:
    store = MemoryStore()
    job = a_job("job", iterations=STEPS)
    times = LearnedStepTimes(reports_itself=True, attempt=0, step=27_000)
    store.write(Unit(changes=(InsertJob(job=job),)))
    store.write(Unit(changes=(SaveStepTimes(job_id=job.id, times=times, expected_revision=0),)))
    found = from_json(Snapshot, to_json(stored_snapshot(store, NOW)))
    assert found.steps_done == {job.id: 27_000}


def test_links_that_the_configuration_names_are_those_of_the_snapshot() -> None:
    chatty = CommunicationProfile(gradient_bytes=2_000_000_000, compute_s=STEP_S)
    job = a_job("job", workers=8, gpus=1, iterations=STEPS, communication=chatty)
    snapshot = a_snapshot("r1: 4 4", running=[(job, {"r1-n0": 4, "r1-n1": 4})], now=NOW)
    slow, fast = FabricPlan(preset="v100-tcp"), FabricPlan(preset="h100-ndr")
    said = from_json(Snapshot, to_json(replace(snapshot, links=slow)))
    assert forecast(said) == forecast(snapshot, links=slow)
    assert forecast(said) != forecast(said, links=fast)
