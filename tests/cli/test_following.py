"""Logs, waiting, cancelling: what a user does while a job runs."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import Dally, job_text
from tests.polling import wait_until
from tests.processes import ended_on_failure
from tests.servers import Server

FOUR_RANKS = 'for i in 1 2 3; do echo "rank $RANK line $i"; done'
FAILS_ONCE = 'echo "attempt $DALLY_ATTEMPT"; test "$DALLY_ATTEMPT" = 1'


@pytest.fixture(scope="module", autouse=True)
def four(server: Server) -> None:
    """A job of four ranks that has ended, and one whose second attempt succeeded."""
    server.submit("four", ["sh", "-c", FOUR_RANKS], workers=4)
    server.submit("twice", ["sh", "-c", FAILS_ONCE], failurePolicy={"maxRestarts": 1})
    server.wait_for("four", "Succeeded")
    server.wait_for("twice", "Succeeded")


def test_logs_are_those_of_rank_0_unless_said_otherwise(dally: Dally) -> None:
    assert dally("logs", "four").lines == [f"rank 0 line {i}" for i in (1, 2, 3)]
    assert dally("logs", "job/four", "--rank", "3").lines[0] == "rank 3 line 1"


def test_all_ranks_have_their_number_before_each_line(dally: Dally) -> None:
    expected = {f"[{rank}] rank {rank} line {i}" for rank in range(4) for i in (1, 2, 3)}
    assert set(dally("logs", "four", "--all-ranks").lines) == expected
    assert set(dally("logs", "-f", "four", "--all-ranks").lines) == expected


def test_tail_since_and_timestamps_choose_lines(dally: Dally) -> None:
    assert dally("logs", "four", "--tail", "1").lines == ["rank 0 line 3"]
    assert dally("logs", "four", "--since", "1h").lines == dally("logs", "four").lines
    (stamped,) = dally("logs", "four", "--tail", "1", "-t").lines
    time, rest = stamped.split(" ", 1)
    assert time.endswith("Z")
    assert rest == "rank 0 line 3"


def test_the_attempt_before_the_last_can_be_read(dally: Dally) -> None:
    assert dally("logs", "twice").lines == ["attempt 1"]
    assert dally("logs", "twice", "--previous").lines == ["attempt 0"]
    assert dally("logs", "four", "--previous").code == 1


def test_following_an_ended_job_ends(dally: Dally) -> None:
    answer = dally("logs", "-f", "twice")
    assert answer.lines == ["attempt 1"]
    assert "job/twice Succeeded" in answer.err


def test_no_log_can_steer_the_terminal(dally: Dally) -> None:
    program = r"printf '\033[2Jclear\033]0;title\007\r10%%\r20%%\n'"
    answer = dally("run", "escapes", "--gpus-per-worker", "0", "--", "sh", "-c", program)
    assert answer.code == 0
    assert not set(answer.out) & {"\x1b", "\x07", "\r", "\x9b"}
    assert "\\x1b[2Jclear" in answer.out
    assert "\x1b[2J" in dally("logs", "escapes", "--raw").out


def test_wait_gives_scripts_an_exit_code(dally: Dally) -> None:
    assert dally("wait", "job/four", "--for=condition=Complete", "--timeout=1h").code == 0
    assert dally("wait", "four", "--for=phase=Running").code == 1
    dally("run", "slow", "-d", "--gpus-per-worker", "0", "--", "sleep", "60")
    late = dally("wait", "slow", "--timeout", "100ms")
    assert late.code == 1
    assert "ConditionNotMet" in late.err
    assert dally("cancel", "slow", "--now", "--wait").code == 0
    assert dally("wait", "slow", "--for=phase=Cancelled").code == 0
    unknown = dally("wait", "slow", "--for=phase=Done", "--timeout", "0s")
    assert unknown.code == 64
    assert "there is no phase 'done'; there are: Pending, " in unknown.err


def test_cancel_is_gentle_and_now_is_not(dally: Dally, server: Server) -> None:
    trap = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    dally("run", "gentle", "-d", "--gpus-per-worker", "0", "--", "sh", "-c", trap)
    wait_until(lambda: dally("logs", "gentle").out == "ready\n", "the trap is set")
    assert dally("cancel", "gentle", "--wait").lines == ["job/gentle cancelling"]
    assert "saved" in dally("logs", "gentle").lines

    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    dally("run", "stubborn", "-d", "--gpus-per-worker", "0", "--", "sh", "-c", stubborn)
    wait_until(lambda: dally("logs", "stubborn").out == "ready\n", "the trap is set")
    assert dally("cancel", "stubborn").code == 0
    server.wait_for("stubborn", "Stopping")
    assert dally("cancel", "stubborn", "--now", "--wait").code == 0
    assert server.phase("stubborn") == "Cancelled"
    assert dally("cancel", "stubborn").lines == ["job/stubborn cancelled"]
    assert dally("cancel", "four").lines == ["job/four had ended before: Succeeded"]


def test_a_deleted_job_frees_its_name(dally: Dally) -> None:
    for _ in range(2):
        assert dally("run", "reused", "--gpus-per-worker", "0", "--", "true").code == 0
        assert dally("delete", "job", "reused").lines == ["job/reused deleted"]
    assert dally("delete", "reused").code == 1
    assert dally("delete", "reused", "--ignore-not-found").code == 0


def test_a_live_job_is_deleted_only_when_it_may_be_cancelled(dally: Dally) -> None:
    dally("run", "alive2", "-d", "--gpus-per-worker", "0", "--", "sleep", "60")
    assert dally("delete", "alive2").code == 1
    assert dally("delete", "alive2", "--cancel").lines == ["job/alive2 deleted"]


def test_a_held_job_waits_until_it_is_released(dally: Dally, server: Server) -> None:
    filler = job_text("hold-filler", workers=4, gpusPerWorker=4, command=["sleep", "60"])
    dally("apply", "-f", "-", "--wait-placed", "30s", stdin=filler)
    dally("apply", "-f", "-", stdin=job_text("held"))
    assert dally("hold", "held").lines == ["job/held held"]
    assert dally("why", "held").lines[-1].startswith(("Held", "  fix: "))
    dally("cancel", "hold-filler", "--now", "--wait")
    assert server.phase("held") == "Held"
    assert dally("release", "job", "held").code == 0, "the noun may stand before the name"
    assert dally("wait", "held").code == 0


@pytest.fixture
def shell_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of a process that runs the client."""
    return {**os.environ, **environment, "PYTHONUNBUFFERED": "1"}


def test_ctrl_c_leaves_the_job_alone(
    dally: Dally, server: Server, shell_environment: dict[str, str], tmp_path: Path
) -> None:
    # Whoever starts the tests in the background has them ignore Ctrl-C; a user's shell does not.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = ["-c", f"{start}; from cli.app import main; main()", "run", "left"]
    flags = ["--gpus-per-worker", "0", "--", "sh", "-c", "echo up; sleep 60"]
    with (
        (tmp_path / "out").open("wb") as out,
        ended_on_failure(
            subprocess.Popen(  # noqa: S603 - our own client
                [sys.executable, *program, *flags], env=shell_environment, stdout=out, stderr=out
            )
        ) as client,
    ):
        wait_until(lambda: "\nup\n" in (tmp_path / "out").read_text(), "the log is streamed")
        client.send_signal(signal.SIGINT)
        assert client.wait(timeout=30) == 130
    said = (tmp_path / "out").read_text().splitlines()
    assert said[-3:] == [
        "detached: job/left goes on",
        "  follow it again: dally logs -f left",
        "  stop it:         dally cancel left",
    ]
    assert server.phase("left") == "Running"
    assert dally("cancel", "left", "--now", "--wait").code == 0


def test_a_watch_shows_a_job_to_its_end(
    dally: Dally, server: Server, shell_environment: dict[str, str], tmp_path: Path
) -> None:
    program = ["-c", "from cli.app import main; main()"]
    flags = ["get", "job", "watched", "-w", "-o", "json"]
    with (
        (tmp_path / "out").open("wb") as out,
        ended_on_failure(
            subprocess.Popen(  # noqa: S603 - our own client
                [sys.executable, *program, *flags], env=shell_environment, stdout=out
            )
        ) as client,
    ):
        dally("run", "watched", "-d", "--gpus-per-worker", "0", "--", "true")
        server.wait_for("watched", "Succeeded")
        wait_until(
            lambda: any(
                '"name": "watched"' in line and '"phase": "Succeeded"' in line
                for line in (tmp_path / "out").read_text().splitlines()
            ),
            "the watch has shown the end",
        )
        client.terminate()
    shown = (tmp_path / "out").read_text().splitlines()
    assert all('"name": "watched"' in line for line in shown), "and no other job"
    assert dally("get", "jobs", "a", "b", "-w").code == 64
