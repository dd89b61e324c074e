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


def test_a_knob_that_is_set_is_the_one_that_decides(trace: Path) -> None:
    def run(*options: str) -> dict[str, object]:
        cluster = ["--nodes", "2", "--gpus-per-node", "4", "--racks", "2", "--congestion", "8"]
        told = CliRunner().invoke(
            app, ["run", str(trace), *cluster, "--policy", "dally", "--json", *options]
        )
        assert told.exit_code == 0, told.output
        facts: dict[str, object] = json.loads(told.output)
        return facts

    as_it_is = run()
    hasty = run("--set", "timers=zero")
    assert as_it_is["knobs"] == {}
    assert hasty["knobs"] == {"timers": "zero"}
    assert hasty["jct_mean_s"] != as_it_is["jct_mean_s"]
    # Written as in dallyd.yaml, whatever unit it was said in.
    both = run("--set", "timers=fixed", "--set", "fixedTimer=3600s")
    assert both["knobs"] == {"fixedTimer": "1h", "timers": "fixed"}


def test_who_learns_lengths_knows_those_of_the_jobs_before(trace: Path, tmp_path: Path) -> None:
    before = tmp_path / "before.csv"
    before.write_text(TRACE)

    def jct(policy: str, *options: str) -> tuple[object, object]:
        cluster = ["--nodes", "2", "--gpus-per-node", "4"]
        told = CliRunner().invoke(
            app, ["run", str(trace), *cluster, "--policy", policy, "--json", *OFF, *options]
        )
        assert told.exit_code == 0, told.output
        facts = json.loads(told.output)
        return facts["jct_mean_s"], facts["history"]

    learning, blind = "gittins-nowait", "las"
    assert jct(learning)[1] == 0
    assert jct(learning, "--history", str(before))[1] == 40
    assert jct(learning, "--history", str(before))[0] != jct(learning)[0]
    assert jct(blind, "--history", str(before))[0] == jct(blind)[0]


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
            ["--nodes", "1", "--gpus-per-node", "8", "--policy", "fifo", "--set", "holdAftr=8h"],
            "--set: holdAftr: there is no such knob; did you mean holdAfter?",
            id="unknown knob",
        ),
        pytest.param(
            ["--nodes", "1", "--gpus-per-node", "8", "--policy", "fifo", "--set", "waitMax=8"],
            "--set: waitMax: must be a time with its unit",
            id="a time without its unit",
        ),
        pytest.param(
            ["--nodes", "1", "--gpus-per-node", "8", "--policy", "fifo", "--set", "policy=las"],
            "--set: policy is no knob here: name it where the policy is named",
            id="the policy as a knob",
        ),
        pytest.param(
            ["--nodes", "1", "--gpus-per-node", "8", "--policy", "fifo", "--set", "waitMax"],
            "--set: 'waitMax' is not KNOB=VALUE",
            id="a knob without a value",
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


@pytest.mark.parametrize("value", ["inf", "nan", "1e300"])
@pytest.mark.parametrize(
    "option",
    [
        "--congestion",
        "--jitter",
        "--start-up",
        "--restore",
        "--checkpoint-every",
        "--node-mtbf",
        "--repair",
        "--slow-nodes",
        "--slow-factor",
    ],
)
def test_a_number_that_is_none_is_refused_by_its_option(
    trace: Path, option: str, value: str
) -> None:
    options = ["--nodes", "1", "--gpus-per-node", "8", "--policy", "fifo", option, value]
    told = CliRunner().invoke(app, ["run", str(trace), *options])
    assert told.exit_code == 2
    assert option in told.stderr


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


HEADER = b"job_id,num_gpu,submit_time,duration\n"
A_JOB = '{"name": "a", "arrival_s": 0, "duration_s": %s, "gpus": 1}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("t.csv", b"", "t.csv:1: looks like no trace format known", id="empty"),
        pytest.param("t.csv", b"\xff\xfe\x00", "t.csv: is not UTF-8 text", id="no text"),
        pytest.param("t.csv.gz", b"\x1f\x8b\x08", "t.csv.gz: can not be unpacked", id="cut off"),
        pytest.param("t.csv", b"a,b\n1,2\n", "t.csv:1: looks like no trace", id="other columns"),
        pytest.param("t.csv", HEADER + b"1,2\n", "t.csv:2: has 2 fields instead of 4", id="short"),
        pytest.param(
            "t.csv",
            HEADER + b"1,2,-3,4\n",
            "t.csv:2: field submit_time: '-3' is neg",
            id="negative",
        ),
        pytest.param("t.csv", HEADER, "t.csv: has no job (0 rows dropped)", id="header alone"),
        pytest.param(
            "t.jsonl", b'{"name": "a"}\n', "t.jsonl:1: field arrival_s: is m", id="no time"
        ),
        pytest.param("t.jsonl", b'{"name": "a",\n', "t.jsonl:1: not JSON", id="broken JSON"),
        pytest.param(
            "t.jsonl", (A_JOB % "1e300").encode(), "1e+300 is over 285 years", id="for ever"
        ),
        pytest.param("t.jsonl", (A_JOB % "NaN").encode(), "is not a number of seconds", id="NaN"),
    ],
)
def test_a_trace_that_can_not_be_read_is_refused_by_place(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    options = ["--nodes", "2", "--gpus-per-node", "4", "--policy", "fifo"]
    told = CliRunner().invoke(app, ["run", str(file), *options])
    assert (told.exit_code, message in told.output) == (2, True), told.output


def test_a_cluster_that_no_memory_holds_is_refused(trace: Path, tmp_path: Path) -> None:
    plain = ["--nodes", "99999999999", "--gpus-per-node", "4", "--policy", "fifo"]
    told = CliRunner().invoke(app, ["run", str(trace), *plain])
    assert (told.exit_code, "--nodes: 99999999999 is over 100000" in told.output) == (2, True)
    topology = tmp_path / "large.yaml"
    topology.write_text("nodes: [{count: 99999999999, gpus: 4, gpuModel: V100}]\n")
    options = ["--topology", str(topology), "--policy", "fifo"]
    told = CliRunner().invoke(app, ["run", str(trace), *options])
    assert (told.exit_code, "has 99999999999 nodes" in told.output) == (2, True), told.output
