"""Nodes that admins close and open again over HTTP."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from api.times import render_instant
from scheduler.domain.ids import NodeName
from scheduler.ports.job_store import EventQuery
from scheduler.ports.unit import ChangeExclusion, SaveNodes, Unit
from tests.api.front_door import A_MOMENT, FrontDoor, a_problem
from tests.builders import a_cluster, an_exclusion

NODES = "/api/v1/nodes"


@pytest.fixture(autouse=True)
def two_nodes(door: FrontDoor) -> None:
    cluster = a_cluster("r1: 8 8")
    save = SaveNodes(levels=cluster.levels, nodes=cluster.nodes, at=A_MOMENT)
    door.store.write(Unit(changes=(save,)))


def order(client: TestClient, verb: str, reason: str = "") -> dict[str, Any]:
    """The node after an order."""
    answer = client.post(f"{NODES}/r1-n0/{verb}", json={"reason": reason} if reason else {})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def said(node: dict[str, Any]) -> tuple[bool, bool, str, str]:
    """What a node says of its cordon."""
    return (node["isCordoned"], node["isDraining"], node["cordonReason"], node["cordonedBy"])


def test_a_node_is_cordoned_drained_and_opened_again(
    door: FrontDoor, admin: TestClient, member: TestClient
) -> None:
    assert said(order(admin, "cordon", "firmware")) == (True, False, "firmware", "root")
    assert said(order(admin, "drain", "now")) == (True, True, "now", "root")
    shown = {node["name"]: node for node in member.get(NODES).json()["items"]}
    assert said(shown["r1-n0"]) == (True, True, "now", "root")
    assert said(shown["r1-n1"]) == (False, False, "", "")
    assert said(order(admin, "uncordon")) == (False, False, "", "")
    assert door.store.cordons() == ()
    assert door.wakes == 3


def test_every_order_is_told_and_audited(door: FrontDoor, admin: TestClient) -> None:
    for verb in ("cordon", "drain", "uncordon", "uncordon"):
        order(admin, verb, "firmware")
    told = [(event.reason, event.node, event.message) for event in door.store.events(EventQuery())]
    assert told == [
        ("NodeCordoned", "r1-n0", "root keeps new workers from node r1-n0: firmware"),
        (
            "NodeDraining",
            "r1-n0",
            "root drains node r1-n0: no new workers, and its gangs are stopped: firmware",
        ),
        ("NodeUncordoned", "r1-n0", "root lets workers come to node r1-n0 again: firmware"),
    ]
    rows = [(row.verb, row.target) for row in door.store.audit(limit=9)]
    assert rows.count(("uncordon", "nodes/r1-n0")) == 2


def test_a_node_that_is_left_alone_says_so_and_is_used_again_by_an_order(
    door: FrontDoor, admin: TestClient, member: TestClient
) -> None:
    exclusion = an_exclusion(reason="SuspectNode", since=A_MOMENT, until=A_MOMENT + 3_600_000_000)
    over = an_exclusion(since=1, until=2)
    for node, each in (("r1-n0", exclusion), ("r1-n1", over)):
        door.store.write(Unit(changes=(ChangeExclusion(node=NodeName(node), exclusion=each),)))
    first, second = member.get(NODES).json()["items"]
    assert (first["leftAloneReason"], first["leftAloneUntil"]) == (
        "SuspectNode",
        render_instant(exclusion.until),
    )
    assert (second["leftAloneReason"], second.get("leftAloneUntil")) == ("", None)
    assert order(admin, "uncordon", "new GPU")["leftAloneReason"] == ""
    stored = door.store.exclusions()[NodeName("r1-n0")]
    assert (stored.cleared_by, stored.cleared_at) == ("root", A_MOMENT)
    (event,) = door.store.events(EventQuery())
    assert event.message == "root lets workers come to node r1-n0 again: new GPU"


@pytest.mark.parametrize("verb", ["cordon", "drain", "uncordon"])
def test_only_admins_close_nodes(member: TestClient, verb: str) -> None:
    a_problem(member.post(f"{NODES}/r1-n0/{verb}", json={}), 403, "Forbidden")


@pytest.mark.parametrize("verb", ["cordon", "drain", "uncordon"])
def test_a_node_that_is_not_there_is_not_found(admin: TestClient, verb: str) -> None:
    a_problem(admin.post(f"{NODES}/nowhere/{verb}", json={}), 404, "NotFound")


def test_an_unknown_field_is_refused(admin: TestClient) -> None:
    a_problem(admin.post(f"{NODES}/r1-n0/drain", json={"reasons": "x"}), 422, "InvalidSpec")
