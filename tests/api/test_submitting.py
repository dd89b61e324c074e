"""Submitting once and only once, applying, and removing again."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from api.job_files.rules import MASK
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.ids import JobId, JobName, ProjectName, Sequence
from scheduler.domain.job import JobPhase, StopCause
from scheduler.ports.job_store import EventQuery, JobQuery
from scheduler.ports.unit import InsertJob, RememberReply, SaveJob, SaveNodes, Unit
from tests.api.front_door import A_MOMENT, JOBS, FrontDoor, a_file, a_problem
from tests.builders import a_cluster

KEY = {"Idempotency-Key": "b0a5"}


def observe(door: FrontDoor, picture: str) -> None:
    """Let the cluster be seen."""
    cluster = a_cluster(picture)
    door.store.write(
        Unit(changes=(SaveNodes(levels=cluster.levels, nodes=cluster.nodes, at=A_MOMENT),))
    )


def move(store: MemoryStore, name: str, *phases: JobPhase) -> None:
    """Take a job through phases, as the leader does."""
    for phase in phases:
        job = store.job(ProjectName("default"), JobName(name))
        moved = job.moved_to(phase, at=A_MOMENT)
        store.write(Unit(changes=(SaveJob(job=moved, expected_revision=job.revision),)))


def test_the_same_request_again_gets_the_same_answer(door: FrontDoor, admin: TestClient) -> None:
    first = admin.post(JOBS, json=a_file(), headers=KEY)
    again = admin.post(JOBS, json=a_file(), headers=KEY)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    assert len(door.store.jobs(JobQuery()).jobs) == 1


def test_a_reply_is_repeated_even_when_the_job_has_changed(admin: TestClient) -> None:
    first = admin.post(JOBS, json=a_file(), headers=KEY)
    admin.post(f"{JOBS}/train/cancel")

    again = admin.post(JOBS, json=a_file(), headers=KEY)

    assert again.json()["status"]["phase"] == "Pending"
    assert again.content == first.content


def test_a_key_belongs_to_one_body(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file(), headers=KEY)

    other = admin.post(JOBS, json=a_file("other"), headers=KEY)

    a_problem(other, 422, "IdempotencyKeyReused")


def test_a_key_belongs_to_one_token_and_one_project(door: FrontDoor, admin: TestClient) -> None:
    door.project("other", "default")
    admin.post(JOBS, json=a_file(), headers=KEY)

    elsewhere = admin.post("/api/v1/projects/other/jobs", json=a_file(), headers=KEY)
    with door.client(door.member_token) as ada:
        by_ada = ada.post(JOBS, json=a_file(), headers=KEY)

    assert elsewhere.status_code == 201
    a_problem(by_ada, 409, "AlreadyExists")


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("", id="empty"),
        pytest.param("x" * 256, id="too long"),
        pytest.param("a b", id="a space"),
        pytest.param("a\tb", id="a tab"),
    ],
)
def test_a_key_is_printable_and_short(admin: TestClient, key: str) -> None:
    response = admin.post(JOBS, json=a_file(), headers={"Idempotency-Key": key})

    a_problem(response, 400, "InvalidParameter")


def test_a_refused_request_does_not_use_up_its_key(admin: TestClient) -> None:
    a_problem(admin.post(JOBS, json=a_file("Bad"), headers=KEY), 422, "InvalidSpec")

    assert admin.post(JOBS, json=a_file(), headers=KEY).status_code == 201


def test_of_many_requests_with_one_key_one_makes_the_job(door: FrontDoor) -> None:
    with door.client(door.admin_token) as admin, ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda _: admin.post(JOBS, json=a_file(), headers=KEY), range(100)))

    assert {reply.status_code for reply in replies} == {201}
    assert len({reply.content for reply in replies}) == 1
    assert len(door.store.jobs(JobQuery()).jobs) == 1
    assert [event.reason for event in door.store.events(EventQuery())] == ["JobSubmitted"]


def test_applying_creates_and_then_finds_unchanged(door: FrontDoor, admin: TestClient) -> None:
    created = admin.put(f"{JOBS}/train", json=a_file())
    again = admin.put(f"{JOBS}/train", json=a_file(workers=1, priority="normal"))

    assert (created.status_code, again.status_code) == (201, 200)
    assert again.json() == created.json()
    assert len(door.store.jobs(JobQuery()).jobs) == 1


def test_what_get_prints_can_be_applied_again(admin: TestClient) -> None:
    admin.put(f"{JOBS}/train", json=a_file(env={"API_TOKEN": "s3cret"}, topology={}))
    shown = admin.get(f"{JOBS}/train").json()

    assert shown["spec"]["env"] == {"API_TOKEN": MASK}
    assert admin.put(f"{JOBS}/train", json=shown).status_code == 200


def test_applying_another_spec_names_the_fields_that_differ(admin: TestClient) -> None:
    admin.put(f"{JOBS}/train", json=a_file())
    other = a_file(workers=2, launcher="mpi", duration={"iterations": 5})
    other["metadata"] = {"name": "train", "labels": {"a": "b"}}

    problem = a_problem(admin.put(f"{JOBS}/train", json=other), 409, "FieldIsImmutable")

    assert [entry.pointer for entry in problem.errors] == [
        "/metadata/labels",
        "/spec/workers",
        "/spec/launcher",
        "/spec/duration",
    ]


def test_a_changed_secret_is_named_and_not_shown(admin: TestClient) -> None:
    admin.put(f"{JOBS}/train", json=a_file(env={"API_TOKEN": "s3cret"}))

    response = admin.put(f"{JOBS}/train", json=a_file(env={"API_TOKEN": "0ther"}))

    problem = a_problem(response, 409, "FieldIsImmutable")
    assert [entry.pointer for entry in problem.errors] == ["/spec/env/API_TOKEN"]
    assert "s3cret" not in response.text
    assert "0ther" not in response.text


def test_the_name_in_the_file_is_that_in_the_path(admin: TestClient) -> None:
    problem = a_problem(admin.put(f"{JOBS}/other", json=a_file("train")), 422, "InvalidSpec")

    assert [entry.pointer for entry in problem.errors] == ["/metadata/name"]


def test_a_dry_run_of_apply_stores_nothing(door: FrontDoor, admin: TestClient) -> None:
    before = door.store.sequence()

    assert admin.put(f"{JOBS}/train?dryRun=All", json=a_file()).status_code == 200
    assert door.store.sequence() == before


@pytest.mark.parametrize("secret_name", ["API_TOKEN", "MY_PASSWORD", "wandb_api_key", "AWS_SECRET"])
def test_a_value_that_looks_secret_is_never_shown(
    door: FrontDoor, admin: TestClient, secret_name: str
) -> None:
    env = {secret_name: "c4nary", "PLAIN": "shown"}

    created = admin.post(JOBS, json=a_file(env=env), headers=KEY)

    assert secret_name in created.headers["Warning"]
    for path in (JOBS, f"{JOBS}/train", f"{JOBS}/train/file", "/api/v1/events", "/api/v1/audit"):
        assert "c4nary" not in admin.get(path).text
    assert "c4nary" not in admin.post(JOBS, json=a_file(env=env), headers=KEY).text
    assert admin.get(f"{JOBS}/train/file").json()["spec"]["env"]["PLAIN"] == "shown"
    stored = door.store.job(ProjectName("default"), JobName("train"))
    assert stored.spec.roles[0].env[secret_name] == "c4nary"


def test_the_file_is_shown_as_it_was_written(admin: TestClient) -> None:
    file = a_file(duration={"maxRuntime": "90s"}, resources={"memory": "1024Mi"})
    admin.post(JOBS, json=file)

    assert admin.get(f"{JOBS}/train/file").json() == file


def test_the_project_of_a_file_is_that_of_the_request(admin: TestClient) -> None:
    file = a_file()
    file["metadata"] = {"name": "train", "project": "other"}

    problem = a_problem(admin.post(JOBS, json=file), 422, "InvalidSpec")

    assert [entry.reason for entry in problem.errors] == ["ProjectMismatch"]


def test_the_default_queue_is_the_projects_first(door: FrontDoor, admin: TestClient) -> None:
    door.project("other", "team-b", "default")

    job = admin.post("/api/v1/projects/other/jobs", json=a_file()).json()

    assert job["spec"]["queue"] == "team-b"


def test_a_gang_that_never_fits_is_refused_with_the_numbers(
    door: FrontDoor, admin: TestClient
) -> None:
    observe(door, "r1: 8 8")

    problem = a_problem(admin.post(JOBS, json=a_file(workers=3)), 422, "NeverFits")

    assert "3 workers" in problem.detail
    assert "2 nodes" in problem.detail
    assert admin.post(JOBS, json=a_file(workers=2)).status_code == 201


def test_a_job_that_has_ended_can_be_deleted_and_its_name_used_again(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file())
    admin.post(f"{JOBS}/train/cancel")

    deleted = admin.delete(f"{JOBS}/train")

    assert deleted.status_code == 200
    assert deleted.json()["status"]["phase"] == "Cancelled"
    a_problem(admin.get(f"{JOBS}/train"), 404, "NotFound")
    assert admin.post(JOBS, json=a_file()).status_code == 201


def test_a_live_job_is_not_deleted_by_mistake(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file())

    problem = a_problem(admin.delete(f"{JOBS}/train"), 409, "JobIsLive")

    assert "?cancel=true" in problem.detail


def test_a_waiting_job_is_cancelled_and_deleted_in_one_request(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file())

    assert admin.delete(f"{JOBS}/train?cancel=true").status_code == 200
    a_problem(admin.get(f"{JOBS}/train"), 404, "NotFound")
    reasons = [event["reason"] for event in admin.get("/api/v1/events").json()["items"]]
    assert reasons == ["JobDeleted"]


def test_deleting_a_running_job_begins_with_cancelling_it(
    door: FrontDoor, admin: TestClient
) -> None:
    admin.post(JOBS, json=a_file())
    move(door.store, "train", JobPhase.STARTING, JobPhase.RUNNING)

    accepted = admin.delete(f"{JOBS}/train?cancel=true&now=true")

    assert accepted.status_code == 202
    stored = door.store.job(ProjectName("default"), JobName("train"))
    assert (stored.stop_requested, stored.stop_now) == (StopCause.CANCEL, True)
    move(door.store, "train", JobPhase.STOPPING, JobPhase.CANCELLED)
    assert admin.delete(f"{JOBS}/train?cancel=true").status_code == 200


def test_a_job_is_deleted_only_in_the_version_the_caller_knows(admin: TestClient) -> None:
    created = admin.post(JOBS, json=a_file())
    admin.post(f"{JOBS}/train/cancel")

    stale = admin.delete(f"{JOBS}/train", headers={"If-Match": created.headers["ETag"]})
    a_problem(stale, 412, "PreconditionFailed")

    present = admin.get(f"{JOBS}/train").headers["ETag"]
    assert admin.delete(f"{JOBS}/train", headers={"If-Match": present}).status_code == 200


def test_a_running_job_can_not_be_held(door: FrontDoor, admin: TestClient) -> None:
    admin.post(JOBS, json=a_file())
    move(door.store, "train", JobPhase.STARTING)

    refused = a_problem(admin.post(f"{JOBS}/train/hold"), 409, "InvalidTransition")
    assert refused.detail.startswith("job train is ")
    assert "only a Pending job can be held" in refused.detail


class SlowReply(MemoryStore):
    """A store in which another request with the same key is faster than ours."""

    def write(self, unit: Unit) -> Sequence:
        first = unit.changes[0]
        if isinstance(first, RememberReply):
            theirs = replace(first, reply=first.reply.replace("Pending", "Held"))
            super().write(replace(unit, changes=(theirs, *unit.changes[1:])))
        return super().write(unit)


def test_who_loses_the_race_for_a_key_gets_the_winners_reply() -> None:
    door = FrontDoor(SlowReply())
    with door.client(door.admin_token) as admin:
        reply = admin.post(JOBS, json=a_file(), headers=KEY)

    assert reply.json()["status"]["phase"] == "Held"
    assert reply.headers["Idempotent-Replayed"] == "true"


class QuickerApply(MemoryStore):
    """A store in which somebody else makes the job that we are about to make."""

    def write(self, unit: Unit) -> Sequence:
        for change in unit.changes:
            if isinstance(change, InsertJob):
                theirs = replace(change, job=replace(change.job, id=JobId("theirs")))
                super().write(Unit(changes=(theirs,)))
        return super().write(unit)


def test_of_two_who_apply_a_job_at_once_the_second_finds_it_unchanged() -> None:
    door = FrontDoor(QuickerApply())
    with door.client(door.admin_token) as admin:
        answer = admin.put(f"{JOBS}/train", json=a_file())
    assert (answer.status_code, answer.json()["metadata"]["uid"]) == (200, "theirs")


def test_a_reply_is_repeated_even_where_the_request_would_be_refused_today(
    door: FrontDoor, admin: TestClient
) -> None:
    made = admin.post(JOBS, json=a_file(workers=3), headers=KEY)
    observe(door, "r1: 8 8")
    again = admin.post(JOBS, json=a_file(workers=3), headers=KEY)
    a_problem(admin.post(JOBS, json=a_file("other", workers=3)), 422, "NeverFits")
    assert (again.status_code, again.text) == (201, made.text)


def test_every_refused_or_made_change_leaves_one_row(admin: TestClient) -> None:
    ledger = [
        ("create", "default/jobs/train", admin.post(JOBS, json=a_file())),
        ("create", "projects/default/jobs", admin.post(JOBS, json=a_file())),
        ("create", "projects/default/jobs", admin.post(JOBS, content=b"{")),
        ("apply", "default/jobs/train", admin.put(f"{JOBS}/train", json=a_file())),
        ("hold", "default/jobs/train", admin.post(f"{JOBS}/train/hold")),
        ("release", "default/jobs/train", admin.post(f"{JOBS}/train/release")),
        ("release", "projects/default/jobs/none/release", admin.post(f"{JOBS}/none/release")),
        ("cancel", "default/jobs/train", admin.post(f"{JOBS}/train/cancel")),
        ("cancel", "default/jobs/train", admin.post(f"{JOBS}/train/cancel")),
        ("delete", "default/jobs/train", admin.delete(f"{JOBS}/train")),
        ("delete", "projects/default/jobs/train", admin.delete(f"{JOBS}/train")),
        ("create", "tokens", admin.post("/api/v1/tokens", json={})),
    ]
    admin.get(JOBS)
    admin.post(f"{JOBS}?dryRun=All", content=b"{")

    rows = admin.get("/api/v1/audit").json()["items"]

    assert [(row["verb"], row["target"], row["outcome"]) for row in reversed(rows)] == [
        (verb, target, reply.status_code) for verb, target, reply in ledger
    ]
    assert {(row["principal"], row["tokenId"], row["source"]) for row in rows} == {
        ("root", "t-root", "testclient")
    }
    assert [row["requestId"] for row in reversed(rows)] == [
        reply.headers["X-Request-Id"] for _, _, reply in ledger
    ]


def test_a_job_id_is_made_by_the_server(door: FrontDoor, admin: TestClient) -> None:
    file = a_file()
    file["metadata"] = {"name": "train", "uid": "mine"}

    uid = admin.post(JOBS, json=file).json()["metadata"]["uid"]

    assert uid != "mine"
    assert door.store.job_by_id(JobId(uid)).name == "train"
