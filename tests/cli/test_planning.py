"""When and where jobs would start, from the command line."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Dally, job_text


def test_a_job_file_is_planned_and_not_submitted(dally: Dally, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(job_text("later"))
    answer = dally("plan", "-f", "job.yaml")
    assert answer.code == 0, answer.err
    shown = dict(line.split(":", 1) for line in answer.lines if ":" in line)
    assert shown["Job"].strip() == "later (not submitted)"
    assert shown["Starts"].strip().endswith("(in 0s)")
    assert "no job arrives later" in answer.out
    assert dally("get", "job", "later").code == 1


def test_a_job_that_is_there_is_planned_under_other_settings(dally: Dally) -> None:
    flags = ("--gpus", "1", "-d", "--", "sleep", "600")
    assert dally("run", "here", *flags).code == 0
    answer = dally(
        "plan", "here", "--policy", "las", "--set", "waitMax=2h", "--more-nodes", "1", "-o", "json"
    )
    assert answer.code == 0, answer.err
    plan = json.loads(answer.out)
    assert plan["isSubmitted"] is True
    assert plan["assumed"]["policy"] == "las"
    assert plan["assumed"]["knobs"] == {"policy": "las", "waitMax": "2h"}
    assert plan["assumed"]["moreNodes"] == 1
    assert "policy=las" not in dally("get", "policy", "policy").out


def test_several_plans_stand_apart(dally: Dally, tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text("\n---\n".join(map(job_text, ("one", "two"))))
    assert "\n\nJob: " in dally("plan", "-f", "jobs.yaml").out
    documents = yaml.safe_load_all(dally("plan", "-f", "jobs.yaml", "-o", "yaml").out)
    assert [each["name"] for each in documents] == ["one", "two"]


def test_a_job_is_named_as_other_commands_print_it(dally: Dally) -> None:
    assert dally("run", "there", "--gpus", "1", "-d", "--", "sleep", "600").code == 0
    answer = dally("plan", "job/there")
    assert answer.code == 0, answer.err
    assert "default: too few jobs" in answer.out


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        pytest.param((), 64, "name a job", id="nothing named"),
        pytest.param(("no-such-job",), 1, "NotFound", id="no such job"),
        pytest.param(("node/x",), 1, "'node/x' is not a job", id="no job at all"),
        pytest.param(("x", "--set", "waitMax"), 64, "not KNOB=VALUE", id="no value"),
        pytest.param(("x", "--set", "a=1,b=2"), 64, "not KNOB=VALUE", id="two in one"),
        pytest.param(("x", "--more-nodes", "-1"), 64, "-1", id="fewer nodes"),
        pytest.param(("-f", "missing.yaml"), 1, "missing.yaml", id="no such file"),
    ],
)
def test_what_can_not_be_planned_is_said(
    dally: Dally, flags: tuple[str, ...], code: int, said: str
) -> None:
    answer = dally("plan", *flags)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err


def test_a_policy_that_nobody_knows_is_named(dally: Dally, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(job_text("later"))
    answer = dally("plan", "-f", "job.yaml", "--policy", "fast")
    assert answer.code == 1
    assert "there is no policy 'fast'" in answer.err
