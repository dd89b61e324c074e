"""Watches over real connections: complete, resumable, cheap for the server."""

import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import httpx2
import pytest

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.errors import StoreUnavailableError
from scheduler.domain.event import Event
from scheduler.domain.instants import DAY, after
from scheduler.ports.job_store import EventQuery
from scheduler.ports.unit import Expire, Unit
from tests.api.front_door import A_MOMENT, JOBS, FrontDoor, a_file
from tests.api.live_server import LiveServer, serving
from tests.polling import wait_until

SSE = {"Accept": "text/event-stream"}
NDJSON = {"Accept": "application/x-ndjson"}
FOLLOWERS = 200


@pytest.fixture
def live(door: FrontDoor) -> Iterator[LiveServer]:
    with serving(door) as server:
        yield server


@contextmanager
def watching(live: LiveServer, path: str, **headers: str) -> Iterator[Iterator[dict[str, str]]]:
    """The server-sent events of a watch, as fields."""
    with live.client() as client, client.stream("GET", path, headers={**SSE, **headers}) as stream:
        assert stream.status_code == 200, stream.read()
        yield _events(stream)


def _events(stream: httpx2.Response) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    for line in stream.iter_lines():
        if not line:
            if "data" in fields:
                yield fields
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


def told(event: dict[str, str]) -> tuple[str, str]:
    """Kind of a job event and the name in it."""
    data = json.loads(event["data"])
    assert data["type"] == event["event"]
    assert data["resourceVersion"] == event["id"]
    return data["type"], data.get("name", "")


def take(events: Iterator[dict[str, str]], count: int) -> list[tuple[str, str]]:
    return [told(next(events)) for _ in range(count)]


def test_a_watch_tells_what_is_there_and_then_every_change(live: LiveServer) -> None:
    with live.client() as admin, watching(live, f"{JOBS}?watch=true") as events:
        assert take(events, 1) == [("BOOKMARK", "")]
        admin.post(JOBS, json=a_file("a"))
        assert take(events, 1) == [("ADDED", "a")]
        admin.post(f"{JOBS}/a/cancel")
        assert take(events, 1) == [("MODIFIED", "a")]
        admin.delete(f"{JOBS}/a")
        assert take(events, 1) == [("DELETED", "a")]


def test_a_watch_without_a_version_begins_with_what_is_there(live: LiveServer) -> None:
    with live.client() as admin:
        for name in ("a", "b"):
            admin.post(JOBS, json=a_file(name))
        with watching(live, f"{JOBS}?watch=true") as events:
            assert take(events, 3) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]


def test_a_watch_goes_on_from_the_version_of_a_list(live: LiveServer) -> None:
    with live.client() as admin:
        admin.post(JOBS, json=a_file("a"))
        version = admin.get(JOBS).json()["metadata"]["resourceVersion"]
        admin.post(JOBS, json=a_file("b"))
        with watching(live, f"{JOBS}?watch=true&resourceVersion={version}") as events:
            assert take(events, 1) == [("ADDED", "b")]


def test_lines_of_json_tell_the_same(live: LiveServer) -> None:
    with live.client() as admin:
        admin.post(JOBS, json=a_file("a"))
        with admin.stream("GET", f"{JOBS}?watch=true", headers=NDJSON) as stream:
            assert stream.headers["Content-Type"].startswith("application/x-ndjson")
            lines = stream.iter_lines()
            assert json.loads(next(lines))["object"]["metadata"]["name"] == "a"
            assert json.loads(next(lines))["type"] == "BOOKMARK"


def test_a_watch_tells_only_what_its_filter_selects(live: LiveServer) -> None:
    with live.client() as admin, watching(live, f"{JOBS}?watch=true&phase=Pending") as events:
        take(events, 1)
        admin.post(JOBS, json=a_file("a"))
        assert take(events, 1) == [("ADDED", "a")]
        admin.post(f"{JOBS}/a/hold")
        assert take(events, 1) == [("DELETED", "a")], "it has left the selection"
        admin.post(f"{JOBS}/a/release")
        assert take(events, 1)[0][1] == "a"


def test_a_member_watches_its_own_projects_alone(door: FrontDoor) -> None:
    door.project("other", "default")
    with (
        serving(door) as live,
        live.client() as admin,
        live.client(door.member_token) as ada,
        ada.stream("GET", "/api/v1/jobs?watch=true", headers=SSE) as stream,
    ):
        events = _events(stream)
        take(events, 1)
        admin.post("/api/v1/projects/other/jobs", json=a_file("hidden"))
        admin.post("/api/v1/projects/other/jobs/hidden/cancel")
        admin.delete("/api/v1/projects/other/jobs/hidden")
        admin.post(JOBS, json=a_file("mine"))
        assert take(events, 1) == [("ADDED", "mine")]


def test_nothing_is_lost_or_doubled_over_broken_connections(live: LiveServer) -> None:
    chance = random.Random(5)
    names = [f"job-{n}" for n in range(120)]

    def submit() -> None:
        with live.client() as admin:
            for name in names:
                assert admin.post(JOBS, json=a_file(name)).status_code == 201

    writer = threading.Thread(target=submit)
    seen: list[str] = []
    headers: dict[str, str] = {}
    path = f"{JOBS}?watch=true&resourceVersion=0"
    writer.start()
    while len(seen) < len(names):
        with watching(live, path, **headers) as events:
            for _ in range(chance.randrange(1, 9)):
                event = next(events)
                seen.append(told(event)[1])
                headers = {"Last-Event-ID": event["id"]}
                if len(seen) == len(names):
                    break
    writer.join()

    assert seen == names


def test_a_forgotten_version_is_told_and_ends_the_watch(door: FrontDoor) -> None:
    with door.client(door.admin_token) as admin:
        for name in ("a", "b"):
            admin.post(JOBS, json=a_file(name))
        admin.delete(f"{JOBS}/a?cancel=true")
    later = after(A_MOMENT, DAY)
    forget = Expire(events_before=later, replies_before=later, audit_before=later)
    door.store.write(Unit(changes=(forget,)))
    with serving(door) as live, watching(live, f"{JOBS}?watch=true&resourceVersion=1") as events:
        (event,) = list(events)

    assert told(event)[0] == "ERROR"
    assert json.loads(event["data"])["problem"]["reason"] == "Gone"


@pytest.mark.parametrize("path", [JOBS, "/api/v1/events"])
def test_a_watch_under_which_a_backup_is_put_back_ends(door: FrontDoor, path: str) -> None:
    with serving(door) as live, live.client() as admin:
        assert isinstance(door.store, MemoryStore)
        backup = deepcopy(door.store._tables)
        admin.post(JOBS, json=a_file("a"))
        with watching(live, f"{path}?watch=true&resourceVersion=0") as events:
            assert json.loads(next(events)["data"])
            door.store._tables = backup
            told_since = list(events)
    if path == JOBS:
        assert json.loads(told_since[-1]["data"])["problem"]["reason"] == "Gone"


@pytest.mark.parametrize(
    ("version", "status"),
    [
        pytest.param("x", 400, id="letters"),
        pytest.param("-1", 400, id="negative"),
        pytest.param("1:", 400, id="half"),
        pytest.param("9" * 30, 400, id="huge"),
        pytest.param("999999", 410, id="from the future"),
    ],
)
def test_a_version_of_no_list_is_refused(live: LiveServer, version: str, status: int) -> None:
    with live.client() as admin:
        path = f"{JOBS}?watch=true&resourceVersion={version}"
        assert admin.get(path, headers=SSE).status_code == status
        assert (
            admin.get(f"{JOBS}?watch=1", headers={**SSE, "Last-Event-ID": version}).status_code
            == status
        )


def test_events_are_watched_too(live: LiveServer) -> None:
    with live.client() as admin:
        admin.post(JOBS, json=a_file("a"))
        admin.post(JOBS, json=a_file("b"))
        with (
            watching(live, f"{JOBS}/a/events?watch=true&resourceVersion=0") as of_a,
            watching(live, "/api/v1/events?watch=true") as from_now,
        ):
            assert json.loads(next(of_a)["data"])["reason"] == "JobSubmitted"
            wait_until(lambda: live.open_streams == 2, "both watches are open")
            admin.post(f"{JOBS}/b/hold")
            admin.post(f"{JOBS}/a/hold")
            assert json.loads(next(of_a)["data"])["reason"] == "JobHeld"
            assert [json.loads(next(from_now)["data"])["job"] for _ in range(2)] == ["b", "a"]


def test_a_silent_stream_says_that_it_lives(door: FrontDoor) -> None:
    door.limit(stream_heartbeat_s=0.05)
    with serving(door) as live, live.client() as admin:
        with admin.stream("GET", f"{JOBS}?watch=true", headers=SSE) as stream:
            lines = stream.iter_lines()
            assert any(line.startswith(":") for line in lines)
        with admin.stream("GET", f"{JOBS}?watch=true", headers=NDJSON) as stream:
            kinds = (json.loads(line)["type"] for line in stream.iter_lines())
            assert [next(kinds) for _ in range(3)] == ["BOOKMARK"] * 3


def test_a_stream_does_not_live_for_ever(door: FrontDoor) -> None:
    door.limit(stream_life_min_s=0.05, stream_heartbeat_s=0.05)
    with serving(door) as live, watching(live, f"{JOBS}?watch=true") as events:
        assert [told(event) for event in events] == [("BOOKMARK", "")]


def test_clients_that_go_away_are_noticed(live: LiveServer) -> None:
    connections = [live.raw_get(f"{JOBS}?watch=true") for _ in range(20)]
    wait_until(lambda: live.open_streams == 20, "20 streams are open")

    for connection in connections:
        connection.close()

    wait_until(lambda: live.open_streams == 0, "all are gone")


def test_idle_followers_take_no_threads_and_block_nobody(live: LiveServer) -> None:
    with live.client() as admin:
        admin.get(JOBS)
        threads = threading.active_count()
        connections = [live.raw_get(f"{JOBS}?watch=true") for _ in range(FOLLOWERS)]
        try:
            wait_until(lambda: live.open_streams == FOLLOWERS, "all followers are there")
            for n in range(10):
                assert admin.post(JOBS, json=a_file(f"job-{n}")).status_code == 201
            # What the pool of worker threads may grow to, and the one that feeds them all.
            assert threading.active_count() <= threads + 40 + 1
            for connection in connections:
                assert _read_until(connection, b'"job-9"')
            names = [t.name for t in threading.enumerate() if t.name.startswith("dally-")]
            assert names == ["dally-watches"]
        finally:
            for connection in connections:
                connection.close()
    wait_until(lambda: live.open_streams == 0, "all are gone")
    wait_until(
        lambda: all(not t.name.startswith("dally-") for t in threading.enumerate()),
        "the feeding thread has ended with its last follower",
    )


def _read_until(connection: socket.socket, text: bytes) -> bool:
    data = b""
    while text not in data:
        chunk = connection.recv(65_536)
        if not chunk:
            return False
        data += chunk
    return True


def test_a_token_has_only_so_many_streams(door: FrontDoor) -> None:
    door.limit(streams_per_token=2)
    with serving(door) as live, live.client() as admin:
        open_ones = [live.raw_get(f"{JOBS}?watch=true") for _ in range(2)]
        wait_until(lambda: live.open_streams == 2, "both are open")
        refused = admin.get(f"{JOBS}?watch=true", headers=SSE)
        assert (refused.status_code, refused.json()["reason"]) == (429, "TooManyStreams")
        assert "Retry-After" in refused.headers
        with (
            live.client(door.member_token) as ada,
            ada.stream("GET", f"{JOBS}?watch=true", headers=SSE) as other,
        ):
            assert other.status_code == 200
        for connection in open_ones:
            connection.close()


def test_a_watch_ends_when_the_server_stops(door: FrontDoor) -> None:
    with serving(door) as live:
        connection = live.raw_get(f"{JOBS}?watch=true")
        wait_until(lambda: live.open_streams == 1, "it is open")
    # `serving` has waited for the server's end.
    assert _read_until(connection, b"0\r\n\r\n"), "the stream ends as streams do"
    connection.close()


class Flaky(MemoryStore):
    """A store that may not be read for a while."""

    refusals = 0

    def events(self, query: EventQuery) -> tuple[Event, ...]:
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailableError("gone for a while")
        return super().events(query)


def test_a_watch_survives_a_store_that_fails_for_a_while() -> None:
    store = Flaky()
    with (
        serving(FrontDoor(store)) as live,
        watching(live, "/api/v1/events?watch=true") as events,
    ):
        wait_until(lambda: live.open_streams == 1, "it is open")
        store.refusals = 3
        store.write(Unit(changes=(), events=(Event(reason="Late", message="", at=A_MOMENT),)))
        assert json.loads(next(events)["data"])["reason"] == "Late"

    assert store.refusals == 0
