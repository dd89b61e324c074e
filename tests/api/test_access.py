"""Who may do what: every route is closed without a token, and projects do not see each other."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.callers import CACHED_FOR, TOKEN_PREFIX, secret_hash
from api.gate import ATTEMPT_PATHS, is_public
from scheduler.domain.instants import DAY, SECOND, Duration, after
from scheduler.ports.unit import SaveToken, Token, Unit
from tests.api.front_door import JOBS, FrontDoor, a_file, a_problem

PATHS = {
    "job": "none",
    "attempt": 0,
    "project": "default",
    "name": "train",
    "token_id": "t-ada",
    "reason": "NotFound",
    "node": "n0",
}


def every_route() -> Iterator[tuple[str, str]]:
    """Method and path of every route, from the description."""
    schema = create_app(FrontDoor().deps).openapi()
    assert isinstance(schema["paths"], dict)
    for path, operations in schema["paths"].items():
        assert isinstance(operations, dict)
        for method in operations:
            yield method.upper(), path.format(**PATHS)


ROUTES = sorted(every_route())
ADMIN_ONLY = {
    ("GET", "/api/v1/tokens"),
    ("POST", "/api/v1/tokens"),
    ("DELETE", "/api/v1/tokens/t-ada"),
    ("GET", "/api/v1/audit"),
    ("PATCH", "/api/v1/policy"),
    ("GET", "/api/v1/strays"),
    ("POST", "/api/v1/strays/none/0/adopt"),
    ("POST", "/api/v1/strays/none/0/release"),
    ("POST", "/api/v1/nodes/n0/cordon"),
    ("POST", "/api/v1/nodes/n0/drain"),
    ("POST", "/api/v1/nodes/n0/uncordon"),
}
PUBLIC = {"/livez", "/readyz", "/version", "/errors/NotFound"}


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_but_the_public_ones_answers_without_a_token(method: str, path: str) -> None:
    door = FrontDoor()
    with door.client(None) as nobody:
        response = nobody.request(method, path)

    if path in PUBLIC:
        assert response.status_code == 200
    else:
        a_problem(response, 401, "Unauthenticated")
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_exactly_these_paths_are_public() -> None:
    assert {path for _, path in ROUTES if is_public(path)} == PUBLIC
    assert {"/api/v1/attempts/progress"} == ATTEMPT_PATHS


@pytest.mark.parametrize(("method", "path"), [r for r in ROUTES if "{" not in r[1]])
def test_admin_routes_are_closed_to_members(member: TestClient, method: str, path: str) -> None:
    response = member.request(method, path)

    if (method, path) in ADMIN_ONLY:
        a_problem(response, 403, "Forbidden")
    else:
        assert response.status_code != 403


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("", id="empty"),
        pytest.param("Bearer", id="no token"),
        pytest.param("Bearer ", id="blank token"),
        pytest.param("Basic dXNlcjpwYXNz", id="basic"),
        pytest.param(f"Bearer {TOKEN_PREFIX}wrong", id="unknown"),
        pytest.param("Bearer " + "x" * 5000, id="huge"),
        pytest.param(b"Bearer \xff\xfe", id="not ASCII"),
        pytest.param("Bearer a b", id="two words"),
    ],
)
def test_a_token_that_is_none_of_ours_is_refused(door: FrontDoor, header: str | bytes) -> None:
    with door.client(None) as nobody:
        response = nobody.get(JOBS, headers=[(b"Authorization", _bytes(header))])

    a_problem(response, 401, "Unauthenticated")


def _bytes(header: str | bytes) -> bytes:
    return header if isinstance(header, bytes) else header.encode()


def _token(door: FrontDoor, **changes: object) -> str:
    secret = door.token("eve", projects=["default"])
    stored = door.store.token_by_secret(secret_hash(secret))
    assert stored is not None
    changed = replace(stored, **changes)  # type: ignore[arg-type]  # fields of Token
    door.store.write(Unit(changes=(SaveToken(token=changed),)))
    return secret


def test_an_expired_token_is_refused_from_that_moment_on(door: FrontDoor) -> None:
    secret = _token(door, expires_at=after(door.clock.now(), DAY))
    with door.client(secret) as eve:
        before = eve.get(JOBS).status_code
        door.clock.advance(DAY)
        after_it = eve.get(JOBS)

    assert before == 200
    a_problem(after_it, 401, "Unauthenticated")


def test_a_token_revoked_by_another_server_stops_working_within_seconds(door: FrontDoor) -> None:
    secret = _token(door)
    with door.client(secret) as eve:
        assert eve.get(JOBS).status_code == 200
        stored = door.store.token_by_secret(secret_hash(secret))
        assert isinstance(stored, Token)
        door.store.write(Unit(changes=(SaveToken(token=replace(stored, is_revoked=True)),)))
        door.clock.advance(CACHED_FOR)

        a_problem(eve.get(JOBS), 401, "Unauthenticated")


def test_a_token_is_made_used_and_revoked(admin: TestClient) -> None:
    made = admin.post("/api/v1/tokens", json={"name": "bob", "projects": ["default"]})
    assert made.status_code == 201
    assert made.json()["expireTime"] == "2027-04-15T08:00:00Z"
    secret = made.json()["token"]
    assert secret.startswith(TOKEN_PREFIX)

    listed = admin.get("/api/v1/tokens").json()["items"]
    assert {token["name"] for token in listed} == {"root", "ada", "bob"}
    assert secret not in admin.get("/api/v1/tokens").text

    with TestClient(admin.app, headers={"Authorization": f"Bearer {secret}"}) as bob:
        assert bob.get("/api/v1/whoami").json()["name"] == "bob"
        assert bob.get(JOBS).status_code == 200
        admin.delete(f"/api/v1/tokens/{made.json()['id']}")
        a_problem(bob.get(JOBS), 401, "Unauthenticated")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"name": "bob"}, id="neither admin nor project"),
        pytest.param({"name": "bob", "admin": True, "projects": ["default"]}, id="both"),
        pytest.param({"name": "bob", "projects": ["nowhere"]}, id="no such project"),
        pytest.param({"name": "Bob!", "projects": ["default"]}, id="no name"),
        pytest.param({"projects": ["default"]}, id="nameless"),
        pytest.param({"name": "bob", "projects": ["default"], "expiresIn": "soon"}, id="no time"),
        pytest.param({"name": "bob", "projects": ["default"], "secret": "x"}, id="unknown field"),
    ],
)
def test_a_token_that_makes_no_sense_is_not_made(
    door: FrontDoor, admin: TestClient, body: dict[str, object]
) -> None:
    problem = a_problem(admin.post("/api/v1/tokens", json=body), 422, "InvalidSpec")

    assert problem.errors
    assert len(door.store.tokens()) == 2


def test_what_belongs_to_another_project_does_not_exist(door: FrontDoor, admin: TestClient) -> None:
    door.project("other", "default")
    admin.post("/api/v1/projects/other/jobs", json=a_file("secret-job"))
    admin.post(JOBS, json=a_file("mine"))
    with door.client(door.member_token) as ada:
        for method, path in ROUTES:
            hidden = path.replace("projects/default", "projects/other").replace(
                "train", "secret-job"
            )
            if hidden != path:
                a_problem(ada.request(method, hidden), 404, "NotFound")
        for path in ("/api/v1/jobs", "/api/v1/events", "/api/v1/projects", "/api/v1/nodes"):
            assert "secret-job" not in ada.get(path).text
            assert '"other"' not in ada.get(path).text
        named = ada.get("/api/v1/jobs", params={"fieldSelector": "metadata.name=secret-job"})
        assert named.json()["items"] == []
        assert [job["metadata"]["name"] for job in ada.get("/api/v1/jobs").json()["items"]] == [
            "mine"
        ]


def test_a_missing_project_answers_like_a_hidden_one(member: TestClient) -> None:
    hidden = a_problem(member.get("/api/v1/projects/other/jobs"), 404, "NotFound")

    assert hidden.detail == "no project named 'other'"


def test_who_asks_too_often_waits_and_admins_do_not(door: FrontDoor) -> None:
    door.limit(requests_per_second=1.0, requests_burst=3.0)
    with door.client(door.member_token) as ada:
        answers = [ada.get(JOBS) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        a_problem(answers[-1], 429, "TooManyRequests")
        assert answers[-1].headers["Retry-After"] == "1"
        door.clock.advance(SECOND)
        assert ada.get(JOBS).status_code == 200
    with door.client(door.admin_token) as root:
        assert all(root.get(JOBS).status_code == 200 for _ in range(20))


def test_the_levels_of_a_bucket_do_not_mix(door: FrontDoor) -> None:
    door.limit(requests_per_second=1.0, requests_burst=1.0)
    eve = door.token("eve", projects=["default"])
    with door.client(door.member_token) as ada:
        assert ada.get(JOBS).status_code == 200
        assert ada.get(JOBS).status_code == 429
        other = ada.get(JOBS, headers={"Authorization": f"Bearer {eve}"})
    assert other.status_code == 200


def test_a_token_without_an_end_keeps_working(door: FrontDoor, member: TestClient) -> None:
    door.clock.advance(Duration(1000 * DAY))

    assert member.get(JOBS).status_code == 200
