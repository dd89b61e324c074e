"""The policy in a running service, asked with `dally`, while its server is killed in between.

Two racks of two nodes with two slots each:

    r1  x x | y y        x leaves:  two slots are free in each rack, and s wants four in one
    r2  z z | - -        z leaves:  r2 is free
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.app import run
from tests.polling import wait_until
from tests.servers import Server

CONFIGURATION = """
topology:
  levels: [{name: rack}]
  racks:
    - {name: r1, nodes: 2, gpus: 2}
    - {name: r2, nodes: 2, gpus: 2}
policy: {policy: dally-manual, fixedTimer: 2h}
"""
SLEEPS = ("sleep", "600")

Dally = Callable[..., str]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server in which `s` holds out for one rack."""
    (tmp_path / "dallyd.yaml").write_text(CONFIGURATION)
    with Server(tmp_path, env={"DALLYD_CONFIG": str(tmp_path / "dallyd.yaml")}) as made:
        made.start()
        for name in ("x", "y", "z"):
            made.submit(name, SLEEPS, gpusPerWorker=2)
            made.wait_for(name, "Running")
        made.submit("s", SLEEPS, workers=2, gpusPerWorker=2)
        made.cancel("x", now=True)
        made.wait_for("x", "Cancelled")
        wait_until(lambda: why(made)["verdict"] == "WaitingForCloserTier", "s holds out")
        yield made


@pytest.fixture
def dally(
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Dally:
    """Runs `dally` against the server that is up now; its output."""
    monkeypatch.setenv("DALLY_CONFIG", str(tmp_path / "config.yaml"))

    def run_command(*arguments: str) -> str:
        monkeypatch.setenv("DALLY_SERVER", server.url)
        monkeypatch.setenv("DALLY_TOKEN", server.token)
        capsys.readouterr()
        code = run(list(arguments))
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run_command


def why(server: Server, name: str = "s") -> Any:
    """Why a job is where it is."""
    return server.request("GET", f"/api/v1/projects/default/jobs/{name}/why").json()


def timer_row(dally: Dally) -> Any:
    """What the tuner knows of gangs of four for a rack."""
    items = json.loads(dally("get", "timers", "-o", "json"))["items"]
    return next(item for item in items if item["name"] == "4-rack")


def killed(server: Server) -> None:
    """SIGKILL, and another server on the same folder."""
    server.kill()
    server.start()


def test_why_says_how_long_a_job_holds_out_and_a_crash_changes_nothing_of_it(
    server: Server, dally: Dally
) -> None:
    said = why(server)["summary"]
    assert said.startswith("waiting for one rack until ")
    assert "(timer 2 h, fixed by the policy's knobs)" in said
    assert "4 GPUs are free now across 2 racks" in said
    killed(server)
    wait_until(lambda: why(server)["summary"] == said, "the same is said by another server")
    assert said in dally("why", "s")
    assert "OfferDeclined" in dally("events", "--for", "job/s")


def test_a_wait_is_learned_once_though_the_server_is_killed_around_it(
    server: Server, dally: Dally
) -> None:
    killed(server)
    assert (timer_row(dally)["accepted"], timer_row(dally)["censored"]) == (0, 0)
    server.cancel("z", now=True)
    server.wait_for("s", "Running")
    killed(server)
    assert (timer_row(dally)["accepted"], timer_row(dally)["censored"]) == (1, 0)
    placement = server.request("GET", "/api/v1/projects/default/jobs/s/attempts").json()
    assert "rack" in json.dumps(placement)


def test_a_wait_that_is_cancelled_is_learned_once_as_one_in_vain(
    server: Server, dally: Dally
) -> None:
    dally("cancel", "s")
    killed(server)
    dally("cancel", "s")
    assert (timer_row(dally)["accepted"], timer_row(dally)["censored"]) == (0, 1)


def test_a_knob_set_live_acts_at_once_and_outlives_a_crash_and_the_file(
    server: Server, dally: Dally
) -> None:
    dally("set", "policy", "idleGpusMax=1", "--queue", "default", "--reason", "all hands")
    # Its queue may leave one GPU idle and not four: it takes what is offered.
    server.wait_for("s", "Running")
    killed(server)
    shown = dally("get", "policy", "idleGpusMax", "--queue", "default", "--no-headers")
    assert shown.split() == ["idleGpusMax", "1", "queue-live"]
    assert dally("get", "policy", "fixedTimer", "--no-headers").split()[1:] == ["2h", "file"]
    told = [line for line in dally("events").splitlines() if "PolicyChanged" in line]
    assert "in queue default: idleGpusMax is 1 (was 0), by admin: all hands" in told[0]


def test_what_is_left_idle_by_choice_is_a_metric_by_queue(server: Server) -> None:
    def metrics() -> str:
        return server.request("GET", "/metrics").text

    assert 'dally_idle_by_choice_gpus{queue="default"} 4.0' in metrics()
    charged = 'dally_idle_by_choice_gpu_seconds_total{queue="default"}'
    wait_until(lambda: charged in metrics(), "time is charged")
    assert "dally_db_transaction_seconds_count" in metrics()
    assert 'dally_decisions_total{kind="decline"} 1.0' in metrics()
