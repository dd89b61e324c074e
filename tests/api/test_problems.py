"""Whatever goes wrong is a problem body with a reason that is explained."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from api import errors
from api.dependencies import ReadinessCheck
from api.entry_reasons import ENTRY_REASONS
from api.reasons import REASONS
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain import errors as domain
from scheduler.domain.errors import ClusterUnavailableError, SchedulerError, StoreUnavailableError
from scheduler.domain.ids import JobName, ProjectName
from scheduler.domain.job import Job
from tests.api.front_door import JOBS, FrontDoor, a_problem
from tests.source_tree import ROOT

OF_PROBLEMS = (
    r"RequestError\(\s*",
    r"(?:problem_of|problem_response)\([\w.]+, ",
    r"MalformedError\(\s*",
    r"not_understood\(\s*",
)
OF_ENTRIES = (r"(?<!Event\()reason=", r"PydanticCustomError\(\s*")


def _leaves(kind: type[SchedulerError]) -> Iterator[type[SchedulerError]]:
    subclasses = kind.__subclasses__()
    if not subclasses and inspect.getmodule(kind) is domain:
        yield kind
    for subclass in subclasses:
        yield from _leaves(subclass)


def test_every_leaf_of_the_error_tree_has_a_reason() -> None:
    assert set(errors.REASON_BY_ERROR) == set(_leaves(SchedulerError))
    assert set(errors.REASON_BY_ERROR.values()) <= set(REASONS)


def _named(calls: tuple[str, ...]) -> set[str]:
    """Reasons that the source of the API names in such calls."""
    text = "\n".join(file.read_text() for file in (ROOT / "api").rglob("*.py"))
    return {name for call in calls for name in re.findall(call + r'"(\w+)"', text)}


def test_every_reason_the_code_names_is_explained() -> None:
    assert _named(OF_PROBLEMS) <= set(REASONS)
    assert _named(OF_ENTRIES) <= set(ENTRY_REASONS)


def test_every_explained_reason_is_given_somewhere() -> None:
    not_by_a_call = {"MalformedRequest", "NoSuchRoute", "MethodNotAllowed", "InternalError"}
    given = _named(OF_PROBLEMS) | set(errors.REASON_BY_ERROR.values()) | not_by_a_call

    assert set(REASONS) - given == set()


@pytest.mark.parametrize("reason", [*REASONS, *ENTRY_REASONS])
def test_a_problems_type_leads_to_its_explanation(reason: str) -> None:
    with FrontDoor().client(None) as nobody:
        told = nobody.get(f"/errors/{reason}")

    assert told.status_code == 200
    assert told.json()["reason"] == reason
    assert told.json()["remedy"]


def test_an_unknown_reason_is_not_explained(admin: TestClient) -> None:
    problem = a_problem(admin.get("/errors/NotFond"), 404, "NotFound")

    assert "NotFound" in problem.detail


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        pytest.param("GET", "/nothing", 404, "NoSuchRoute", id="no such path"),
        pytest.param("GET", "/api/v1/", 404, "NoSuchRoute", id="root of the API"),
        pytest.param("GET", f"{JOBS}/", 404, "NoSuchRoute", id="a slash too many"),
        pytest.param("PATCH", f"{JOBS}/train", 405, "MethodNotAllowed", id="method"),
        pytest.param("DELETE", JOBS, 405, "MethodNotAllowed", id="delete all"),
        pytest.param("GET", f"{JOBS}?lables=a", 400, "InvalidParameter", id="unknown parameter"),
        pytest.param("GET", f"{JOBS}?limit=1&limit=2", 400, "InvalidParameter", id="twice"),
        pytest.param("GET", f"{JOBS}?limit=x", 400, "InvalidParameter", id="limit of letters"),
        pytest.param("GET", f"{JOBS}?limit=-1", 400, "InvalidParameter", id="negative limit"),
        pytest.param("GET", f"{JOBS}/{'x' * 100}", 400, "InvalidParameter", id="long name"),
        pytest.param("GET", f"{JOBS}/train", 404, "NotFound", id="no such job"),
        pytest.param("GET", f"{JOBS}?watch=1", 406, "NotAcceptable", id="watch as JSON"),
    ],
)
def test_a_request_that_leads_nowhere_gets_a_problem(
    admin: TestClient, method: str, path: str, status: int, reason: str
) -> None:
    response = admin.request(method, path, headers={"Accept": "application/json"})

    a_problem(response, status, reason)


def test_a_405_lists_what_is_allowed(admin: TestClient) -> None:
    response = admin.patch(f"{JOBS}/train")

    assert set(response.headers["Allow"].split(", ")) == {"DELETE", "GET", "PUT"}


class BrokenStore(MemoryStore):
    """A store that fails as told when a job is read."""

    failure: Exception = StoreUnavailableError("disk full at the secret place")

    def job(self, project: ProjectName, name: JobName) -> Job:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "status", "reason"),
    [
        pytest.param(BrokenStore.failure, 503, "StoreUnavailable", id="database"),
        pytest.param(ClusterUnavailableError("no answer"), 503, "ClusterUnavailable", id="cluster"),
        pytest.param(ValueError("secret detail"), 500, "InternalError", id="a bug"),
    ],
)
def test_our_own_failures_tell_nothing_but_how_to_go_on(
    failure: Exception, status: int, reason: str
) -> None:
    door = FrontDoor()
    broken = BrokenStore()
    broken.failure = failure
    door.deps = replace(door.deps, store=broken)
    with door.client(door.admin_token) as admin:
        response = admin.get(f"{JOBS}/train")

    a_problem(response, status, reason)
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    assert ("Retry-After" in response.headers) == (status == 503)


def _is_well() -> None:
    """A check that finds nothing wrong."""


def test_readiness_names_what_fails_and_liveness_never_asks() -> None:
    door = FrontDoor()

    def fail() -> None:
        raise StoreUnavailableError("no database")

    checks = (ReadinessCheck(name="store", check=fail), ReadinessCheck(name="loop", check=_is_well))
    door.deps = replace(door.deps, readiness=checks)
    with door.client(None) as nobody:
        problem = a_problem(nobody.get("/readyz"), 503, "NotReady")
        assert problem.detail == "failing: store"
        assert nobody.get("/livez").json() == {"status": "ok", "checks": {}}


def test_readiness_shows_its_checks_when_asked(door: FrontDoor) -> None:
    door.deps = replace(door.deps, readiness=(ReadinessCheck(name="loop", check=_is_well),))
    with door.client(None) as nobody:
        assert nobody.get("/readyz").json() == {"status": "ok", "checks": {}}
        assert nobody.get("/readyz?verbose").json()["checks"] == {
            "loop": "ok",
            "safeMode": "off",
        }
        assert nobody.get("/version").json() == {"version": "0.1.0", "apiVersion": "v1"}


def test_what_is_not_vital_is_shown_and_keeps_nobody_out(door: FrontDoor) -> None:
    def fail() -> None:
        raise ClusterUnavailableError("no API server")

    checks = (ReadinessCheck(name="cluster", check=fail, is_vital=False),)
    door.deps = replace(door.deps, readiness=checks)
    with door.client(None) as nobody:
        answer = nobody.get("/readyz?verbose")
        assert (answer.status_code, answer.json()["checks"]) == (
            200,
            {"cluster": "degraded", "safeMode": "off"},
        )


def test_a_file_with_several_mistakes_gets_them_all_with_lines(admin: TestClient) -> None:
    text = "metadata: {name: Train}\nspec:\n  comand: [x]\n  gpusPerWorker: -1\n  command: [x]\n"

    response = admin.post(JOBS, content=text, headers={"Content-Type": "application/yaml"})

    problem = a_problem(response, 422, "InvalidSpec")
    assert [(entry.pointer, entry.line) for entry in problem.errors] == [
        ("/metadata/name", 1),
        ("/spec/gpusPerWorker", 4),
        ("/spec/comand", 3),
    ]


def test_an_answer_is_not_kept_or_sniffed(admin: TestClient) -> None:
    headers = admin.get(JOBS).headers

    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_metrics_get_the_template_of_a_path_and_never_a_name(door: FrontDoor) -> None:
    seen: list[tuple[str, str, int]] = []

    def observe(*, route: str, method: str, status: int, seconds: float) -> None:
        assert seconds == 0.0
        seen.append((route, method, status))

    door.deps = replace(door.deps, observe_request=observe)
    with door.client(door.admin_token) as admin:
        admin.get(f"{JOBS}/train")
        admin.get("/nothing/of/that/kind")
        admin.get(JOBS, headers={"Authorization": ""})

    assert seen == [
        ("/api/v1/projects/{project}/jobs/{name}", "GET", 404),
        ("unmatched", "GET", 404),
        ("unmatched", "GET", 401),
    ]
