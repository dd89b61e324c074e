"""Logs: whole, the tail, since a time, followed over attempts, in three forms."""

import json
from collections.abc import Iterator
from dataclasses import replace

import httpx2
import pytest
from starlette.testclient import TestClient

from scheduler.domain.ids import AttemptNumber, JobName, ProjectName
from scheduler.domain.instants import SECOND, Instant, after
from scheduler.domain.job import AttemptPhase, Job, JobPhase
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.unit import SaveAttempt, SaveJob, Unit
from tests.api.fake_logs import FakeLogs
from tests.api.front_door import A_MOMENT, JOBS, FrontDoor, a_file, a_problem
from tests.api.live_server import LiveServer, serving
from tests.builders import a_cluster, a_placement, an_attempt
from tests.polling import wait_until

LOGS = f"{JOBS}/train/logs"
CLUSTER = a_cluster("r1: 8 8")


class World:
    """A job of two workers and what they write."""

    def __init__(self) -> None:
        self.door = FrontDoor()
        self.logs = FakeLogs()
        self.door.deps = replace(self.door.deps, logs=self.logs)
        with self.door.client(self.door.admin_token) as admin:
            admin.post(JOBS, json=a_file("train", workers=2))

    @property
    def job(self) -> Job:
        """The job as stored."""
        return self.door.store.job(ProjectName("default"), JobName("train"))

    def start(self) -> AttemptKey:
        """The next attempt runs."""
        job = self.job
        number = job.attempts
        placement = a_placement(CLUSTER, job, {"r1-n0": 1, "r1-n1": 1})
        attempt = an_attempt(job, placement, number=number, created_at=A_MOMENT)
        running = replace(job, phase=JobPhase.RUNNING, attempts=number + 1)
        save = SaveJob(job=running, expected_revision=job.revision)
        self.door.store.write(Unit(changes=(save, SaveAttempt(attempt=attempt))))
        return AttemptKey(job.id, AttemptNumber(number))

    def end(self, key: AttemptKey, *, phase: JobPhase = JobPhase.SUCCEEDED) -> None:
        """The attempt is over, and the job is in that phase."""
        job = self.job
        attempt = self.door.store.attempts(job.id)[key.number]
        ended = replace(attempt, phase=AttemptPhase.ENDED)
        save = SaveJob(job=replace(job, phase=phase), expected_revision=job.revision)
        self.door.store.write(Unit(changes=(save, SaveAttempt(attempt=ended))))

    def write(self, key: AttemptKey, text: str, *, rank: int = 0, second: int = 0) -> None:
        """A worker writes."""
        at = after(A_MOMENT, type(SECOND)(second * SECOND))
        self.logs.write(key, text.encode(), rank=rank, at=Instant(at))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def admin(world: World) -> Iterator[TestClient]:
    with world.door.client(world.door.admin_token) as client:
        yield client


@pytest.fixture
def live(world: World) -> Iterator[LiveServer]:
    with serving(world.door) as server:
        yield server


def test_the_log_of_rank_0_is_shown_by_default(world: World, admin: TestClient) -> None:
    key = world.start()
    world.write(key, "one\ntwo\n")
    world.write(key, "other\n", rank=1)

    log = admin.get(LOGS)

    assert log.text == "one\ntwo\n"
    assert log.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert admin.get(LOGS, params={"rank": 1}).text == "other\n"


def test_a_large_log_comes_whole(world: World, admin: TestClient) -> None:
    key = world.start()
    text = "".join(f"line {n}\n" for n in range(50_000))
    world.write(key, text)
    world.logs.end(key)

    assert admin.get(LOGS).text == text


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        pytest.param({"tail": 1}, "three\n", id="the last line"),
        pytest.param({"tail": 0}, "", id="no line"),
        pytest.param({"tail": 9}, "one\ntwo\nthree\n", id="more lines than there are"),
        pytest.param({"sinceSeconds": 15}, "two\nthree\n", id="since a time"),
        pytest.param({"sinceSeconds": 15, "tail": 1}, "three\n", id="both"),
        pytest.param({"sinceSeconds": 0.5}, "", id="nothing so new"),
        pytest.param({"offset": 4}, "two\nthree\n", id="from a byte"),
        pytest.param(
            {"timestamps": True},
            "2027-01-15T08:00:00Z one\n2027-01-15T08:00:10Z two\n2027-01-15T08:00:20Z three\n",
            id="with times",
        ),
    ],
)
def test_part_of_a_log(
    world: World, admin: TestClient, parameters: dict[str, str | int | float], text: str
) -> None:
    key = world.start()
    for second, line in ((0, "one\n"), (10, "two\n"), (20, "three\n")):
        world.write(key, line, second=second)
    world.door.clock.advance_to(Instant(A_MOMENT + 25 * SECOND))

    assert admin.get(LOGS, params=parameters).text == text


def test_times_stand_before_whole_lines_only(world: World, admin: TestClient) -> None:
    key = world.start()
    world.write(key, "begin", second=0)
    world.write(key, " end\nlast", second=5)

    assert admin.get(LOGS, params={"timestamps": True}).text == (
        "2027-01-15T08:00:00Z begin end\n2027-01-15T08:00:05Z last"
    )


def test_earlier_attempts_keep_their_logs(world: World, admin: TestClient) -> None:
    for text in ("first\n", "second\n"):
        key = world.start()
        world.write(key, text)
        world.end(key, phase=JobPhase.PENDING)

    assert admin.get(LOGS).text == "second\n"
    assert admin.get(LOGS, params={"attempt": 0}).text == "first\n"


@pytest.mark.parametrize(
    ("parameters", "status", "reason"),
    [
        pytest.param({"rank": 2}, 404, "NotFound", id="no such rank"),
        pytest.param({"rank": -1}, 400, "InvalidParameter", id="negative rank"),
        pytest.param({"attempt": 1}, 404, "NotFound", id="no such attempt"),
        pytest.param({"tail": 10_001}, 400, "InvalidParameter", id="too long a tail"),
        pytest.param({"tail": "all"}, 400, "InvalidParameter", id="no number"),
        pytest.param({"sinceSeconds": -1}, 400, "InvalidParameter", id="in the future"),
        pytest.param({"sinceSeconds": "nan"}, 400, "InvalidParameter", id="no number at all"),
        pytest.param({"sinceSeconds": "inf"}, 400, "InvalidParameter", id="for ever"),
        pytest.param({"grep": "x"}, 400, "InvalidParameter", id="unknown"),
        pytest.param({"rank": 1}, 404, "NotFound", id="a rank that has written nothing"),
    ],
)
def test_a_log_that_is_not_there(
    world: World, admin: TestClient, parameters: dict[str, str], status: int, reason: str
) -> None:
    world.write(world.start(), "x\n")

    a_problem(admin.get(LOGS, params=parameters), status, reason)


def test_a_job_that_never_started_has_no_log(admin: TestClient) -> None:
    a_problem(admin.get(LOGS), 404, "NotFound")


def test_a_server_without_logs_says_so(door: FrontDoor) -> None:
    with door.client(door.admin_token) as admin:
        admin.post(JOBS, json=a_file("train"))
        a_problem(admin.get(LOGS), 503, "LogsUnavailable")


def read_until(chunks: Iterator[str], text: str) -> str:
    seen = ""
    while text not in seen:
        seen += next(chunks)
    return seen


def test_a_log_is_followed_until_its_worker_ends(world: World, live: LiveServer) -> None:
    key = world.start()
    world.write(key, "one\n")
    with (
        live.client() as admin,
        admin.stream("GET", LOGS, params={"follow": True, "attempt": 0}) as stream,
    ):
        chunks = stream.iter_text()
        assert read_until(chunks, "one\n") == "one\n"
        world.write(key, "two\n")
        assert read_until(chunks, "two\n") == "two\n"
        world.logs.end(key)
        assert "".join(chunks) == ""


def test_a_job_is_followed_from_before_its_start_over_all_attempts(
    world: World, live: LiveServer
) -> None:
    with live.client() as admin, admin.stream("GET", LOGS, params={"follow": True}) as stream:
        chunks = stream.iter_text()
        wait_until(lambda: live.open_streams == 1, "somebody follows")
        first = world.start()
        world.write(first, "attempt 0\n")
        assert read_until(chunks, "attempt 0\n") == "attempt 0\n"
        world.logs.end(first)
        world.end(first, phase=JobPhase.PENDING)
        second = world.start()
        world.write(second, "attempt 1\n")
        assert read_until(chunks, "attempt 1\n") == "attempt 1\n"
        world.logs.end(second)
        world.end(second)
        assert "".join(chunks) == ""


def test_a_lost_workers_log_ends_with_its_attempt(world: World, live: LiveServer) -> None:
    key = world.start()
    world.write(key, "last words\n")
    with live.client() as admin, admin.stream("GET", LOGS, params={"follow": True}) as stream:
        chunks = stream.iter_text()
        assert read_until(chunks, "words\n") == "last words\n"
        world.end(key, phase=JobPhase.FAILED)
        assert "".join(chunks) == ""


def test_a_deleted_jobs_followers_are_let_go(live: LiveServer) -> None:
    with live.client() as admin, admin.stream("GET", LOGS, params={"follow": True}) as stream:
        wait_until(lambda: live.open_streams == 1, "somebody follows")
        with live.client() as other:
            assert other.delete(f"{JOBS}/train?cancel=true").status_code == 200
        assert stream.read() == b""


def _log_events(stream: httpx2.Response) -> Iterator[tuple[str, dict[str, object]]]:
    key = ""
    for line in stream.iter_lines():
        if line.startswith("data: "):
            data = json.loads(line.removeprefix("data: "))
        elif line.startswith("id: "):
            key = line.removeprefix("id: ")
            yield key, data


def test_a_log_as_events_can_be_resumed_where_it_broke_off(world: World, live: LiveServer) -> None:
    sse = {"Accept": "text/event-stream"}
    key = world.start()
    world.write(key, "grün\n")
    with live.client() as admin:
        with admin.stream("GET", LOGS, params={"follow": True}, headers=sse) as stream:
            last, data = next(_log_events(stream))
        assert data == {"attempt": 0, "rank": 0, "nextOffset": 6, "text": "grün\n"}
        world.write(key, "blau\n")
        again = {**sse, "Last-Event-ID": last}
        with admin.stream("GET", LOGS, params={"follow": True}, headers=again) as stream:
            _, data = next(_log_events(stream))
        assert data["text"] == "blau\n"


def test_a_character_cut_in_two_is_put_together(world: World, live: LiveServer) -> None:
    key = world.start()
    world.logs.write(key, "grü".encode()[:-1], at=A_MOMENT)
    ndjson = {"Accept": "application/x-ndjson"}
    with (
        live.client() as admin,
        admin.stream("GET", LOGS, params={"follow": True}, headers=ndjson) as stream,
    ):
        lines = stream.iter_lines()
        assert json.loads(next(lines))["text"] == "gr"
        world.logs.write(key, "grün".encode()[3:], at=A_MOMENT)
        assert json.loads(next(lines))["text"] == "ün"


def test_a_client_that_reads_slowly_holds_back_only_its_own_log(
    world: World, live: LiveServer
) -> None:
    key = world.start()
    world.write(key, "x" * 40_000_000)
    slow = live.raw_get(f"{LOGS}?follow=true")
    wait_until(lambda: live.open_streams == 1, "the slow one is there")
    world.write(key, "end\n", rank=1)
    with (
        live.client() as admin,
        admin.stream("GET", LOGS, params={"follow": True, "rank": 1}) as stream,
    ):
        assert read_until(stream.iter_text(), "end\n") == "end\n"
    slow.close()
    wait_until(lambda: live.open_streams == 0, "both are gone")
