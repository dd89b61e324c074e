"""What can be read: nodes, topology, queues, projects, events, attempts, why."""

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from scheduler.domain.event import Event, EventKind
from scheduler.domain.explain import explain, ways_out
from scheduler.domain.ids import (
    AttemptNumber,
    JobName,
    LevelName,
    NodeName,
    ProjectName,
    Rank,
)
from scheduler.domain.instants import SECOND, after, seconds
from scheduler.domain.job import AttemptPhase, Job, JobPhase, Outcome, WorkerEnd
from scheduler.domain.placement import BackingOff, BehindHead, Blocked, NeverFits, TooFewGpus
from scheduler.domain.progress import Progress
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.unit import (
    Answer,
    RecordCycle,
    RecordProgress,
    Reserve,
    SaveAnswers,
    SaveAttempt,
    SaveJob,
    SaveNodes,
    Unit,
)
from tests.api.front_door import A_MOMENT, JOBS, FrontDoor, a_file, a_problem
from tests.builders import APicture, a_cluster, a_placement, an_attempt, reservations_of

CLUSTER = a_cluster("b1/r1: 8 8\nb1/r2: 8")


def observe(door: FrontDoor, cluster: APicture = CLUSTER) -> None:
    """The store knows the cluster."""
    save = SaveNodes(levels=cluster.levels, nodes=cluster.nodes, at=A_MOMENT)
    door.store.write(Unit(changes=(save,)))


def submitted(door: FrontDoor, name: str, project: str = "default", **spec: object) -> Job:
    """A job that came in by the front door."""
    with door.client(door.admin_token) as admin:
        path = f"/api/v1/projects/{project}/jobs"
        assert admin.post(path, json=a_file(name, **spec)).status_code == 201
    return door.store.job(ProjectName(project), JobName(name))


def run(door: FrontDoor, job: Job, workers_by_node: dict[str, int]) -> AttemptKey:
    """The job runs there."""
    attempt = an_attempt(job, a_placement(CLUSTER, job, workers_by_node), created_at=A_MOMENT)
    running = replace(job, phase=JobPhase.RUNNING, attempts=1, first_started_at=A_MOMENT)
    door.store.write(
        Unit(
            changes=(
                SaveJob(job=running, expected_revision=job.revision),
                SaveAttempt(attempt=attempt),
                Reserve(reservations=reservations_of(job, attempt)),
            )
        )
    )
    return AttemptKey(job.id, attempt.number)


def answered(door: FrontDoor, job: Job, blocked: Blocked, *, position: int = 1) -> None:
    """A cycle has said why the job waits."""
    answer = Answer(job_id=job.id, blocked=blocked, at=A_MOMENT, position=position)
    cycle = RecordCycle(cycle=7, at=A_MOMENT)
    door.store.write(Unit(changes=(SaveAnswers(answers=(answer,)), cycle)))


def test_nodes_show_what_is_held_on_them(door: FrontDoor, admin: TestClient) -> None:
    observe(door)
    run(door, submitted(door, "train", workers=2, gpusPerWorker=4), {"r1-n0": 2})

    nodes = {node["name"]: node for node in admin.get("/api/v1/nodes").json()["items"]}

    assert list(nodes) == ["r1-n0", "r1-n1", "r2-n0"]
    assert (nodes["r1-n0"]["gpus"], nodes["r1-n0"]["gpusHeld"]) == (8, 8)
    assert nodes["r1-n0"]["jobs"] == ["default/train"]
    assert nodes["r1-n0"]["path"] == {"rack": "r1", "block": "b1"}
    assert nodes["r1-n1"]["jobs"] == []


def test_nodes_do_not_tell_the_jobs_of_other_projects(door: FrontDoor, member: TestClient) -> None:
    observe(door)
    door.project("other", "default")
    run(door, submitted(door, "hidden", project="other"), {"r1-n0": 1})

    node = member.get("/api/v1/nodes").json()["items"][0]

    assert (node["gpusHeld"], node["jobs"]) == (8, [])


def test_topology_is_a_tree_with_what_is_held(door: FrontDoor, admin: TestClient) -> None:
    observe(door)
    run(door, submitted(door, "train"), {"r2-n0": 1})

    topology = admin.get("/api/v1/topology").json()

    assert [level["name"] for level in topology["levels"]] == ["node", "rack", "block", "cluster"]
    (cluster,) = topology["domains"]
    (block,) = cluster["domains"]
    assert (block["name"], block["gpus"], block["gpusHeld"]) == ("b1", 24, 8)
    assert [(rack["name"], rack["nodeNames"], rack["gpusHeld"]) for rack in block["domains"]] == [
        ("b1/r1", ["r1-n0", "r1-n1"], 0),
        ("b1/r2", ["r2-n0"], 8),
    ]


def test_an_unobserved_cluster_has_no_nodes(admin: TestClient) -> None:
    assert admin.get("/api/v1/nodes").json()["items"] == []
    assert admin.get("/api/v1/topology").json()["domains"] == []


def test_queues_count_what_waits_and_what_runs(door: FrontDoor, admin: TestClient) -> None:
    observe(door)
    door.project("other", "team-b")
    run(door, submitted(door, "running", workers=2), {"r1-n0": 1, "r1-n1": 1})
    submitted(door, "waiting", workers=3)
    submitted(door, "held")
    admin.post(f"{JOBS}/held/hold")

    queues = {queue["name"]: queue for queue in admin.get("/api/v1/queues").json()["items"]}

    mine = queues["default"]
    assert (mine["jobsPending"], mine["jobsHeld"], mine["jobsActive"]) == (1, 1, 1)
    assert (mine["gpusPending"], mine["gpusActive"]) == (24, 16)
    assert mine["projects"] == ["default"]
    assert (queues["team-b"]["jobsPending"], queues["team-b"]["projects"]) == (0, ["other"])


def test_projects_show_their_queues(door: FrontDoor, admin: TestClient, member: TestClient) -> None:
    door.project("other", "team-b", "default")

    assert admin.get("/api/v1/projects").json()["items"] == [
        {"name": "default", "queues": ["default"]},
        {"name": "other", "queues": ["team-b", "default"]},
    ]
    assert [item["name"] for item in member.get("/api/v1/projects").json()["items"]] == ["default"]


def test_the_events_of_a_job_tell_its_story(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file("train"))
    admin.post(JOBS, json=a_file("other"))
    admin.post(f"{JOBS}/train/hold", json={"reason": "no data"})
    admin.post(f"{JOBS}/train/release")
    admin.post(f"{JOBS}/train/cancel", json={"reason": "wrong data"})

    events = admin.get(f"{JOBS}/train/events").json()["items"]

    assert [event["reason"] for event in events] == [
        "JobSubmitted",
        "JobHeld",
        "JobReleased",
        "JobCancelled",
    ]
    assert events[1]["message"] == "held by root: no data"
    assert {event["actor"] for event in events} == {"root"}
    assert {event["job"] for event in events} == {"train"}


def test_events_are_read_page_by_page_and_by_type(door: FrontDoor, admin: TestClient) -> None:
    for n in range(10):
        kind = EventKind.WARNING if n % 3 == 0 else EventKind.NORMAL
        door.store.write(
            Unit(changes=(), events=(Event(reason=f"E{n}", message="", at=A_MOMENT, kind=kind),))
        )

    seen, token = [], ""
    while token is not None:
        page = admin.get("/api/v1/events", params={"limit": 3, "continue": token}).json()
        seen += [event["reason"] for event in page["items"]]
        token = page["metadata"].get("continue")
    warnings = admin.get("/api/v1/events", params={"type": "Warning", "limit": 3}).json()

    assert seen == [f"E{n}" for n in range(10)]
    assert [event["reason"] for event in warnings["items"]] == ["E0", "E3", "E6"]
    assert "continue" in warnings["metadata"]
    rest = {"type": "Warning", "continue": warnings["metadata"]["continue"]}
    assert [e["reason"] for e in admin.get("/api/v1/events", params=rest).json()["items"]] == ["E9"]
    token_of_other_list = {"continue": warnings["metadata"]["continue"]}
    a_problem(admin.get("/api/v1/events", params=token_of_other_list), 400, "InvalidContinue")


def test_members_do_not_see_events_of_the_service(
    door: FrontDoor, member: TestClient, admin: TestClient
) -> None:
    event = Event(reason="NodeLost", message="", at=A_MOMENT, node=NodeName("n1"))
    door.store.write(Unit(changes=(), events=(event,)))

    assert member.get("/api/v1/events").json()["items"] == []
    assert [e["node"] for e in admin.get("/api/v1/events").json()["items"]] == ["n1"]


def test_attempts_show_workers_their_ends_and_the_last_report(
    door: FrontDoor, admin: TestClient
) -> None:
    observe(door)
    job = submitted(door, "train", workers=3)
    key = run(door, job, {"r1-n0": 1, "r1-n1": 1, "r2-n0": 1})
    (attempt,) = door.store.attempts(job.id)
    end = WorkerEnd(rank=Rank(1), exit_code=3, outcome=Outcome.USER_ERROR, ended_at=A_MOMENT)
    ended = replace(
        attempt, phase=AttemptPhase.ENDED, outcome=Outcome.USER_ERROR, worker_ends=(end,)
    )
    reports = tuple(
        RecordProgress(
            attempt=key,
            progress=Progress(step=step, step_seconds=0.5, loss=1 / step, reported_at=A_MOMENT),
        )
        for step in (10, 20)
    )
    door.store.write(Unit(changes=(SaveAttempt(attempt=ended), *reports)))

    (shown,) = admin.get(f"{JOBS}/train/attempts").json()["items"]

    assert (shown["number"], shown["tier"], shown["outcome"]) == (0, "block", "UserError")
    assert [(w["rank"], w["node"], w.get("exitCode")) for w in shown["workers"]] == [
        (0, "r1-n0", None),
        (1, "r1-n1", 3),
        (2, "r2-n0", None),
    ]
    assert shown["progress"]["step"] == 20
    assert shown["progress"]["loss"] == 0.05
    assert shown["progress"]["reports"] == 2


def test_a_placement_is_drawn_with_what_others_hold(door: FrontDoor, admin: TestClient) -> None:
    observe(door)
    run(door, submitted(door, "other", gpusPerWorker=2), {"r1-n1": 1})
    run(door, submitted(door, "drawn", workers=2, gpusPerWorker=4), {"r1-n1": 1, "r2-n0": 1})

    shown = admin.get(f"{JOBS}/drawn/placement").json()

    assert (shown["attempt"], shown["tier"]) == (0, "block")
    assert [a["node"] for a in shown["placement"]] == ["r1-n1", "r2-n0"]
    assert shown["drawing"].splitlines() == [
        "block b1   (1 other node)",
        "  rack r1   (1 other node)",
        "    r1-n1  [####oo..]  worker 0",
        "  rack r2",
        "    r2-n0  [####....]  worker 1",
        "# this job   o held by others   . free",
    ]


def test_a_job_that_was_never_placed_has_no_placement(door: FrontDoor, admin: TestClient) -> None:
    submitted(door, "unplaced")

    answer = admin.get(f"{JOBS}/unplaced/placement")

    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")


A_NO = TooFewGpus(
    level=LevelName("rack"),
    workers_wanted=4,
    workers_fit_max=3,
    nodes=10,
    nodes_by_reason={"TooFewGpus": 6, "Cordoned": 1, "Fits": 3},
)


@pytest.mark.parametrize(
    ("blocked", "verdict"),
    [
        pytest.param(A_NO, "WaitingForCapacity", id="too few GPUs"),
        pytest.param(BackingOff(until=A_MOMENT, restarts=2), "Backoff", id="backing off"),
        pytest.param(BehindHead(jobs_ahead=3), "WaitingForPriority", id="behind the head"),
        pytest.param(
            NeverFits(level=LevelName("rack"), workers_wanted=4, workers_fit_max=1, nodes=3),
            "NeverFits",
            id="never",
        ),
    ],
)
def test_why_repeats_the_answer_of_the_last_cycle(
    door: FrontDoor, admin: TestClient, blocked: Blocked, verdict: str
) -> None:
    job = submitted(door, "train")
    answered(door, job, blocked)

    why = admin.get(f"{JOBS}/train/why").json()

    assert (why["verdict"], why["phase"]) == (verdict, "Pending")
    assert why["summary"] == explain(blocked)
    assert why["fix"] == list(ways_out(blocked))


def test_why_has_counts_that_add_up_a_round_and_a_position(
    door: FrontDoor, admin: TestClient
) -> None:
    for name in ("a", "b", "c"):
        job = submitted(door, name)
    answered(door, job, A_NO, position=3)
    door.clock.advance(seconds(5))

    why = admin.get(f"{JOBS}/c/why").json()

    assert why["counts"].pop("nodes") == sum(why["counts"].values())
    assert why["position"] == {"inQueue": 3, "ofQueue": 3}
    assert why["round"] == {
        "id": 7,
        "time": "2027-01-15T08:00:00Z",
        "ageSeconds": 5.0,
        "isStale": False,
    }
    door.clock.advance(seconds(30))
    assert admin.get(f"{JOBS}/c/why").json()["round"]["isStale"]


def test_why_says_so_when_nobody_has_looked_yet(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file())

    why = admin.get(f"{JOBS}/train/why").json()

    assert (why["verdict"], "round" in why) == ("NotYetConsidered", False)


def test_why_of_a_job_that_does_not_wait_tells_its_phase(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file())
    admin.post(f"{JOBS}/train/hold")
    held = admin.get(f"{JOBS}/train/why").json()
    admin.post(f"{JOBS}/train/cancel")
    cancelled = admin.get(f"{JOBS}/train/why").json()

    assert (held["verdict"], held["summary"]) == ("Held", "held by root")
    assert held["fix"] == ["release it (dally release)"]
    assert (cancelled["verdict"], cancelled["summary"]) == ("Cancelled", "cancelled by its user")


def report(door: FrontDoor, token: str, body: object) -> int:
    """The status of a progress report."""
    with door.client(token) as worker:
        return worker.post("/api/v1/attempts/progress", json=body).status_code


def test_rank_0_reports_its_progress_with_the_token_of_its_attempt(door: FrontDoor) -> None:
    observe(door)
    job = submitted(door, "train")
    key = run(door, job, {"r1-n0": 1})
    token = door.attempt_tokens.sign(key)

    status = report(door, token, {"step": 5, "stepSeconds": 0.25, "accuracy": 0.9, "stepsTotal": 9})

    assert status == 204
    ((stored_key, progress),) = door.store.progress(job.id)
    assert stored_key == key
    assert (progress.step, progress.accuracy, progress.steps_total) == (5, 0.9, 9)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"step": -1, "stepSeconds": 1.0}, id="negative step"),
        pytest.param({"step": 2**63, "stepSeconds": 1.0}, id="huge step"),
        pytest.param({"step": 1}, id="no time"),
        pytest.param({"step": 1.5, "stepSeconds": 1.0}, id="half a step"),
        pytest.param({"step": 1, "stepSeconds": 1.0, "los": 1.0}, id="typo"),
        pytest.param([], id="a list"),
    ],
)
def test_a_report_that_makes_no_sense_is_refused(door: FrontDoor, body: object) -> None:
    observe(door)
    job = submitted(door, "train")
    token = door.attempt_tokens.sign(run(door, job, {"r1-n0": 1}))

    assert report(door, token, body) == 422
    assert door.store.progress(job.id) == ()


def test_only_a_token_of_an_attempt_reports(door: FrontDoor) -> None:
    observe(door)
    key = run(door, submitted(door, "train"), {"r1-n0": 1})
    good = door.attempt_tokens.sign(key)
    body = {"step": 1, "stepSeconds": 1.0}

    for token in (door.admin_token, good[:-2] + "xx", good + "x", "dallya_", "dallya_é"[:-1] + "e"):
        assert report(door, token, body) == 401
    unknown = door.attempt_tokens.sign(AttemptKey(key.job_id, AttemptNumber(5)))
    assert report(door, unknown, body) == 404
    with door.client(good) as worker:
        a_problem(worker.get(JOBS), 401, "Unauthenticated")


def test_an_attempt_that_has_ended_reports_no_more(door: FrontDoor) -> None:
    observe(door)
    job = submitted(door, "train")
    token = door.attempt_tokens.sign(run(door, job, {"r1-n0": 1}))
    (attempt,) = door.store.attempts(job.id)
    door.store.write(
        Unit(changes=(SaveAttempt(attempt=replace(attempt, phase=AttemptPhase.ENDED)),))
    )

    assert report(door, token, {"step": 1, "stepSeconds": 1.0}) == 409


def test_an_attempt_that_reports_too_often_is_slowed_down(door: FrontDoor) -> None:
    observe(door)
    door.limit(reports_per_second=1.0, reports_burst=2.0)
    token = door.attempt_tokens.sign(run(door, submitted(door, "train"), {"r1-n0": 1}))
    body = {"step": 1, "stepSeconds": 1.0}
    with door.client(token) as worker:
        statuses = [
            worker.post("/api/v1/attempts/progress", json=body).status_code for _ in range(3)
        ]
        door.clock.advance_to(after(door.clock.now(), SECOND))
        again = worker.post("/api/v1/attempts/progress", json=body).status_code

    assert (statuses, again) == ([204, 204, 429], 204)
