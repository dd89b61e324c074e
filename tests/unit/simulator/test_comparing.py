"""`dally-sim compare`, `explain` and `report`: many runs, one job's life, one page."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simulator.app import app

TRACE = "job_id,num_gpu,submit_time,duration\n" + "".join(
    f"{number},{1 << number % 4},{40 * number},{300 + 110 * (number % 5)}\n" for number in range(40)
)
CLUSTER = ["--nodes", "4", "--gpus-per-node", "4", "--racks", "2"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    return file


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def compared(trace: Path, *options: str) -> list[dict[str, object]]:
    output = told("compare", str(trace), *CLUSTER, "--json", *options)
    return [json.loads(line) for line in output.splitlines()]


def test_every_policy_runs_under_every_load_congestion_and_seed(trace: Path) -> None:
    options = [
        "--policies",
        "nowait,fifo",
        "--seeds",
        "2",
        "--load",
        "0.5,1",
        "--congestion",
        "1,4",
    ]
    runs = compared(trace, *options, "--processes", "1")
    cells = {(r["policy"], r["seed"], r["load"], r["congestion"]) for r in runs}
    assert len(runs) == len(cells) == 16


def test_parallel_processes_say_what_one_process_says(trace: Path) -> None:
    options = ["--policies", "nowait,las", "--seeds", "2"]
    alone = compared(trace, *options, "--processes", "1")
    assert compared(trace, *options, "--processes", "2") == alone


def test_policies_meet_the_same_jobs_under_one_seed(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    compared(trace, "--policies", "nowait,las", "--seeds", "1", "--out", str(out))
    models = []
    for folder in sorted(out.iterdir()):
        lines = (folder / "jobs.jsonl").read_text().splitlines()
        models.append([json.loads(line)["model"] for line in lines])
    assert models[0] == models[1]
    assert len(set(models[0])) > 3


def test_a_table_tells_the_ratio_to_the_baseline(trace: Path) -> None:
    output = told("compare", str(trace), *CLUSTER, "--policies", "nowait,fifo", "--seeds", "1")
    assert "mean JCT / nowait" in " ".join(output.split())
    assert "1.000 (1.000 to 1.000)" in " ".join(output.split())


def test_variants_of_a_policy_run_with_their_own_knobs(trace: Path, tmp_path: Path) -> None:
    variants = [
        "--variant",
        "patient=dally,timers=infinite",
        "--variant",
        "hasty=dally,timers=zero",
    ]
    out = tmp_path / "runs"
    options = ["--policies", "dally", *variants, "--seeds", "1", "--congestion", "8"]
    runs = compared(trace, *options, "--set", "orderStops=true", "--out", str(out))
    assert [run["variant"] for run in runs] == ["dally", "patient", "hasty"]
    assert {run["policy"] for run in runs} == {"dally"}
    everywhere = {"orderStops": True}
    assert [run["knobs"] for run in runs] == [
        everywhere,
        everywhere | {"timers": "infinite"},
        everywhere | {"timers": "zero"},
    ]
    page = tmp_path / "page.html"
    told("report", str(out), "--out", str(page))
    assert all(name in page.read_text() for name in ("patient", "hasty"))
    shown = told("explain", str(out / "patient-load-recorded-congestion-8-seed-0"), "j00000012")
    assert "dally, orderStops=true, timers=infinite" in " ".join(shown.split())


def test_a_variant_with_the_knobs_of_a_policy_does_what_that_policy_does(trace: Path) -> None:
    """`dally-nowait` is `dally` whose timers are zero."""
    options = ["--policies", "dally-nowait", "--variant", "mine=dally,timers=zero"]
    theirs, mine = compared(trace, *options, "--seeds", "1", "--congestion", "8")
    differing = {name for name in theirs if theirs[name] != mine[name]}
    assert differing == {"policy", "variant", "knobs"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            ["--policies", "nowait,fast"], "--policies: no policy named 'fast'", id="unknown policy"
        ),
        pytest.param(["--policies", "fifo,fifo"], "not a list of different names", id="twice one"),
        pytest.param(["--policies", "fifo", "--load", "0,1"], "numbers above 0", id="no load"),
        pytest.param(["--policies", "fifo", "--baseline", "las"], "not among", id="baseline"),
        pytest.param([], "--policies: name some, or a --variant", id="nobody"),
        pytest.param(["--variant", "dally"], "is not NAME=POLICY,", id="a variant of nothing"),
        pytest.param(["--variant", "=dally"], "is not NAME=POLICY,", id="no name"),
        pytest.param(["--variant", "a/b=dally"], "a name has letters", id="a path for a name"),
        pytest.param(
            ["--variant", "x=fast"], "--variant x: no policy named 'fast'", id="of no policy"
        ),
        pytest.param(
            ["--variant", "x=dally,waitMx=1h"],
            "--variant x: waitMx: there is no such knob; did you mean waitMax?",
            id="unknown knob",
        ),
        pytest.param(
            ["--variant", "x=dally,waitMax"], "--variant x: 'waitMax' is not KNOB=VALUE", id="half"
        ),
        pytest.param(
            ["--policies", "fifo", "--variant", "fifo=las"],
            "--variant: 'fifo' is the name of two",
            id="one name for two",
        ),
        pytest.param(["--policies", "fifo", "--set", "a=1"], "--set: a: there is no", id="of all"),
    ],
)
def test_a_comparison_that_can_not_be_is_refused(
    trace: Path, options: list[str], message: str
) -> None:
    result = CliRunner().invoke(app, ["compare", str(trace), *CLUSTER, *options])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_the_life_of_a_job_is_told_in_order(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    told("run", str(trace), *CLUSTER, "--policy", "dally", "--congestion", "8", "--out", str(out))
    events = [
        json.loads(line) for line in told("explain", str(out), "j00000012", "--json").splitlines()
    ]
    assert [event["job"] for event in events] == ["j00000012"] * len(events)
    reasons = [event["event"] for event in events]
    assert reasons[0] == "JobSubmitted"
    assert reasons[-1] == "JobSucceeded"
    assert reasons.index("GangPlaced") < reasons.index("StepTime")
    assert "11 in the trace" in told("explain", str(out), "11")


def test_a_job_that_holds_out_says_for_how_long(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ["--policy", "dally-consolidated", "--costs", "off", "--out", str(out)]
    told("run", str(trace), *CLUSTER, *options)
    lines = (out / "timers.jsonl").read_text().splitlines()
    assert lines, "nobody declined an offer"
    name = json.loads(lines[0])["job"]
    assert "declined an offer; holds out for" in " ".join(told("explain", str(out), name).split())


def test_a_report_is_one_page_with_all_plots_and_no_link_outside(
    trace: Path, tmp_path: Path
) -> None:
    out, page = tmp_path / "runs", tmp_path / "report.html"
    compared(trace, "--policies", "nowait,dally", "--seeds", "2", "--out", str(out))
    told("report", str(out), "--out", str(page))
    html = page.read_text()
    assert html.count("<svg") in {8, 9}
    assert not re.findall(r"(?:src|href)=[\"']https?:", html)
    for title in ("Completion time", "wait for GPUs", "Exposed communication", "Fragmentation"):
        assert title in html


def test_the_same_runs_give_the_same_page(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    told("run", str(trace), *CLUSTER, "--policy", "nowait", "--out", str(out))
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        told("report", str(out), "--out", str(page))
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_runs_of_a_policy_with_other_knobs_for_all_are_no_seeds_of_one(
    trace: Path, tmp_path: Path
) -> None:
    runs, page = tmp_path / "runs", tmp_path / "page.html"
    cluster = ["--nodes", "2", "--gpus-per-node", "8", "--policies", "dally", "--seeds", "1"]
    for name, options in (("plain", []), ("stops", ["--set", "orderStops=true"])):
        out = ["--out", str(runs / name)]
        told = CliRunner().invoke(app, ["compare", str(trace), *cluster, *options, *out])
        assert told.exit_code == 0, told.output
    folders = [str(runs / name) for name in ("plain", "stops")]
    told = CliRunner().invoke(app, ["report", *folders, "--out", str(page)])
    assert told.exit_code == 0, told.output
    assert ", 1 seed<" in page.read_text()
    assert "dally, orderStops=true" in page.read_text()


@pytest.mark.parametrize("facts", ['{"policy": "fifo", "knobs": [1]}', '{"knobs": null}', "[]"])
def test_a_folder_whose_options_are_none_is_refused(facts: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(facts)
    told = CliRunner().invoke(app, ["explain", str(tmp_path), "j1"])
    assert told.exit_code == 2
    assert "must be objects" in told.output


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert "no run of" in result.stderr
