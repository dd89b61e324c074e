"""`dally-sim trace`: what a user sees."""

import json
from pathlib import Path

from typer.testing import CliRunner

from simulator.app import app
from simulator.traces.formats import read_trace

SAMPLES = Path(__file__).parent / "samples"


def test_inspect_tells_what_was_dropped_and_why() -> None:
    shown = CliRunner().invoke(app, ["trace", "inspect", str(SAMPLES / "helios.csv")])
    assert shown.exit_code == 0
    assert "1 NoGpus, 1 NoRunTime" in shown.output


def test_inspect_json_is_one_object_with_the_load() -> None:
    shown = CliRunner().invoke(
        app, ["trace", "inspect", str(SAMPLES / "helios.csv"), "--gpus", "64", "--json"]
    )
    facts = json.loads(shown.output)
    assert (facts["format"], facts["jobs"]) == ("helios", 18)
    assert facts["load"] == facts["busy_gpus_mean"] / 64


def test_a_converted_trace_replays_as_the_one_it_came_from(tmp_path: Path) -> None:
    source, target = SAMPLES / "philly.json", tmp_path / "philly.jsonl"
    told = CliRunner().invoke(app, ["trace", "convert", str(source), str(target)])
    assert told.exit_code == 0
    assert "17 jobs, 1 dropped as NeverStarted" in told.output
    before, after = read_trace(source), read_trace(target)
    assert after.format == "jsonl"
    assert [(job.arrival, job.duration, job.gpus, job.name) for job in before.jobs] == [
        (job.arrival, job.duration, job.gpus, job.name) for job in after.jobs
    ]


def test_an_unreadable_trace_ends_with_one_line_and_code_2(tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("job_id,submission_time,duration,num_gpu\na,5,x,2\n")
    told = CliRunner().invoke(app, ["trace", "inspect", str(broken)])
    assert told.exit_code == 2
    assert told.stderr == "error: broken.csv:2: field duration: 'x' is not a number\n"


def test_a_trace_is_not_converted_onto_itself(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.jsonl"
    text = '{"name": "a", "arrival_s": 0, "gpus": 1, "duration_s": 5}\n'
    trace.write_text(text)
    told = CliRunner().invoke(app, ["trace", "convert", str(trace), str(trace)])
    assert told.exit_code == 2
    assert "is the trace itself" in told.stderr
    assert trace.read_text() == text


def test_a_trace_that_breaks_in_the_middle_leaves_what_was_there(tmp_path: Path) -> None:
    trace, out = tmp_path / "broken.jsonl", tmp_path / "out.jsonl"
    trace.write_text('{"name": "a", "arrival_s": 0, "gpus": 1, "duration_s": 5}\n{"name": "b"}\n')
    out.write_text("of another trace\n")
    told = CliRunner().invoke(app, ["trace", "convert", str(trace), str(out)])
    assert told.exit_code == 2
    assert out.read_text() == "of another trace\n"
    assert sorted(tmp_path.iterdir()) == [trace, out]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    trace, target, link = (tmp_path / name for name in ("jobs.jsonl", "target", "link"))
    trace.write_text('{"name": "a", "arrival_s": 0, "gpus": 1, "duration_s": 5}\n')
    target.touch()
    link.symlink_to(target)
    assert CliRunner().invoke(app, ["trace", "convert", str(trace), str(link)]).exit_code == 0
    assert link.is_symlink()
    assert target.read_text().count("\n") == 1


def test_a_trace_of_dropped_rows_alone_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("job_id,submission_time,duration,num_gpu\na,5,9,0\n")
    told = CliRunner().invoke(app, ["trace", "inspect", str(empty)])
    assert told.exit_code == 2
    assert "has no job (1 rows dropped)" in told.stderr


def test_a_made_workload_is_a_trace_with_the_load_it_names(tmp_path: Path) -> None:
    target = tmp_path / "made.jsonl"
    options = ["--jobs", "50", "--gpus", "64", "--load", "0.7", "--seed", "5"]
    told = CliRunner().invoke(app, ["trace", "make", str(target), *options])
    assert told.exit_code == 0
    assert "50 jobs like Philly, load 0." in told.output
    assert len(read_trace(target).jobs) == 50
