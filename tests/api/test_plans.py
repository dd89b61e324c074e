"""What would become of a job, by the front door."""

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.codec import to_json
from scheduler.domain.forecast import Forecast, ForecastQuestion
from scheduler.domain.ids import JobName, Sequence
from scheduler.domain.instants import HOUR, SECOND, Duration, after
from scheduler.domain.job import AttemptPhase, JobPhase, Outcome, StopCause
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.queue import DEFAULT_PROJECT
from scheduler.ports.job_store import LiveState
from scheduler.ports.unit import SaveAttempt, SaveJob, SaveNodes, Unit
from server.foretelling import ForecastProcesses
from simulator.forecasting import answered
from tests.api.front_door import A_MOMENT, JOBS, FrontDoor, a_file, a_problem
from tests.api.test_views import observe, run, submitted

PLAN = "/api/v1/projects/default/plan"
LONG = timedelta(minutes=10)
"""For a process to begin and plan, however busy the machine is."""
LENGTH_S = PolicyKnobs().residual_default / SECOND
"""What a job is taken to need of which nobody knows anything."""
GRACE_S = 90


class InThisProcess:
    """A Forecaster that answers at once."""

    def turn(self) -> AbstractContextManager[None]:
        """See Forecaster."""
        return nullcontext()

    def forecast(self, question: ForecastQuestion) -> Forecast:
        """See Forecaster."""
        return answered(question)

    def close(self) -> None:
        """See Forecaster."""


@pytest.fixture
def door() -> FrontDoor:
    """Two racks, three nodes of 8 GPUs; `holder` holds all of them."""
    door = FrontDoor()
    door.deps = replace(door.deps, forecaster=InThisProcess(), policies=("fifo", "nowait", "dally"))
    observe(door)
    holder = submitted(door, "holder", workers=3)
    run(door, holder, {"r1-n0": 1, "r1-n1": 1, "r2-n0": 1})
    return door


@pytest.fixture
def member(door: FrontDoor) -> Iterator[TestClient]:
    with door.client(door.member_token) as client:
        yield client


def test_a_job_that_waits_starts_when_what_it_waits_for_ends(
    door: FrontDoor, member: TestClient
) -> None:
    submitted(door, "next", workers=2)
    plan = member.get(f"{JOBS}/next/plan").json()
    holder = member.get(f"{JOBS}/holder/plan").json()
    assert (plan["kind"], plan["isSubmitted"], plan["isRunning"]) == ("JobPlan", True, False)
    assert plan["startsAt"] == holder["endsAt"]
    assert plan["waitSeconds"] == LENGTH_S
    assert [node["workers"] for node in plan["nodes"]] == [1, 1]
    assert plan["level"] == "rack"
    assert plan["slowdown"] == pytest.approx(1.0)


def test_a_job_that_runs_shows_where_and_until_when(member: TestClient) -> None:
    plan = member.get(f"{JOBS}/holder/plan").json()
    assert (plan["isRunning"], plan["waitSeconds"]) == (True, 0)
    assert [node["name"] for node in plan["nodes"]] == ["r1-n0", "r1-n1", "r2-n0"]
    assert plan["level"] == "block"
    assert plan["endsAt"] > plan["startsAt"]


def test_a_plan_says_what_it_assumed(door: FrontDoor, member: TestClient) -> None:
    submitted(door, "next", workers=2)
    submitted(door, "last")
    assumed = member.get(f"{JOBS}/last/plan").json()["assumed"]
    assert (assumed["jobsRunning"], assumed["jobsWaiting"]) == (1, 1)
    assert (assumed["policy"], assumed["knobs"], assumed["moreNodes"]) == ("dally", {}, 0)
    assert (assumed["runSeconds"], assumed["runSecondsFrom"]) == (LENGTH_S, "default")
    assert assumed["at"] == "2027-01-15T08:00:00Z"
    assert any("no job arrives later" in note for note in assumed["notes"])


def test_a_job_file_is_planned_and_nothing_is_stored(door: FrontDoor, member: TestClient) -> None:
    submitted(door, "next", workers=3)
    before = to_json(door.store.live())
    plan = member.post(PLAN, json=a_file("new")).json()
    assert (plan["name"], plan["isSubmitted"]) == ("new", False)
    assert plan["assumed"]["jobsWaiting"] == 1
    assert plan["waitSeconds"] == 2 * LENGTH_S
    assert to_json(door.store.live()) == before
    assert member.get(f"{JOBS}/new").status_code == 404
    assert door.wakes == 2, "by the two that were submitted"


def test_a_file_of_a_job_that_is_there_is_one_job_more(door: FrontDoor, member: TestClient) -> None:
    submitted(door, "next", workers=3)
    plan = member.post(PLAN, json=a_file("next", workers=3)).json()
    assert plan["name"] == "next"
    assert plan["waitSeconds"] == 2 * LENGTH_S


def test_declared_iterations_are_the_length(member: TestClient) -> None:
    communication = {"gradientBytes": 1_000_000, "computeSeconds": 2.0}
    file = a_file("new", communication=communication, duration={"iterations": 900})
    answer = member.post(PLAN, json=file)
    assert answer.status_code == 200, answer.text
    assumed = answer.json()["assumed"]
    assert assumed["runSecondsFrom"] == "iterations"
    assert assumed["runSeconds"] == pytest.approx(1800, rel=0.05)


def test_gangs_on_one_link_slow_each_other_down(door: FrontDoor, member: TestClient) -> None:
    heavy = {"gradientBytes": 4_000_000_000, "computeSeconds": 0.05}
    spread: dict[str, Any] = {
        "workers": 2,
        "gpusPerWorker": 4,
        "communication": heavy,
        "topology": {"spread": {"by": "node", "workersMax": 1}},
    }
    alone = member.post(PLAN, json=a_file("new", **spread))
    assert alone.status_code == 200, alone.text
    submitted(door, "neighbour", **spread)
    beside = member.post(PLAN, json=a_file("new", **spread)).json()
    assert beside["startsAt"] == alone.json()["startsAt"]
    assert beside["slowdown"] > 1.3 * alone.json()["slowdown"]


def test_other_settings_and_more_nodes_give_another_plan(
    door: FrontDoor, member: TestClient
) -> None:
    submitted(door, "large", workers=3)
    submitted(door, "small")
    path = f"{JOBS}/small/plan"
    strict = member.get(path, params={"set": "policy=fifo", "moreNodes": 1}).json()
    assert strict["waitSeconds"] == LENGTH_S
    passing = member.get(path, params={"set": "policy=nowait", "moreNodes": 1}).json()
    assert passing["waitSeconds"] == 0
    assert passing["nodes"] == [{"name": "more-1", "workers": 1}]
    assert passing["assumed"]["moreNodes"] == 1
    assert passing["assumed"]["knobs"] == {"policy": "nowait"}
    longer = member.get(path, params={"set": "policy=fifo,residualDefault=12h"}).json()
    assert longer["waitSeconds"] == 24 * HOUR / SECOND


def test_a_plan_changes_no_knob(member: TestClient) -> None:
    before = member.get("/api/v1/policy").json()
    member.get(f"{JOBS}/holder/plan", params={"set": "policy=fifo,waitMax=1h"})
    assert member.get("/api/v1/policy").json() == before


def test_no_nodes_can_be_like_the_last_one_where_there_is_none() -> None:
    door = FrontDoor()
    door.deps = replace(door.deps, forecaster=InThisProcess())
    observe(door)
    submitted(door, "next")
    door.store.write(Unit(changes=(SaveNodes(levels=(), nodes=(), at=A_MOMENT),)))
    with door.client(door.member_token) as client:
        alone = client.get(f"{JOBS}/next/plan").json()
        assert "startsAt" not in alone
        answer = client.get(f"{JOBS}/next/plan", params={"moreNodes": 1})
        problem = a_problem(answer, 400, "InvalidParameter")
    assert problem.detail == "moreNodes: the cluster has no node that they could be like"


def test_a_held_job_is_planned_as_if_it_were_released(door: FrontDoor, member: TestClient) -> None:
    submitted(door, "held", workers=1)
    assert member.post(f"{JOBS}/held/hold").status_code == 200
    plan = member.get(f"{JOBS}/held/plan").json()
    assert plan["waitSeconds"] == LENGTH_S
    assert member.get(f"{JOBS}/held").json()["status"]["phase"] == "Held"


def test_what_has_ended_has_no_plan(door: FrontDoor, member: TestClient) -> None:
    submitted(door, "gone")
    assert member.post(f"{JOBS}/gone/cancel").status_code == 200
    problem = a_problem(member.get(f"{JOBS}/gone/plan"), 409, "Conflict")
    assert problem.detail == "gone is Cancelled: there is nothing to plan"
    assert member.post(f"{JOBS}/holder/cancel").status_code == 200
    problem = a_problem(member.get(f"{JOBS}/holder/plan"), 409, "Conflict")
    assert "is being stopped" in problem.detail


@pytest.mark.parametrize(
    ("parameters", "status", "reason", "said"),
    [
        pytest.param({"set": "waitMax"}, 400, "InvalidParameter", "not KNOB=VALUE", id="no value"),
        pytest.param({"set": ""}, 400, "InvalidParameter", "not KNOB=VALUE", id="empty"),
        pytest.param(
            {"set": "waitMax=1h,,"}, 400, "InvalidParameter", "not KNOB=VALUE", id="a gap"
        ),
        pytest.param(
            {"set": "waitMax=1h,waitMax=2h"}, 400, "InvalidParameter", "named twice", id="twice"
        ),
        pytest.param({"set": "waitMx=1h"}, 422, "InvalidSpec", "waitMax", id="unknown knob"),
        pytest.param({"set": "policy=fast"}, 422, "InvalidSpec", "fast", id="unknown policy"),
        pytest.param({"set": "waitMax=-1h"}, 422, "InvalidSpec", "waitMax", id="bad value"),
        pytest.param({"set": "timerQuantile=nan"}, 422, "InvalidSpec", "timerQ", id="no number"),
        pytest.param(
            {"set": "timerQuantile=" + "9" * 400}, 422, "InvalidSpec", "timerQ", id="many digits"
        ),
        pytest.param({"set": "waitMax=99999999h"}, 422, "InvalidSpec", "3660d", id="for ever"),
        pytest.param({"set": "x" * 2001}, 400, "InvalidParameter", "set", id="too long"),
        pytest.param({"moreNodes": "-1"}, 400, "InvalidParameter", "moreNodes", id="negative"),
        pytest.param({"moreNodes": "1e9"}, 400, "InvalidParameter", "moreNodes", id="no count"),
        pytest.param({"moreNodes": "1001"}, 400, "InvalidParameter", "moreNodes", id="too many"),
        pytest.param({"nodes": "1"}, 400, "InvalidParameter", "moreNodes", id="unknown parameter"),
    ],
)
def test_what_can_not_be_asked_is_refused(
    member: TestClient, parameters: dict[str, str], status: int, reason: str, said: str
) -> None:
    problem = a_problem(member.get(f"{JOBS}/holder/plan", params=parameters), status, reason)
    assert said in f"{problem.detail} {[entry.detail for entry in problem.errors]}"


def test_bad_job_files_are_refused_as_at_submission(member: TestClient) -> None:
    a_problem(member.post(PLAN, json=a_file("new", workers=64)), 422, "NeverFits")
    a_problem(member.post(PLAN, json=a_file("new", workrs=1)), 422, "InvalidSpec")
    a_problem(member.post(PLAN, json={}), 422, "InvalidSpec")
    a_problem(member.post(PLAN, content=b"{"), 415, "UnsupportedMediaType")


def test_only_those_who_may_see_a_job_may_plan_it(door: FrontDoor) -> None:
    stranger = door.token("eve", projects=["other"])
    with door.client(stranger) as client:
        assert client.get(f"{JOBS}/holder/plan").status_code in (403, 404)
        assert client.post(PLAN, json=a_file("new")).status_code in (403, 404)
    with door.client(None) as client:
        assert client.get(f"{JOBS}/holder/plan").status_code == 401


def test_a_server_without_a_forecaster_says_so(door: FrontDoor) -> None:
    door.deps = replace(door.deps, forecaster=None)
    with door.client(door.member_token) as client:
        a_problem(client.get(f"{JOBS}/holder/plan"), 503, "ForecastUnavailable")


def test_a_process_of_its_own_gives_the_same_answer(door: FrontDoor, member: TestClient) -> None:
    submitted(door, "next", workers=2)
    here = member.get(f"{JOBS}/next/plan").json()
    door.deps = replace(door.deps, forecaster=ForecastProcesses(time_max=LONG))
    with door.client(door.member_token) as client:
        assert client.get(f"{JOBS}/next/plan").json() == here


def test_a_plan_that_takes_too_long_is_given_up(door: FrontDoor) -> None:
    door.deps = replace(
        door.deps, forecaster=ForecastProcesses(time_max=timedelta(milliseconds=20))
    )
    with door.client(door.member_token) as client:
        problem = a_problem(client.get(f"{JOBS}/holder/plan"), 504, "ForecastTooLarge")
        assert problem.detail == "the plan was given up: it takes more than 0.02 s"
        # The next one has its turn.
        a_problem(client.get(f"{JOBS}/holder/plan"), 504, "ForecastTooLarge")


def test_plans_are_worked_out_one_at_a_time(door: FrontDoor) -> None:
    processes = ForecastProcesses(time_max=LONG)
    door.deps = replace(door.deps, forecaster=processes)
    with door.client(door.member_token) as client:
        with processes.turn():
            problem = a_problem(client.get(f"{JOBS}/holder/plan"), 503, "ForecastBusy")
        assert problem.detail == "another plan is being worked out"
        assert client.get(f"{JOBS}/holder/plan").status_code == 200


class CountingStore(MemoryStore):
    """Counts how often all jobs are read."""

    reads = 0

    def live(self, after: Sequence | None = None) -> LiveState:
        """See JobStore."""
        self.reads += 1
        return super().live(after)


def test_a_question_that_is_refused_reads_no_jobs() -> None:
    store, processes = CountingStore(), ForecastProcesses(time_max=LONG)
    door = FrontDoor(store)
    door.deps = replace(door.deps, forecaster=processes)
    observe(door)
    submitted(door, "next")
    with door.client(door.member_token) as client, processes.turn():
        before = store.reads
        a_problem(client.get(f"{JOBS}/next/plan"), 503, "ForecastBusy")
        a_problem(client.post(PLAN, json=a_file("new")), 503, "ForecastBusy")
        assert store.reads == before


def test_a_server_that_stops_gives_up_its_plan(door: FrontDoor) -> None:
    processes = ForecastProcesses(time_max=LONG)
    door.deps = replace(door.deps, forecaster=processes)
    with door.client(door.member_token) as client:
        processes.close()
        problem = a_problem(client.get(f"{JOBS}/holder/plan"), 503, "ForecastStopped")
    assert problem.detail == "the plan was given up: the server is stopping"


class StoppedMeanwhile(ForecastProcesses):
    """The server stops as soon as the plan is begun."""

    def _begun(self) -> "subprocess.Popen[str]":
        process = super()._begun()
        self.close()
        return process


def test_a_plan_under_way_is_given_up_when_the_server_stops(door: FrontDoor) -> None:
    door.deps = replace(door.deps, forecaster=StoppedMeanwhile(time_max=LONG))
    with door.client(door.member_token) as client:
        a_problem(client.get(f"{JOBS}/holder/plan"), 503, "ForecastStopped")


@pytest.mark.parametrize(
    ("cause", "outcome"),
    [
        pytest.param(StopCause.PREEMPT, Outcome.PREEMPTED, id="for another job"),
        pytest.param(StopCause.DRAIN, Outcome.DRAINED, id="for an empty node"),
    ],
)
def test_a_job_that_is_stopped_for_others_is_planned_as_one_that_waits_again(
    door: FrontDoor, member: TestClient, cause: StopCause, outcome: Outcome
) -> None:
    stop(door, "holder", cause, outcome)
    plan = member.get(f"{JOBS}/holder/plan").json()
    assert (plan["isRunning"], plan["waitSeconds"]) == (False, GRACE_S)
    assert plan["endsAt"] > plan["startsAt"]


def test_a_job_whose_stop_is_its_end_has_no_plan_and_holds_its_gpus_till_then(
    door: FrontDoor, member: TestClient
) -> None:
    submitted(door, "next", workers=3)
    stop(door, "holder", StopCause.DEADLINE, Outcome.DEADLINE_EXCEEDED)
    problem = a_problem(member.get(f"{JOBS}/holder/plan"), 409, "Conflict")
    assert problem.detail == "holder is being stopped: there is nothing to plan"
    assert member.get(f"{JOBS}/next/plan").json()["waitSeconds"] == GRACE_S


def stop(door: FrontDoor, name: str, cause: StopCause, outcome: Outcome) -> None:
    """Write what the loop writes when it begins to stop a gang."""
    job = door.store.job(DEFAULT_PROJECT, JobName(name))
    (attempt,) = door.store.attempts(job.id)
    stopping = replace(
        attempt.moved_to(AttemptPhase.STOPPING, at=A_MOMENT),
        stop_cause=cause,
        outcome=outcome,
        kill_at=after(A_MOMENT, Duration(GRACE_S * SECOND)),
    )
    moved = job.moved_to(JobPhase.STOPPING, at=A_MOMENT, reason=cause)
    saved = SaveJob(job=moved, expected_revision=job.revision)
    door.store.write(Unit(changes=(saved, SaveAttempt(attempt=stopping))))


def test_a_plan_that_takes_too_much_memory_is_given_up(door: FrontDoor) -> None:
    with door.client(door.admin_token) as admin:
        # Too much to be read into what the interpreter holds free already.
        large = ["bash", "-c", "#" * 30_000]
        for number in range(100):
            file = a_file(f"waits-{number}", command=large)
            assert admin.post(JOBS, json=file).status_code == 201
    door.deps = replace(door.deps, forecaster=ForecastProcesses(time_max=LONG, memory_max=1 << 20))
    with door.client(door.member_token) as client:
        problem = a_problem(client.get(f"{JOBS}/holder/plan"), 504, "ForecastTooLarge")
        assert problem.detail == "the plan was given up: it takes more than 1 MiB of memory"
