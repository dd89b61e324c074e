"""Step times per level by the front door: sensitivity and estimates."""

from dataclasses import replace

from scheduler.domain.ids import NodeName
from scheduler.domain.instants import SECOND, after
from scheduler.domain.links import FabricPlan
from scheduler.domain.topology import Uplink
from scheduler.ports.unit import SaveNodes, Unit
from tests.api.front_door import A_MOMENT, FrontDoor, a_file
from tests.api.test_views import observe, run, submitted
from tests.builders import a_cluster

COMMUNICATION = {"gradientBytes": 1_000_000_000, "computeSeconds": 0.1}


def test_a_job_shows_what_every_level_costs_it() -> None:
    door = FrontDoor()
    observe(door)
    submitted(door, "train", workers=2, communication=COMMUNICATION)
    with door.client(door.member_token) as client:
        body = client.get("/api/v1/projects/default/jobs/train/sensitivity").json()
    (item,) = body["items"]
    assert item["source"] == "declared"
    assert item["gradientBytes"] == 1_000_000_000
    levels = [tier["level"] for tier in item["tiers"]]
    assert levels[0] == "rack"
    assert all("measuredSeconds" not in tier for tier in item["tiers"])
    assert item["tiers"][0]["stepSlowdown"] == 1.0


def test_reported_steps_correct_the_prediction() -> None:
    door = FrontDoor()
    observe(door)
    job = submitted(door, "train", workers=2, communication=COMMUNICATION)
    nodes = [NodeName(node.name) for node in door.store.topology()[1]][:2]
    key = run(door, job, {str(node): 1 for node in nodes})
    with door.client(door.attempt_tokens.sign(key)) as worker:
        for step in range(1, 40):
            door.clock.advance_to(after(door.clock.now(), SECOND))
            report = {"step": step, "stepSeconds": 7.0}
            assert worker.post("/api/v1/attempts/progress", json=report).status_code == 204
    with door.client(door.member_token) as client:
        body = client.get("/api/v1/projects/default/jobs/train/sensitivity").json()
    rack = body["items"][0]["tiers"][0]
    assert abs(rack["measuredSeconds"] - 7.0) < 0.01
    assert rack["source"] == "measured"
    assert abs(rack["stepSeconds"] - 7.0) < 0.7
    assert rack["predictedSeconds"] != rack["stepSeconds"]


def test_an_estimate_knows_the_links_that_the_configuration_names() -> None:
    narrow = Uplink(oversubscription=8.0)
    cluster = a_cluster("r1: 8 8\nr2: 8 8")
    levels = tuple(replace(level, uplink=narrow) for level in cluster.levels)
    nodes = SaveNodes(levels=levels, nodes=cluster.nodes, at=A_MOMENT)
    plain, said = FrontDoor(), FrontDoor()
    observe(plain, cluster)
    said.deps = replace(said.deps, links=FabricPlan(preset="h100-ndr"))
    said.store.write(Unit(changes=(nodes,)))

    def widest_s(door: FrontDoor) -> float:
        file = a_file(workers=4, communication={**COMMUNICATION, "computeSeconds": 0.001})
        with door.client(door.member_token) as client:
            body = client.post("/api/v1/projects/default/estimate", json=file).json()
        return float(body["items"][0]["tiers"][-1]["stepSeconds"])

    # The usual network of GPUs that say nothing is slow; the named one is not, but for its uplinks.
    assert widest_s(said) < widest_s(plain) / 4
    through_narrow_uplinks = widest_s(said)
    said.store.write(Unit(changes=(replace(nodes, levels=cluster.levels),)))
    assert widest_s(said) < through_narrow_uplinks / 2


def test_an_estimate_stores_nothing() -> None:
    door = FrontDoor()
    observe(door)
    with door.client(door.member_token) as client:
        file = a_file(workers=2, communication={"model": "bert-large", "batchPerGpu": 8})
        answer = client.post("/api/v1/projects/default/estimate", json=file)
        assert answer.status_code == 200
        assert answer.json()["items"][0]["source"] == "profile"
        assert client.get("/api/v1/projects/default/jobs").json()["items"] == []


def test_an_estimate_needs_the_project() -> None:
    door = FrontDoor()
    observe(door)
    with door.client(door.token("eve", projects=["other"])) as client:
        answer = client.post("/api/v1/projects/default/estimate", json=a_file())
    assert answer.status_code in (403, 404)
