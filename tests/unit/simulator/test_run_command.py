"""`dally-sim run`: options, refusals, and the same bytes from the same seed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simulator.app import app

TRACE = "job_id,num_gpu,submit_time,duration\n" + "".join(
    f"{number},{1 << number % 4},{7 * number},{30 + 11 * (number % 5)}\n" for number in range(40)
)
OFF = ["--network", "off", "--costs", "off"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    return file


def test_a_run_prints_one_object_of_metrics(trace: Path) -> None:
    options = ["--nodes", "2", "--gpus-per-node", "8", "--policy", "fifo", *OFF, "--json"]
    told = CliRunner().invoke(app, ["run", str(trace), *options])
    assert told.exit_code == 0, told.output
    facts = json.loads(told.output)
    assert (facts["jobs"], facts["gpus"], facts["policy"]) == (40, 16, "fifo")
    assert facts["jct_mean_s"] >= 52
    assert facts["preemptions"] == 0


def test_jobs_larger_than_the_cluster_are_left_out_and_told(trace: Path) -> None:
    options = ["--nodes", "1", "--gpus-per-node", "4", "--policy", "fifo", *OFF, "--json"]
    facts = json.loads(CliRunner().invoke(app, ["run", str(trace), *options]).output)
    assert (facts["jobs"], facts["dropped"]) == (30, {"TooLarge": 10})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--policy", "fifo", *OFF], "--topology: give it, or", id="no cluster"),
        pytest.param(
            ["--nodes", "1", "--gpus-per-node", "8", "--policy", "ffo", *OFF],
            "--policy: no policy named 'ffo'; there are consolidated",
            id="unknown policy",
        ),
        pytest.param(
            ["--nodes", "1", "--gpus-per-node", "8", "--policy", "fifo", "--allocation", "counter"],
            "--allocation: a counter has no network; say --network off",
            id="a network over one pool",
        ),
    ],
)
def test_a_run_that_can_not_be_is_refused_with_code_2(
    trace: Path, options: list[str], message: str
) -> None:
    told = CliRunner().invoke(app, ["run", str(trace), *options])
    assert told.exit_code == 2
    assert message in told.stderr


def test_two_processes_with_different_hash_seeds_write_the_same_bytes(
    trace: Path, tmp_path: Path
) -> None:
    written = []
    for hash_seed in ("1", "2"):
        out = tmp_path / hash_seed
        command = "from simulator.app import main; main()"
        options = ["--nodes", "4", "--gpus-per-node", "4", "--racks", "2", "--policy", "srtf"]
        subprocess.run(  # noqa: S603 - our own interpreter and a fixed command
            [sys.executable, "-c", command, "run", str(trace), *options, "--out", str(out)],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        names = ("run.json", "jobs.jsonl", "events.jsonl")
        written.append({name: (out / name).read_bytes() for name in names})
    assert written[0] == written[1]
    assert b"GangStoppedForPreempt" in written[0]["events.jsonl"]
