"""`dallyd serve`: starts, tells where it is, runs jobs, is alone, stops, comes back."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.polling import wait_until
from tests.processes import ended_on_failure
from tests.servers import Server, facts_of

SLEEPS = ("sleep", "600")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server on SQLite, started."""
    with Server(tmp_path) as made:
        made.start()
        yield made


def test_a_job_runs_through_the_service_from_submit_to_its_log(server: Server) -> None:
    answer = server.submit("hello", ["sh", "-c", "echo rank $DALLY_RANK"], workers=2)
    assert answer.status_code == 201
    server.wait_for("hello", "Succeeded")
    log = server.request("GET", "/api/v1/projects/default/jobs/hello/logs").text
    assert log == "rank 0\n"
    status = server.job("hello")["status"]
    assert (status["reason"], status["attempts"]) == ("Completed", 1)


def test_the_first_start_prints_a_token_and_a_command_that_uses_it(server: Server) -> None:
    assert f"dally config set-context local --server {server.url}" in server.out
    assert server.request("GET", "/api/v1/whoami").json()["admin"] is True
    server.stop()
    server.start()
    assert "token" not in server.out
    assert server.request("GET", "/api/v1/whoami").json()["name"] == "admin"


def test_it_is_silent_by_default(server: Server) -> None:
    server.submit("hello", ["true"])
    server.wait_for("hello", "Succeeded")
    server.stop()
    assert server.errors == ""
    server.start(DALLYD_LOG_LEVEL="info")
    server.submit("again", ["true"])
    server.wait_for("again", "Succeeded")
    facts = facts_of(server.errors)
    assert {"gang_placed", "gang_moved"} <= {fact["event"] for fact in facts}


def test_steps_are_read_off_the_log_of_a_job_that_reports_none(server: Server) -> None:
    trains = "while :; do echo iter_time=0.125; sleep 0.1; done"
    declared = {"computeSeconds": 0.1, "stepPattern": "iter_time=([0-9.]+)"}
    server.submit("train", ["sh", "-c", trains], communication=declared)
    sensitivity = "/api/v1/projects/default/jobs/train/sensitivity"

    def measured() -> list[float]:
        (item,) = server.request("GET", sensitivity).json()["items"]
        return [t["measuredSeconds"] for t in item["tiers"] if "measuredSeconds" in t]

    wait_until(lambda: bool(measured()), "a step time was read")
    assert measured() == [pytest.approx(0.125)]
    server.stop()
    server.start()
    assert measured() == [pytest.approx(0.125)]
    server.cancel("train", now=True)
    server.wait_for("train", "Cancelled")
    profile = {
        "apiVersion": "dally/v1",
        "kind": "Profile",
        "metadata": {"name": "ours"},
        "spec": {"fromJob": "train"},
    }
    answer = server.request("PUT", "/api/v1/projects/default/profiles/ours", body=profile)
    assert answer.json()["timings"][0]["stepSeconds"] == pytest.approx(0.125)


def test_a_second_server_on_the_same_folder_is_refused(server: Server, tmp_path: Path) -> None:
    other = Server(tmp_path / "other", env={"DALLYD_DATA_DIR": server.env["DALLYD_DATA_DIR"]})
    other.folder.mkdir()
    other.launch()
    other.join()
    assert other.exit_code == 1
    assert f"process {server.pid} already serves from" in other.errors


def test_a_stopped_server_ends_its_open_streams(server: Server) -> None:
    headers = {"Authorization": f"Bearer {server.token}", "Accept": "text/event-stream"}
    with (
        httpx2.Client(base_url=server.url, headers=headers, timeout=30) as client,
        client.stream("GET", "/api/v1/jobs?watch=true") as watch,
    ):
        events = watch.iter_lines()
        assert next(events).startswith("retry:")
        server.stop()
        assert "event: BOOKMARK" in list(events), "it comes to its end and is not cut off"
    assert (server.exit_code, server.errors) == (0, "")


def test_workers_outlive_a_stopped_server_and_are_adopted(server: Server) -> None:
    server.submit("long", ["sh", "-c", "echo started; sleep 2; echo ended; exit 3"])
    server.wait_for("long", "Running")
    server.stop()
    assert server.exit_code == 0
    server.start()
    server.wait_for("long", "Failed")
    status = server.job("long")["status"]
    assert status["attempts"] == 1
    assert "exit code 3" in status["message"]
    assert (
        server.request("GET", "/api/v1/projects/default/jobs/long/logs").text == "started\nended\n"
    )


def test_cancel_gives_the_grace_and_now_does_not(server: Server) -> None:
    stubborn = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"]
    server.submit("stubborn", stubborn, checkpoint={"grace": "1h"})
    server.wait_for("stubborn", "Running")
    server.cancel("stubborn")
    server.wait_for("stubborn", "Stopping")
    server.cancel("stubborn", now=True)
    server.wait_for("stubborn", "Cancelled")


def test_a_job_that_must_wait_says_why_and_starts_when_it_can(server: Server) -> None:
    server.submit("big", SLEEPS, gpusPerWorker=8)
    server.wait_for("big", "Running")
    server.submit("next", ["true"], gpusPerWorker=8)
    why = "/api/v1/projects/default/jobs/next/why"
    wait_until(
        lambda: server.request("GET", why).json()["verdict"] != "NotYetConsidered",
        "a cycle has looked at it",
    )
    answer = server.request("GET", why).json()
    assert answer["verdict"] == "WaitingForCapacity"
    assert "room for 0 of 1 worker within the whole cluster" in answer["summary"]
    server.cancel("big", now=True)
    server.wait_for("next", "Succeeded")


def test_metrics_need_a_token_on_the_port_of_the_api(server: Server) -> None:
    assert httpx2.get(f"{server.url}/metrics", trust_env=False).status_code == 401
    server.submit("hello", ["true"])
    server.wait_for("hello", "Succeeded")
    text = server.request("GET", "/metrics").text
    assert 'dally_gpus{product="",state="total"} 8.0' in text
    assert 'dally_attempts_total{outcome="Completed"} 1.0' in text
    assert "dally_http_requests_total" in text
    assert "hello" not in text


def test_the_command_itself_serves_a_configured_cluster_and_stops_on_sigint(tmp_path: Path) -> None:
    config = tmp_path / "dallyd.yaml"
    config.write_text(
        f"server: {{port: 0, dataDir: {tmp_path / 'data'}}}\n"
        "topology: {racks: [{name: r1, nodes: 2, gpus: 4}, {name: r2, nodes: 2, gpus: 4}]}\n"
        "queues: [{name: team-a}]\nprojects: [{name: vision, queues: [team-a]}]\n"
    )
    dallyd = str(Path(sys.executable).with_name("dallyd"))
    command = [dallyd, "serve", "--config", str(config)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("DALLYD_")}
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)  # noqa: S603 - our own command
    with ended_on_failure(started) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "16 slots on 4 nodes" in first
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
