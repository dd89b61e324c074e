"""Jobs through the front door: create, get, list, cancel, hold, release."""

import pytest
from starlette.testclient import TestClient

from tests.api.front_door import JOBS, FrontDoor, a_file, a_problem


def test_a_submitted_job_is_there_with_its_defaults(admin: TestClient) -> None:
    created = admin.post(JOBS, json=a_file("train"))

    assert created.status_code == 201
    assert created.headers["Location"] == f"{JOBS}/train"
    job = admin.get(f"{JOBS}/train").json()
    assert job == created.json()
    assert job["metadata"]["name"] == "train"
    assert job["metadata"]["createdBy"] == "root"
    assert job["metadata"]["createTime"] == "2027-01-15T08:00:00Z"
    assert job["spec"]["workers"] == 1
    assert job["spec"]["queue"] == "default"
    assert job["status"]["phase"] == "Pending"
    assert job["status"]["gpus"] == 8


def test_a_yaml_file_makes_the_same_job_as_a_json_file(admin: TestClient) -> None:
    text = """
apiVersion: dally/v1
kind: Job
metadata: {name: from-yaml}
spec:
  gpusPerWorker: 8
  command: [python, train.py]
"""
    yaml = admin.post(JOBS, content=text, headers={"Content-Type": "application/yaml"})
    json = admin.post(JOBS, json=a_file("from-json"))

    assert yaml.status_code == 201
    assert yaml.json()["spec"] == json.json()["spec"]


def test_submitting_wakes_the_loop(door: FrontDoor, admin: TestClient) -> None:
    admin.post(JOBS, json=a_file())

    assert door.wakes == 1


def test_a_name_can_be_used_once_in_a_project(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file("train"))

    again = admin.post(JOBS, json=a_file("train"))

    assert again.status_code == 409
    assert again.json()["reason"] == "AlreadyExists"


def test_a_dry_run_stores_nothing(door: FrontDoor, admin: TestClient) -> None:
    before = door.store.sequence()

    answer = admin.post(f"{JOBS}?dryRun=All", json=a_file("train"))

    assert answer.status_code == 200
    assert answer.json()["metadata"]["name"] == "train"
    assert door.store.sequence() == before


def test_a_list_is_read_page_by_page(admin: TestClient) -> None:
    names = [f"job-{n}" for n in range(7)]
    for name in names:
        admin.post(JOBS, json=a_file(name))

    seen, token = [], ""
    while token is not None:
        page = admin.get(JOBS, params={"limit": 3, "continue": token}).json()
        seen += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")

    assert seen == names


def test_pages_may_begin_with_the_newest(admin: TestClient) -> None:
    for name in "abcde":
        assert admin.post(JOBS, json=a_file(name)).status_code == 201

    newest: dict[str, str | int] = {"limit": 2, "order": "newest"}
    first = admin.get(JOBS, params=newest).json()
    second = admin.get(JOBS, params={**newest, "continue": first["metadata"]["continue"]}).json()

    names = [item["metadata"]["name"] for page in (first, second) for item in page["items"]]
    assert names == ["e", "d", "c", "b"]
    assert second["metadata"]["remainingItemCount"] == 1


def test_a_page_token_is_good_for_its_order_alone(admin: TestClient) -> None:
    for name in "abc":
        assert admin.post(JOBS, json=a_file(name)).status_code == 201
    token = admin.get(JOBS, params={"limit": 1}).json()["metadata"]["continue"]
    answer = admin.get(JOBS, params={"limit": 1, "continue": token, "order": "newest"})
    a_problem(answer, 400, "InvalidContinue")


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        pytest.param({"phase": "Held"}, ["b"], id="by phase"),
        pytest.param({"phase": "Held,Pending"}, ["a", "b", "c"], id="by several phases"),
        pytest.param({"labelSelector": "exp=x"}, ["c"], id="by label"),
        pytest.param({"labelSelector": "exp=y"}, [], id="by a label nobody has"),
        pytest.param({"fieldSelector": "metadata.name=b"}, ["b"], id="by name"),
        pytest.param({"fieldSelector": "status.phase=Pending"}, ["a", "c"], id="by phase field"),
        pytest.param({"queue": "default"}, ["a", "b", "c"], id="by queue"),
    ],
)
def test_a_list_can_be_filtered(
    admin: TestClient, parameters: dict[str, str], wanted: list[str]
) -> None:
    labelled = a_file("c")
    labelled["metadata"] = {"name": "c", "labels": {"exp": "x"}}
    for file in (a_file("a"), a_file("b"), labelled):
        assert admin.post(JOBS, json=file).status_code == 201
    admin.post(f"{JOBS}/b/hold")

    items = admin.get(JOBS, params=parameters).json()["items"]

    assert [item["metadata"]["name"] for item in items] == wanted


def test_a_pending_job_is_cancelled_at_once(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file())

    status = admin.post(f"{JOBS}/train/cancel").json()["status"]

    assert status["phase"] == "Cancelled"
    assert status["reason"] == "CancelledByUser"


def test_a_held_job_can_be_released(admin: TestClient) -> None:
    admin.post(JOBS, json=a_file())

    held = admin.post(f"{JOBS}/train/hold", json={"reason": "not yet"}).json()
    released = admin.post(f"{JOBS}/train/release").json()

    assert held["status"]["phase"] == "Held"
    assert held["status"]["message"] == "held by root: not yet"
    assert released["status"]["phase"] == "Pending"
