"""The tuner's timers over HTTP."""

from starlette.testclient import TestClient

from scheduler.domain.ids import JobId, LevelName
from scheduler.domain.instants import MINUTE, Duration, Instant
from scheduler.domain.waits import WaitObservation
from scheduler.ports.unit import ChangeKnobs, RecordWaits, SaveNodes, Unit
from tests.api.front_door import JOBS, FrontDoor, a_file, a_problem
from tests.builders import a_cluster

TIMERS = "/api/v1/timers"


def teach(door: FrontDoor, count: int) -> None:
    """So many jobs of eight GPUs waited five minutes for a rack."""
    waits = tuple(
        WaitObservation(
            job_id=JobId(f"w{n}"),
            demand=8,
            level=LevelName("rack"),
            wait=Duration(5 * MINUTE),
            is_censored=False,
            at=Instant(door.clock.now() - n),
        )
        for n in range(count)
    )
    changes = (RecordWaits(waits=waits), ChangeKnobs(changed={"policy": '"dally"'}))
    door.store.write(Unit(changes=changes))


def test_what_was_learned_is_shown_with_its_counts(door: FrontDoor, member: TestClient) -> None:
    teach(door, 25)
    assert member.get(TIMERS).json() == {
        "apiVersion": "dally/v1",
        "kind": "TimerList",
        "policy": "dally",
        "inUse": True,
        "items": [
            {
                "name": "8-rack",
                "demand": 8,
                "level": "rack",
                "timer": "5m",
                "source": "learned",
                "learnedFrom": 8,
                "accepted": 25,
                "censored": 0,
                "updateTime": "2027-01-15T08:00:00Z",
            }
        ],
    }


def test_demands_of_live_jobs_are_shown_before_anything_is_known(
    door: FrontDoor, admin: TestClient
) -> None:
    cluster = a_cluster("r1: 8 8")
    nodes = SaveNodes(levels=cluster.levels, nodes=cluster.nodes, at=Instant(1))
    door.store.write(Unit(changes=(nodes,)))
    admin.post(JOBS, json=a_file(workers=2))
    shown = admin.get(TIMERS).json()
    assert [item["name"] for item in shown["items"]] == ["16-rack"]
    assert shown["items"][0]["source"] == "value-of-waiting"
    assert "timer" not in shown["items"][0]
    assert shown["inUse"] is (shown["policy"] == "dally")


def test_a_queue_with_its_own_knobs_has_its_own_timers(door: FrontDoor, admin: TestClient) -> None:
    door.project("vision", "batch")
    teach(door, 25)
    admin.patch("/api/v1/policy", json={"knobs": {"waitMax": "1m"}}, params={"queue": "batch"})
    own = admin.get(TIMERS, params={"queue": "batch"}).json()
    assert (own["queue"], own["items"][0]["timer"]) == ("batch", "1m")
    assert admin.get(TIMERS).json()["items"][0]["timer"] == "5m"
    a_problem(admin.get(TIMERS, params={"queue": "none"}), 404, "NotFound")
