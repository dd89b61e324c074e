"""dally_runtime as a training script uses it: in a process of its own, against a real server."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.polling import wait_until
from tests.processes import ended_on_failure
from tests.source_tree import ROOT

PRELUDE = "import os, sys, time\nimport dally_runtime as dally\n"


class Service:
    """Takes step reports on loopback."""

    def __init__(self, status: int = 204) -> None:
        self.reports: list[dict[str, object]] = []
        self.tokens: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/api/v1/attempts/progress":
                    outer.reports.append(json.loads(body))
                    outer.tokens.append(self.headers["Authorization"])
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


def job(url: str = "", **more: str) -> dict[str, str]:
    """The environment of rank 0 of a job."""
    return {
        "DALLY_JOB_UID": "job-1",
        "DALLY_RANK": "0",
        "DALLY_API_URL": url,
        "DALLY_API_TOKEN": "the-token",
        "DALLY_GRACE_SECONDS": "30",
        **more,
    }


def script(text: str, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", PRELUDE + text],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "runtime"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(text: str, environment: Mapping[str, str]) -> str:
    """What a script prints; it must end well and complain about nothing."""
    with ended_on_failure(script(text, environment)) as process:
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    return output


def test_a_report_arrives_with_its_token(service: Service) -> None:
    run("dally.progress(7, 0.25, loss=1.5, accuracy=0.5, steps_total=100)", job(service.url))
    assert service.reports == [
        {"step": 7, "stepSeconds": 0.25, "loss": 1.5, "accuracy": 0.5, "stepsTotal": 100}
    ]
    assert service.tokens == ["Bearer the-token"]


def test_many_steps_are_few_reports_and_the_last_step_is_among_them(service: Service) -> None:
    run("for n in range(1001): dally.progress(n, 2.0 * (n % 2))", job(service.url))
    assert 1 <= len(service.reports) <= 3
    assert service.reports[-1]["step"] == 1000
    # The steps that were not told one by one count into the mean.
    assert service.reports[-1]["stepSeconds"] == pytest.approx(1.0, abs=0.01)


def test_a_script_that_leaves_abruptly_can_send_its_last_report(service: Service) -> None:
    text = "for n in range(10): dally.progress(n, 0.5)\ndally.flush(); os._exit(0)"
    run(text, job(service.url))
    assert service.reports[-1]["step"] == 9


def test_numbers_that_are_none_are_left_out(service: Service) -> None:
    run("dally.progress(1, 0.5, loss=float('nan'), accuracy=float('inf'))", job(service.url))
    assert service.reports == [{"step": 1, "stepSeconds": 0.5}]


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"DALLY_RANK": "1"}, id="another worker"),
        pytest.param({"LOCAL_RANK": "1"}, id="another process of torchrun"),
        pytest.param({"OMPI_COMM_WORLD_RANK": "1"}, id="another process of mpirun"),
        pytest.param({"DALLY_API_URL": ""}, id="a service that can not be reached"),
    ],
)
def test_only_one_process_of_a_job_reports(service: Service, environment: dict[str, str]) -> None:
    run("dally.progress(1, 0.5)", {**job(service.url), **environment})
    assert service.reports == []


@pytest.mark.parametrize("rank", ["LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"])
def test_the_first_process_of_a_launcher_reports(service: Service, rank: str) -> None:
    run("dally.progress(1, 0.5)", {**job(service.url), rank: "0"})
    assert len(service.reports) == 1


def test_a_service_that_does_not_answer_holds_nothing_up() -> None:
    text = "dally.progress(1, 0.5); dally.progress(2, 0.5); print('trained')"
    with ended_on_failure(script(text, job("http://127.0.0.1:9"))) as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "trained\n")
    assert errors.count("a step report was not taken") <= 1


def test_a_service_that_refuses_is_told_of_once() -> None:
    service = Service(status=409)
    with ended_on_failure(script("dally.progress(1, 0.5)", job(service.url))) as process:
        _, errors = process.communicate(timeout=60)
    service.close()
    assert process.returncode == 0
    assert errors == "a step report was not taken: HTTP Error 409: Conflict\n"


def test_a_forked_child_reports_by_itself(service: Service) -> None:
    text = """
dally.progress(1, 0.5)
pid = os.fork()
if pid == 0:
    dally.progress(2, 0.5)
    sys.exit(0)
os.waitpid(pid, 0)
"""
    run(text, job(service.url))
    assert sorted(str(report["step"]) for report in service.reports) == ["1", "2"]


def test_outside_a_job_nothing_happens() -> None:
    text = """
import signal
dally.progress(1, 0.5)
assert dally.should_stop() is False
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
assert dally.seconds_left() is None
assert dally.checkpoint_dir() is None
assert dally.attempt() == 0
"""
    run(text, {})


STOPPABLE = """
import signal
{before}
assert not dally.should_stop()
assert dally.seconds_left() is None
print("up", flush=True)
while not dally.should_stop():
    time.sleep(0.01)
assert 0 < dally.seconds_left() <= 30
print("saved")
"""


@pytest.mark.parametrize(
    ("before", "said"),
    [
        pytest.param("", "saved\n", id="alone"),
        pytest.param(
            "signal.signal(signal.SIGTERM, lambda *_: print('mine'))",
            "mine\nsaved\n",
            id="beside a handler of the script's own",
        ),
    ],
)
def test_a_stop_is_noticed_and_leaves_time_to_save(before: str, said: str) -> None:
    with ended_on_failure(script(STOPPABLE.format(before=before), job())) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, said, "")


def test_another_thread_may_ask_but_not_listen() -> None:
    text = """
import threading
thread = threading.Thread(target=lambda: print(dally.should_stop()))
thread.start()
thread.join()
"""
    assert run(text, job()) == "False\n"


def test_the_checkpoint_folder_is_made_and_the_attempt_known(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    text = "print(dally.checkpoint_dir().is_dir(), dally.attempt())"
    variables = {"DALLY_CHECKPOINT_DIR": str(folder), "DALLY_ATTEMPT": "3"}
    assert run(text, job(**variables)) == "True 3\n"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "latest"
    target.write_text("old")
    text = f"""
from pathlib import Path
target = Path({str(target)!r})
try:
    with dally.atomic_file(target) as path:
        path.write_text("half")
        assert target.read_text() == "old"
        raise KeyError
except KeyError:
    print(target.read_text())
with dally.atomic_file(target) as path:
    path.write_text("new")
print(target.read_text(), len(list(target.parent.iterdir())))
"""
    assert run(text, {}) == "old\nnew 1\n"


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "latest"
    target.write_text("old")
    text = f"""
with dally.atomic_file({str(target)!r}) as path:
    path.write_text("half")
    print("up", flush=True)
    time.sleep(600)
"""
    with ended_on_failure(script(text, {})) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    wait_until(lambda: process.poll() is not None, "it is dead")
    assert target.read_text() == "old"
