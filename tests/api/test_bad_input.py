"""Hostile and broken requests: each gets its problem, and nothing is stored.

The tables of broken job files and of bodies that can not be read stand beside the units that
refuse them; here all of them come in by the front door.
"""

from collections.abc import Iterator

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.ports.job_store import EventQuery, JobQuery
from scheduler.ports.unit import SaveNodes, Unit
from tests.api.front_door import A_MOMENT, JOBS, FrontDoor, a_file, a_problem
from tests.builders import a_cluster
from tests.unit.api.documents.test_reading import MALFORMED
from tests.unit.api.job_files.reading import a_document
from tests.unit.api.job_files.test_rules import BROKEN, NAMES_REFUSED, Spec

JSON = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/yaml"}
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(scope="module")
def client(store: MemoryStore) -> Iterator[TestClient]:
    door = FrontDoor(store)
    door.project("default", "default", "team-a")
    door.project("other", "team-b")
    cluster = a_cluster("r1: 8 8")
    save = SaveNodes(levels=cluster.levels, nodes=cluster.nodes, at=A_MOMENT)
    store.write(Unit(changes=(save,)))
    with door.client(door.admin_token) as client:
        yield client


@pytest.fixture(autouse=True)
def _nothing_is_stored(store: MemoryStore) -> Iterator[None]:
    yield
    assert store.jobs(JobQuery()).jobs == ()
    assert store.events(EventQuery()) == ()
    assert store.reply(principal="t-root", route=f"POST {JOBS}", key="k") is None


def post(client: TestClient, body: bytes, **headers: str) -> Response:
    """Submit a body."""
    return client.post(JOBS, content=body, headers={"Idempotency-Key": "k", **headers})


@pytest.mark.parametrize(("spec", "pointer", "reason"), BROKEN)
def test_a_broken_job_file(client: TestClient, spec: Spec, pointer: str, reason: str) -> None:
    response = client.post(JOBS, json=a_document(spec).value, headers={"Idempotency-Key": "k"})

    problem = a_problem(response, 422, "InvalidSpec")
    assert [(entry.pointer, entry.reason) for entry in problem.errors] == [(pointer, reason)]


@pytest.mark.parametrize("name", NAMES_REFUSED)
def test_a_name_that_is_none(client: TestClient, name: str) -> None:
    a_problem(client.post(JOBS, json=a_file(name)), 422, "InvalidSpec")


@pytest.mark.parametrize(("is_yaml", "body", "reason"), MALFORMED)
def test_a_body_that_can_not_be_read(
    client: TestClient,
    is_yaml: bool,  # noqa: FBT001 - a column of the table
    body: bytes,
    reason: str,
) -> None:
    response = post(client, body, **(YAML if is_yaml else JSON))

    a_problem(response, 400, reason)


@pytest.mark.parametrize(
    ("body", "headers", "status", "reason"),
    [
        pytest.param(b" " * (MIB + 1), JSON, 413, "BodyTooLarge", id="a byte too many"),
        pytest.param(b"[" * (10 * MIB), JSON, 413, "BodyTooLarge", id="10 MB of brackets"),
        pytest.param(b"a: b\n" * (2 * MIB), YAML, 413, "BodyTooLarge", id="10 MB of YAML"),
        pytest.param(b" " * MIB, JSON, 400, "MalformedBody", id="1 MiB of blanks"),
        pytest.param(b"{}", {"Content-Type": "text/html"}, 415, "UnsupportedMediaType", id="HTML"),
        pytest.param(b"{}", {"Content-Type": "json"}, 415, "UnsupportedMediaType", id="no type"),
        pytest.param(b"{}", {"Content-Type": ""}, 415, "UnsupportedMediaType", id="empty type"),
        pytest.param(
            b"{}",
            {"Content-Type": "application/json; charset=utf-16"},
            415,
            "UnsupportedMediaType",
            id="another charset",
        ),
        pytest.param(
            b"{}",
            {**JSON, "Content-Encoding": "gzip"},
            415,
            "UnsupportedMediaType",
            id="compressed",
        ),
        pytest.param(
            b"a=1",
            {"Content-Type": "application/x-www-form-urlencoded"},
            415,
            "UnsupportedMediaType",
            id="a form",
        ),
        pytest.param(
            b"--x\r\n\r\n--x--",
            {"Content-Type": "multipart/form-data; boundary=x"},
            415,
            "UnsupportedMediaType",
            id="an upload",
        ),
        pytest.param(b"{}", {**JSON, "Idempotency-Key": "a b"}, 400, "InvalidParameter", id="key"),
        pytest.param(
            b"{}", {**JSON, "Idempotency-Key": "x" * 999}, 400, "InvalidParameter", id="long key"
        ),
        pytest.param(b"{}", JSON, 422, "InvalidSpec", id="nothing at all"),
        pytest.param(b"null", JSON, 422, "InvalidSpec", id="null"),
        pytest.param(b'"Job"', JSON, 422, "InvalidSpec", id="a word"),
        pytest.param(b"[]", JSON, 422, "InvalidSpec", id="a list"),
        pytest.param(b"kind: Job", YAML, 422, "InvalidSpec", id="YAML with a kind alone"),
        pytest.param(
            b'{"\\u0000": 1, "metadata": {"name": "a"}}',
            JSON,
            422,
            "InvalidSpec",
            id="NUL in a key",
        ),
        pytest.param(
            b'{"metadata": {"name": "\\ud800"}}', JSON, 422, "InvalidSpec", id="half a surrogate"
        ),
    ],
)
def test_a_request_that_can_not_be_a_job(
    client: TestClient, body: bytes, headers: dict[str, str], status: int, reason: str
) -> None:
    a_problem(post(client, body, **headers), status, reason)


def test_a_body_whose_length_is_not_told_is_cut_off_at_the_limit(client: TestClient) -> None:
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 64 * 1024
            yield b" " * (64 * 1024)

    response = client.post(JOBS, content=chunks(), headers=JSON)

    a_problem(response, 413, "BodyTooLarge")
    assert response.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        pytest.param("limit=0", "InvalidParameter", id="limit 0"),
        pytest.param("limit=1.5", "InvalidParameter", id="limit with a fraction"),
        pytest.param("limit=9999999999999999999999", "InvalidParameter", id="huge limit"),
        pytest.param("limit=%00", "InvalidParameter", id="NUL as limit"),
        pytest.param("continue=x", "InvalidContinue", id="continue of one letter"),
        pytest.param("continue=" + "A" * 600, "InvalidContinue", id="long continue"),
        pytest.param("continue=" + "A" * 5000, "InvalidParameter", id="huge continue"),
        pytest.param("continue=%ff%fe", "InvalidContinue", id="continue of bytes"),
        pytest.param("continue=ä", "InvalidContinue", id="continue with an umlaut"),
        pytest.param("continue=bm90IHNpZ25lZA", "InvalidContinue", id="continue without signature"),
        pytest.param("labelSelector=a", "InvalidSelector", id="label without value"),
        pytest.param("labelSelector=a!=b", "InvalidSelector", id="unequal"),
        pytest.param("labelSelector=a in (b)", "InvalidSelector", id="in"),
        pytest.param("labelSelector=,", "InvalidSelector", id="a comma"),
        pytest.param("labelSelector=a=b,", "InvalidSelector", id="a comma at the end"),
        pytest.param("labelSelector=a='b'", "InvalidSelector", id="quotes"),
        pytest.param("labelSelector=a=b;drop table jobs", "InvalidSelector", id="SQL"),
        pytest.param("labelSelector=" + "a=b," * 400, "InvalidParameter", id="long selector"),
        pytest.param("labelSelector=%00=%00", "InvalidSelector", id="NUL in a selector"),
        pytest.param("fieldSelector=spec.image=a", "InvalidSelector", id="a field not offered"),
        pytest.param("fieldSelector=status.phase=Done", "InvalidSelector", id="no such phase"),
        pytest.param(
            "fieldSelector=status.phase=Held,status.phase=Failed",
            "InvalidSelector",
            id="two values of a field",
        ),
        pytest.param("fieldSelector=spec.queue=nope", "InvalidSelector", id="no such queue field"),
        pytest.param("queue=defualt", "InvalidSelector", id="no such queue"),
        pytest.param("queue=%00", "InvalidSelector", id="NUL as queue"),
        pytest.param("order=down", "InvalidParameter", id="no such order"),
        pytest.param("phase=pending", "InvalidSelector", id="case of a phase"),
        pytest.param("phase=Pending,", "InvalidSelector", id="phase and comma"),
        pytest.param("phase=Held&fieldSelector=status.phase=Failed", "InvalidSelector", id="both"),
        pytest.param("queue=a&fieldSelector=spec.queue=b", "InvalidSelector", id="two queues"),
        pytest.param("watch=maybe", "InvalidParameter", id="maybe watch"),
        pytest.param("dryRun=All", "InvalidParameter", id="a parameter of another route"),
        pytest.param("sort=name", "InvalidParameter", id="an unknown parameter"),
    ],
)
def test_a_list_that_can_not_be_meant(client: TestClient, query: str, reason: str) -> None:
    for path in (JOBS, "/api/v1/jobs"):
        a_problem(client.get(f"{path}?{query}"), 400, reason)


def test_a_continue_token_works_for_its_own_list_alone(door: FrontDoor) -> None:
    with door.client(door.admin_token) as admin:
        for name in ("a", "b", "c"):
            admin.post(JOBS, json=a_file(name))
        token = admin.get(JOBS, params={"limit": 1}).json()["metadata"]["continue"]

        other = admin.get(JOBS, params={"limit": 1, "continue": token, "queue": "default"})
        a_problem(other, 400, "InvalidContinue")
        a_problem(admin.get(JOBS, params={"continue": token[:-2] + "AA"}), 400, "InvalidContinue")
        rest = admin.get(JOBS, params={"continue": token}).json()["items"]
    assert [job["metadata"]["name"] for job in rest] == ["b", "c"]


@pytest.mark.parametrize(
    ("request_line", "body", "status", "reason"),
    [
        pytest.param(f"POST {JOBS}?dryRun=some", a_file(), 400, "InvalidParameter", id="dryRun"),
        pytest.param("POST /api/v1/projects/x/jobs", a_file(), 404, "NotFound", id="project"),
        pytest.param(
            f"POST /api/v1/projects/{'x' * 99}/jobs",
            a_file(),
            400,
            "InvalidParameter",
            id="long",
        ),
        pytest.param(f"GET {JOBS}/..%2f..%2fsecret", None, 404, "NoSuchRoute", id="path up"),
        pytest.param(f"GET {JOBS}/%00", None, 404, "NotFound", id="NUL in the path"),
        pytest.param(f"GET {JOBS}/%ff%fe", None, 404, "NotFound", id="bytes in the path"),
        pytest.param(f"GET {JOBS}/%1b[31m", None, 404, "NotFound", id="escape in the path"),
        pytest.param(f"POST {JOBS}/none/cancel", {}, 404, "NotFound", id="cancel nothing"),
        pytest.param(f"DELETE {JOBS}/none", None, 404, "NotFound", id="delete nothing"),
        pytest.param(f"PUT {JOBS}/a", a_file("b"), 422, "InvalidSpec", id="two names"),
        pytest.param(f"PUT {JOBS}/a", None, 400, "MalformedBody", id="apply nothing"),
        pytest.param("POST /api/v1/tokens", [], 422, "InvalidSpec", id="token of a list"),
        pytest.param("DELETE /api/v1/tokens/none", None, 404, "NotFound", id="no token"),
        pytest.param("GET /api/v1/audit?limit=0", None, 400, "InvalidParameter", id="audit"),
    ],
)
def test_a_request_to_the_wrong_place(
    client: TestClient, request_line: str, body: object, status: int, reason: str
) -> None:
    method, path = request_line.split(" ", 1)

    a_problem(client.request(method, path, json=body), status, reason)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param((b"X-Forwarded-For", b"127.0.0.1"), id="a forwarded address"),
        pytest.param((b"X-HTTP-Method-Override", b"DELETE"), id="another method"),
        pytest.param((b"X-Request-Id", b"a\x1b[31m"), id="a request id of its own"),
        pytest.param((b"Host", b"evil.example"), id="another host"),
    ],
)
def test_headers_that_hope_to_be_believed_are_not(
    client: TestClient, header: tuple[bytes, bytes]
) -> None:
    response = client.get(f"{JOBS}/none", headers=[header])

    problem = a_problem(response, 404, "NotFound")
    assert problem.request_id.isalnum()


def test_a_body_of_verbs_is_checked_like_any_other(door: FrontDoor) -> None:
    with door.client(door.admin_token) as admin:
        admin.post(JOBS, json=a_file())
        for body, reason in (
            ({"now": "yes"}, "InvalidSpec"),
            ({"later": True}, "InvalidSpec"),
            ({"reason": "\x1b[31m"}, "InvalidSpec"),
            ({"reason": "x" * 2000}, "InvalidSpec"),
        ):
            a_problem(admin.post(f"{JOBS}/train/cancel", json=body), 422, reason)
        yaml = admin.post(f"{JOBS}/train/cancel", content=b"now: true", headers=YAML)
        a_problem(yaml, 415, "UnsupportedMediaType")
        assert admin.get(f"{JOBS}/train").json()["status"]["phase"] == "Pending"
