"""Model profiles by the front door: built-in ones, a project's own, and those from jobs."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduler.domain.instants import SECOND, after
from scheduler.domain.job import JobPhase
from scheduler.ports.unit import SaveJob, Unit
from tests.api.front_door import FrontDoor, a_file, a_problem
from tests.api.test_views import observe, run, submitted

PROFILES = "/api/v1/projects/default/profiles"
TIMING = {"gpuModel": "H100-80GB", "batchPerGpu": 32, "stepSeconds": 0.25, "precision": "bf16"}
NUMBERS = {"family": "vision", "parameters": 25_000_000, "precision": "bf16", "timings": [TIMING]}


def a_profile_file(
    name: str = "our-net", spec: Mapping[str, object] = NUMBERS
) -> dict[str, object]:
    """A profile file."""
    return {
        "apiVersion": "dally/v1",
        "kind": "Profile",
        "metadata": {"name": name},
        "spec": dict(spec),
    }


def test_known_models_are_listed_and_shown() -> None:
    door = FrontDoor()
    with door.client(door.member_token) as client:
        for path in ("/api/v1/profiles", PROFILES):
            names = [item["name"] for item in client.get(path).json()["items"]]
            assert len(names) >= 30
            assert names == sorted(names)
            shown = client.get(f"{path}/bert-large").json()
            assert (shown["parameters"], shown["isBuiltIn"]) == (336_226_108, True)
            assert shown["timings"]
            a_problem(client.get(f"{path}/nothing"), 404, "NotFound")


def test_a_project_adds_changes_and_removes_a_profile() -> None:
    door = FrontDoor()
    with door.client(door.member_token) as client:
        made = client.put(f"{PROFILES}/our-net", json=a_profile_file())
        assert made.status_code == 201, made.text
        shown = client.get(f"{PROFILES}/our-net").json()
        assert shown == made.json()
        assert shown["gradientBytes"] == 50_000_000
        assert shown["timings"] == [{**TIMING, "gpuModel": "H100", "sequenceTokens": 0}]
        assert (shown["isBuiltIn"], shown["source"]) == (False, "given by a user")
        assert "our-net" in [item["name"] for item in client.get(PROFILES).json()["items"]]
        a_problem(client.get("/api/v1/profiles/our-net"), 404, "NotFound")

        changed = a_profile_file(spec={**NUMBERS, "parameters": 7})
        assert client.put(f"{PROFILES}/our-net", json=changed).status_code == 200
        assert client.get(f"{PROFILES}/our-net").json()["parameters"] == 7
        assert client.delete(f"{PROFILES}/our-net").status_code == 204
        a_problem(client.get(f"{PROFILES}/our-net"), 404, "NotFound")
        a_problem(client.delete(f"{PROFILES}/our-net"), 404, "NotFound")
    verbs = [(row.verb, row.target) for row in reversed(door.store.audit(limit=9))]
    assert verbs[:3] == [
        ("apply", "default/profiles/our-net"),
        ("apply", "default/profiles/our-net"),
        ("delete", "default/profiles/our-net"),
    ]


def test_an_own_profile_hides_the_built_in_one_until_it_is_removed() -> None:
    door = FrontDoor()
    with door.client(door.member_token) as client:
        client.put(f"{PROFILES}/bert-large", json=a_profile_file("bert-large"))
        assert client.get(f"{PROFILES}/bert-large").json()["parameters"] == 25_000_000
        client.delete(f"{PROFILES}/bert-large")
        assert client.get(f"{PROFILES}/bert-large").json()["isBuiltIn"] is True


def test_a_profile_belongs_to_its_project_alone() -> None:
    door = FrontDoor()
    door.project("other", "default")
    eve = door.token("eve", projects=["other"])
    with door.client(door.member_token) as client:
        client.put(f"{PROFILES}/our-net", json=a_profile_file())
    with door.client(eve) as client:
        theirs = "/api/v1/projects/other/profiles"
        a_problem(client.get(f"{theirs}/our-net"), 404, "NotFound")
        a_problem(client.put(f"{PROFILES}/our-net", json=a_profile_file()), 404, "NotFound")
        a_problem(client.delete(f"{PROFILES}/our-net"), 404, "NotFound")


def test_a_dry_run_stores_nothing() -> None:
    door = FrontDoor()
    with door.client(door.member_token) as client:
        answer = client.put(f"{PROFILES}/our-net?dryRun=All", json=a_profile_file())
        assert (answer.status_code, answer.json()["parameters"]) == (200, 25_000_000)
        a_problem(client.get(f"{PROFILES}/our-net"), 404, "NotFound")


@pytest.mark.parametrize(
    ("spec", "entries"),
    [
        pytest.param(
            {"family": "vision"},
            [("/spec/parameters", "MissingField"), ("/spec/timings", "MissingField")],
            id="no numbers",
        ),
        pytest.param(
            {**NUMBERS, "timings": [{**TIMING, "stepSeconds": 0}]},
            [("/spec/timings/0/stepSeconds", "OutOfRange")],
            id="no time",
        ),
        pytest.param(
            {**NUMBERS, "famly": "vision"}, [("/spec/famly", "UnknownField")], id="a typo"
        ),
        pytest.param(
            {**NUMBERS, "family": "visoin"}, [("/spec/family", "UnknownValue")], id="a family"
        ),
        pytest.param(
            {"fromJob": "nobody"}, [("/spec/fromJob", "InvalidValue")], id="a job that is not there"
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_by_pointer(
    spec: dict[str, object], entries: list[tuple[str, str]]
) -> None:
    door = FrontDoor()
    with door.client(door.member_token) as client:
        answer = client.put(f"{PROFILES}/our-net", json=a_profile_file(spec=spec))
    problem = a_problem(answer, 422, "InvalidSpec")
    assert [(entry.pointer, entry.reason) for entry in problem.errors] == entries


def test_name_and_project_are_those_of_the_path() -> None:
    door = FrontDoor()
    file = a_profile_file("else")
    file["metadata"] = {"name": "else", "project": "other"}
    with door.client(door.member_token) as client:
        problem = a_problem(client.put(f"{PROFILES}/our-net", json=file), 422, "InvalidSpec")
    assert [entry.pointer for entry in problem.errors] == ["/metadata/name", "/metadata/project"]


def test_a_job_takes_the_profile_as_it_was_at_submission() -> None:
    door = FrontDoor()
    observe(door)
    with door.client(door.member_token) as client:
        client.put(f"{PROFILES}/our-net", json=a_profile_file())
        submitted(door, "train", workers=2, communication={"model": "Our Net"})
        client.delete(f"{PROFILES}/our-net")
        body = client.get("/api/v1/projects/default/jobs/train/sensitivity").json()
        shown = client.get("/api/v1/projects/default/jobs/train").json()
    assert body["items"][0]["source"] == "profile"
    assert body["items"][0]["gradientBytes"] == 50_000_000
    assert shown["spec"]["communication"]["model"] == "Our Net"


def test_an_estimate_knows_the_projects_own_profiles() -> None:
    door = FrontDoor()
    observe(door)
    file = a_file(workers=2, communication={"model": "our-net"})
    with door.client(door.member_token) as client:
        unknown = client.post("/api/v1/projects/default/estimate", json=file)
        entry = a_problem(unknown, 422, "InvalidSpec").errors[0]
        assert (entry.pointer, entry.reason) == ("/spec/communication/model", "UnknownModel")
        client.put(f"{PROFILES}/our-net", json=a_profile_file())
        known = client.post("/api/v1/projects/default/estimate", json=file).json()
    assert known["items"][0]["gradientBytes"] == 50_000_000


def trained(door: FrontDoor, *, step_s: float, phase: JobPhase = JobPhase.SUCCEEDED) -> None:
    """A job that has reported steps of that length and has come to that phase."""
    observe(door)
    declared = {"gradientBytes": 40_000_000, "computeSeconds": 0.1, "batchPerGpu": 16}
    job = submitted(door, "train-7", workers=2, communication=declared)
    key = run(door, job, {"r1-n0": 1, "r1-n1": 1})
    with door.client(door.attempt_tokens.sign(key)) as worker:
        for step in range(1, 20):
            door.clock.advance_to(after(door.clock.now(), SECOND))
            report = {"step": step, "stepSeconds": step_s}
            assert worker.post("/api/v1/attempts/progress", json=report).status_code == 204
    stored = door.store.job_by_id(job.id)
    ended = SaveJob(job=replace(stored, phase=phase), expected_revision=stored.revision)
    door.store.write(Unit(changes=(ended,)))


def test_a_profile_is_made_from_a_job_that_has_ended() -> None:
    door = FrontDoor()
    trained(door, step_s=3.0)
    with door.client(door.member_token) as client:
        file = a_profile_file(spec={"fromJob": "train-7", "family": "vision"})
        made = client.put(f"{PROFILES}/our-net", json=file).json()
        assert (made["parameters"], made["family"]) == (10_000_000, "vision")
        assert made["source"] == "steps of job train-7"
        (timing,) = made["timings"]
        assert timing["batchPerGpu"] == 16
        communication = {"model": "our-net", "batchPerGpu": 16}
        estimate = client.post(
            "/api/v1/projects/default/estimate",
            json=a_file(workers=2, communication=communication),
        ).json()
    rack = next(t for t in estimate["items"][0]["tiers"] if t["level"] == "rack")
    assert rack["predictedSeconds"] == pytest.approx(3.0)


def test_what_the_file_says_wins_over_the_job() -> None:
    door = FrontDoor()
    trained(door, step_s=3.0)
    with door.client(door.member_token) as client:
        file = a_profile_file(
            spec={"fromJob": "train-7", "parameters": 5, "source": "both", "timings": [TIMING]}
        )
        made = client.put(f"{PROFILES}/our-net", json=file).json()
    assert (made["parameters"], made["source"]) == (5, "both")
    assert made["timings"][0]["stepSeconds"] == 0.25


def test_a_job_that_runs_or_was_not_measured_makes_no_profile() -> None:
    door = FrontDoor()
    trained(door, step_s=3.0, phase=JobPhase.RUNNING)
    submitted(door, "idle", workers=2)
    stored = submitted(door, "over")
    over = SaveJob(job=replace(stored, phase=JobPhase.CANCELLED), expected_revision=stored.revision)
    door.store.write(Unit(changes=(over,)))
    with door.client(door.member_token) as client:
        said = [
            a_problem(
                client.put(f"{PROFILES}/our-net", json=a_profile_file(spec={"fromJob": name})),
                422,
                "InvalidSpec",
            )
            .errors[0]
            .detail
            for name in ("train-7", "idle", "over")
        ]
    assert said == [
        "the job has not ended, it is Running",
        "the job has not ended, it is Pending",
        "no step of the job was measured on GPUs that the cluster has",
    ]
