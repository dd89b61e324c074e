"""MPI without sshd: agents start what is asked for with the gang's secret, and end with rank 0."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from dally_runtime.mpi import lead, wire

from tests.polling import wait_until
from tests.processes import ended_on_failure
from tests.source_tree import ROOT

STOPPED = 128 + signal.SIGTERM

TRAINS = """#!/bin/sh
trap 'echo told >> {folder}/training; exit 143' TERM
echo up >> {folder}/training
while :; do sleep 0.05; done
"""
"""Heeds a stop."""

MPIRUN = """#!/bin/sh
trap 'echo told >> {folder}/launcher' TERM
{folder}/train &
wait $!
echo ended >> {folder}/launcher
exit 7
"""
"""Stands for mpirun by its name; ends when the training has ended."""


class Gang:
    """Workers of a job on this machine; all of them have the same port, so one agent at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.at_end = ExitStack()
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        for name, text in (("train", TRAINS), ("mpirun", MPIRUN)):
            path = folder / name
            path.write_text(text.format(folder=folder))
            path.chmod(0o755)

    def start(self, *words: str, knows: str = "s", hosts: str = "me,127.0.0.1") -> "Worker":
        """A process of the runtime's; rank 0 but for the agent."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "runtime"),
            "DALLY_MPI_PORT": str(self.port),
            "DALLY_MPI_SECRET": knows,
            "DALLY_HOSTS": hosts,
            "DALLY_RANK": "0",
        }
        process = subprocess.Popen(  # noqa: S603 - our own words
            [sys.executable, "-m", "dally_runtime.mpi", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.at_end.enter_context(ended_on_failure(process))
        self.at_end.callback(_kill_all, process)
        return process

    def said(self, name: str) -> list[str]:
        """The lines that a program of the gang has written."""
        path = self.folder / name
        return path.read_text().split() if path.exists() else []

    def training_is_up(self) -> bool:
        """Whether the training runs."""
        return self.said("training") == ["up"]


Worker = subprocess.Popen[str]


def _kill_all(process: Worker) -> None:
    """Kill a worker and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Gang]:
    """Its processes end with the test."""
    made = Gang(tmp_path)
    with made.at_end:
        yield made


def ended(process: Worker) -> tuple[int, str]:
    """How it ended, and what it complained about."""
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def rsh(gang: Gang, *command: str, knows: str = "s") -> tuple[int, str]:
    """What mpirun would do to have a command run on the other worker."""
    return ended(gang.start("rsh", "127.0.0.1", *command, knows=knows))


def test_a_command_runs_at_the_agent_and_its_exit_code_comes_back(gang: Gang) -> None:
    gang.start("agent")
    code = rsh(gang, f"echo $DALLY_RANK >> {gang.folder}/ran;", "exit 3")
    assert code == (3, "")
    assert gang.said("ran") == ["0"]


def test_a_command_waits_until_the_agent_listens(gang: Gang) -> None:
    early = gang.start("rsh", "127.0.0.1", "exit 4")
    gang.start("agent")
    assert ended(early) == (4, "")


def test_who_does_not_know_the_secret_runs_nothing(gang: Gang) -> None:
    agent = gang.start("agent")
    code, errors = rsh(gang, f"touch {gang.folder}/ran", knows="guessed")
    assert code == 255
    assert "127.0.0.1 does not start anything" in errors
    assert not (gang.folder / "ran").exists()
    assert rsh(gang, "exit 5") == (5, ""), "and the agent goes on"
    agent.kill()
    assert "does not know the secret" in ended(agent)[1]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\n", id="nothing"),
        pytest.param(b"0" * 64 + b' {"run": "exit 1"}\n', id="a wrong proof"),
        pytest.param(b"\xff\xfe\n", id="bytes that are no text"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
    ],
)
def test_what_an_agent_does_not_understand_does_not_end_it(gang: Gang, sent: bytes) -> None:
    gang.start("agent")
    assert rsh(gang, "exit 0") == (0, "")
    with socket.create_connection(("127.0.0.1", gang.port), timeout=30) as connection:
        connection.recv(100)
        connection.sendall(sent)
        assert connection.recv(100) == b"", "it hangs up"
    assert rsh(gang, "exit 0") == (0, "")


def test_an_agent_that_was_out_of_files_listens_again(gang: Gang) -> None:
    agent = gang.start("agent")
    assert rsh(gang, "exit 0") == (0, "")
    limits = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (8, limits[1]))
    with ExitStack() as at_end:
        for _ in range(16):
            address = ("127.0.0.1", gang.port)
            at_end.enter_context(socket.create_connection(address, timeout=30))
        assert agent.stderr is not None
        said = iter(agent.stderr.readline, "")
        assert any("nobody can connect" in line for line in said)
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, limits)
    assert ended(gang.start("lead", "--", "true")) == (0, "")
    assert ended(agent)[0] == 0


def test_who_sends_a_byte_now_and_then_is_not_waited_for_for_ever() -> None:
    here, there = socket.socketpair()
    is_over = threading.Event()

    def drip() -> None:
        with suppress(OSError):
            while not is_over.wait(0.01):
                there.sendall(b"0")

    dripping = threading.Thread(target=drip)
    with here, there:
        dripping.start()
        try:
            with pytest.raises(wire.SilentError, match="took too long"):
                wire.take_request(here, "s", patience_s=0.5)
        finally:
            is_over.set()
            dripping.join()


def test_an_end_that_nobody_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        address = silent.getsockname()
        asked = pool.submit(
            wire.ask, address, "s", wire.Request(), patience_s=30.0, answer_s_max=0.2
        )
        connection, _ = silent.accept()
        with connection:
            connection.sendall(b"nonce\n")
            with pytest.raises(wire.SilentError, match="took too long"):
                asked.result(timeout=30)


def test_the_others_end_well_when_the_command_of_rank_0_has(gang: Gang) -> None:
    agent = gang.start("agent")
    assert rsh(gang, "exit 0") == (0, "")
    assert ended(gang.start("lead", "--", "true")) == (0, "")
    assert ended(agent) == (0, "")


class SleptClock:
    """Goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """Seconds slept."""
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        """All who sleep do so one after the other."""
        with self._lock:
            self.now_s += duration_s


def test_hundreds_of_agents_that_have_gone_are_waited_for_as_long_as_one(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SleptClock()
    for module in (lead, wire):
        monkeypatch.setattr(module, "time", clock)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    slept_s = []
    for gone in (1, 500):
        others = [(f"127.0.{1 + number // 250}.{1 + number % 250}", port) for number in range(gone)]
        began = clock.now_s
        assert lead.tell_the_end(others, "s", patience_s=1.0) == 1
        slept_s.append(clock.now_s - began)
        assert capfd.readouterr().err.count("the end could not be told to") == gone
    assert slept_s == [1.0, 1.0], "it is one patience for all of them"


def test_an_agent_that_listens_late_is_told_the_end_though_others_have_gone(gang: Gang) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    gone = [(f"127.0.1.{number}", port) for number in range(1, 101)]
    others = [*gone, ("127.0.0.1", gang.port)]
    with ThreadPoolExecutor(1) as pool:
        telling = pool.submit(lead.tell_the_end, others, "s", patience_s=600.0)
        assert ended(gang.start("agent")) == (0, "")
        assert not telling.done(), "the others are still asked"
        # Who answers wrongly in their place is asked no more.
        with socket.create_server(("", port), backlog=128) as wrong:
            wrong.settimeout(0.1)
            while not telling.done():
                with suppress(TimeoutError):
                    wrong.accept()[0].close()
    assert telling.result() == 1


def test_a_failure_of_rank_0_is_its_own_and_the_service_ends_the_others(gang: Gang) -> None:
    agent = gang.start("agent")
    assert rsh(gang, "exit 0") == (0, "")
    assert ended(gang.start("lead", "--", "sh", "-c", "exit 9")) == (9, "")
    assert rsh(gang, "exit 0") == (0, "")
    agent.terminate()
    assert ended(agent) == (STOPPED, "")


def test_a_command_that_is_not_there_is_told(gang: Gang) -> None:
    code, errors = ended(gang.start("lead", "--", "no-such-mpirun"))
    assert code == 127
    assert errors.startswith("dally: no-such-mpirun can not be started")


def test_a_stop_reaches_the_training_of_rank_0_and_not_mpirun(gang: Gang) -> None:
    lead = gang.start("lead", "--", str(gang.folder / "mpirun"))
    wait_until(gang.training_is_up, "the training is up")
    lead.terminate()
    assert ended(lead)[0] == 7
    assert gang.said("training") == ["up", "told"]
    assert gang.said("launcher") == ["ended"]


def test_a_stop_reaches_what_an_agent_has_started_and_waits_for_it(gang: Gang) -> None:
    agent = gang.start("agent")
    started = gang.start("rsh", "127.0.0.1", f"{gang.folder}/train & exit 0")
    assert ended(started) == (0, "")
    wait_until(gang.training_is_up, "the training is up")
    agent.terminate()
    assert ended(agent)[0] == STOPPED
    assert gang.said("training") == ["up", "told"]


def test_nothing_is_started_after_a_stop(gang: Gang) -> None:
    agent = gang.start("agent")
    # The training takes its time to stop: until the test allows it.
    slow = f"trap 'echo told >> {gang.folder}/training' TERM; echo up >> {gang.folder}/training; "
    slow += f"while ! [ -e {gang.folder}/enough ]; do sleep 0.05; done"
    (gang.folder / "slow").write_text(f"#!/bin/sh\n{slow}\n")
    assert rsh(gang, f"sh {gang.folder}/slow & exit 0") == (0, "")
    wait_until(gang.training_is_up, "the training is up")
    agent.terminate()
    wait_until(lambda: gang.said("training") == ["up", "told"], "it was told to stop")
    assert rsh(gang, f"touch {gang.folder}/ran") == (126, "")
    (gang.folder / "enough").touch()
    code, errors = ended(agent)
    assert code == STOPPED
    assert "a stop was asked for" in errors
    assert not (gang.folder / "ran").exists()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("lead",), id="no command"),
        pytest.param(("lead", "--"), id="an empty command"),
        pytest.param(("rsh",), id="no host"),
        pytest.param(("rsh", "-x", "host"), id="nothing to run"),
        pytest.param(("serve",), id="an unknown word"),
    ],
)
def test_what_it_can_not_do_is_told(gang: Gang, words: tuple[str, ...]) -> None:
    code, errors = ended(gang.start(*words))
    assert code == 2
    assert errors.startswith("dally: ")
    assert "Traceback" not in errors
