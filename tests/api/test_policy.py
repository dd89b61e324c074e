"""The policy's knobs over HTTP: as they hold, set live, reset, and refused with what is wrong."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from scheduler.domain.instants import HOUR, MINUTE, Duration
from scheduler.domain.knobs import PolicyKnobs, WaitClock
from scheduler.ports.job_store import EventQuery
from scheduler.ports.unit import SeedKnobs, Unit
from tests.api.front_door import FrontDoor, a_problem

POLICY = "/api/v1/policy"


def knob(client: TestClient, name: str, **params: str) -> dict[str, Any]:
    """One knob as the server shows it."""
    items: list[dict[str, Any]] = client.get(POLICY, params=params).json()["items"]
    (found,) = [item for item in items if item["name"] == name]
    return found


def change(client: TestClient, knobs: dict[str, object], **params: str) -> dict[str, Any]:
    """The policy after knobs were set."""
    answer = client.patch(POLICY, json={"knobs": knobs}, params=params)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def test_each_knob_is_shown_with_its_value_and_who_said_so(
    door: FrontDoor, member: TestClient
) -> None:
    seed = SeedKnobs(seeded={"wait_max": str(12 * HOUR)})
    door.store.write(Unit(changes=(seed,)))
    assert knob(member, "waitMax") == {
        "name": "waitMax",
        "value": "12h",
        "source": "file",
        "default": "24h",
        "scope": "queue",
        "description": "The timers of one job add up to no more than this (not with "
        "`timers: fixed`).",
    }
    assert knob(member, "nodeLostAfter")["source"] == "default"
    assert knob(member, "nodeLostAfter")["scope"] == "cluster"


def test_a_knob_set_live_holds_wakes_the_loop_and_is_audited_and_told(
    door: FrontDoor, admin: TestClient, member: TestClient
) -> None:
    body = {"knobs": {"clock": "declined", "waitMax": "3h"}, "reason": "a long queue"}
    shown = admin.patch(POLICY, json=body).json()
    assert [each["name"] for each in shown["items"] if each["source"] == "live"] == [
        "clock",
        "waitMax",
    ]
    assert door.store.knobs() == PolicyKnobs(clock=WaitClock.DECLINED, wait_max=Duration(3 * HOUR))
    assert door.wakes == 1
    (row,) = door.store.audit(limit=1)
    assert (row.principal, row.verb, row.target, row.outcome) == ("root", "update", "policy", 200)
    (event,) = admin.get("/api/v1/events").json()["items"]
    assert event["reason"] == "PolicyChanged"
    assert knob(member, "waitMax")["value"] == "3h"


def test_the_event_says_what_was_changed_by_whom_and_why(
    door: FrontDoor, admin: TestClient
) -> None:
    body = {"knobs": {"clock": "declined", "waitMax": "3h"}, "reason": "a long queue"}
    admin.patch(POLICY, json=body)
    (event,) = door.store.events(EventQuery())
    assert (event.reason, event.actor) == ("PolicyChanged", "root")
    assert event.message == (
        "clock is declined (was idle); waitMax is 3h (was 24h), by root: a long queue"
    )


def test_a_queue_has_its_own_knobs_and_the_clusters_otherwise(
    door: FrontDoor, admin: TestClient
) -> None:
    door.project("vision", "batch")
    change(admin, {"timerFloor": "2m", "waitMax": "3h"})
    shown = change(admin, {"waitMax": "0s"}, queue="batch")
    assert (shown["queue"], shown["queuesThatDiffer"]) == ("batch", ["batch"])
    assert knob(admin, "waitMax", queue="batch")["source"] == "queue-live"
    assert knob(admin, "timerFloor", queue="batch")["source"] == "live"
    assert knob(admin, "waitMax")["value"] == "3h"
    batch = door.store.queues()[0]
    assert batch.knobs.over(door.store.knobs()) == PolicyKnobs(
        wait_max=Duration(0), timer_floor=Duration(2 * MINUTE)
    )
    (row,) = door.store.audit(limit=1)
    assert row.target == "queues/batch/policy"
    assert [e.message for e in door.store.events(EventQuery())][-1] == (
        "in queue batch: waitMax is 0s (was 3h), by root"
    )


def test_null_leaves_a_knob_to_the_file_again(door: FrontDoor, admin: TestClient) -> None:
    door.store.write(Unit(changes=(SeedKnobs(seeded={"wait_max": str(12 * HOUR)}),)))
    change(admin, {"waitMax": "3h"})
    change(admin, {"waitMax": None, "clock": None})
    assert knob(admin, "waitMax")["value"] == "12h"
    assert knob(admin, "waitMax")["source"] == "file"


def test_a_change_that_changes_nothing_is_audited_and_told_to_nobody(
    door: FrontDoor, admin: TestClient
) -> None:
    change(admin, {"waitMax": "3h"})
    change(admin, {"waitMax": "3h"})
    change(admin, {})
    assert len(door.store.events(EventQuery())) == 1
    assert len(door.store.audit(limit=9)) == 3


def test_a_dry_run_shows_what_would_hold_and_writes_nothing(
    door: FrontDoor, admin: TestClient
) -> None:
    before = door.store.sequence()
    shown = change(admin, {"waitMax": "3h"}, dryRun="All")
    assert next(each for each in shown["items"] if each["name"] == "waitMax")["value"] == "3h"
    assert door.store.sequence() == before


def test_every_mistake_is_told_at_once_with_its_place_and_the_nearest_name(
    door: FrontDoor, admin: TestClient
) -> None:
    wrong = {
        "waitMaks": "3h",
        "clock": "sometimes",
        "timerQuantile": 1,
        "evictionsPerHour": -1,
        "policy": "daly",
        "fixedTimer": "soon",
    }
    problem = a_problem(admin.patch(POLICY, json={"knobs": wrong}), 422, "InvalidSpec")
    found = {entry.pointer: (entry.reason, entry.detail) for entry in problem.errors}
    assert set(found) == {f"/knobs/{name}" for name in wrong}
    assert found["/knobs/waitMaks"] == (
        "UnknownField",
        'there is no such knob; did you mean "waitMax"?',
    )
    assert found["/knobs/clock"] == ("InvalidValue", "must be one of idle, declined, pending")
    assert found["/knobs/timerQuantile"][1] == "must be more than 0, less than 1"
    assert found["/knobs/policy"] == (
        "UnknownValue",
        "there is no policy 'daly'; did you mean \"dally\"?",
    )
    assert door.store.knobs() == PolicyKnobs()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        pytest.param({"knobs": []}, "/knobs", id="a list"),
        pytest.param({"knob": {}}, "/knob", id="an unknown field"),
        pytest.param({"knobs": {}, "reason": 3}, "/reason", id="a number as reason"),
        pytest.param({"knobs": {f"k{n}": 1 for n in range(65)}}, "/knobs", id="too many"),
        pytest.param({"knobs": {"clock": {"a": 1}}}, "/knobs/clock", id="an object as value"),
    ],
)
def test_a_body_of_another_shape_is_refused(
    admin: TestClient, body: dict[str, object], pointer: str
) -> None:
    problem = a_problem(admin.patch(POLICY, json=body), 422, "InvalidSpec")
    assert pointer in {entry.pointer for entry in problem.errors}


def test_a_knob_of_the_whole_cluster_is_not_one_of_a_queue(admin: TestClient) -> None:
    answer = admin.patch(POLICY, json={"knobs": {"order": "las"}}, params={"queue": "default"})
    (entry,) = a_problem(answer, 422, "InvalidSpec").errors
    assert entry.detail == "is one for the whole cluster; no queue has its own"


def test_a_queue_that_does_not_exist_has_no_policy(admin: TestClient) -> None:
    a_problem(admin.get(POLICY, params={"queue": "none"}), 404, "NotFound")
    a_problem(admin.patch(POLICY, json={}, params={"queue": "none"}), 404, "NotFound")


def test_who_is_no_admin_changes_nothing(door: FrontDoor, member: TestClient) -> None:
    a_problem(member.patch(POLICY, json={"knobs": {"waitMax": "3h"}}), 403, "Forbidden")
    assert door.store.knobs() == PolicyKnobs()
