"""What a newcomer does first: a short file, no file, stdin, folders, mistakes."""

import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Dally, job_text

TWELVE_LINES = """\
apiVersion: dally/v1
kind: Job
metadata:
  name: twelve
spec:
  workers: 2
  gpusPerWorker: 1
  command:
    - sh
    - -c
    - echo "worker $RANK of $WORLD_SIZE"
  image: registry.example/train:1
"""


def test_a_job_of_twelve_lines_runs_and_streams_its_log(dally: Dally, tmp_path: Path) -> None:
    assert len(TWELVE_LINES.splitlines()) == 12
    (tmp_path / "job.yaml").write_text(TWELVE_LINES)
    answer = dally("apply", "-f", "job.yaml", "--follow")
    assert answer.code == 0, answer.err
    assert answer.lines == ["job/twelve created", "worker 0 of 2"]
    assert "job/twelve Succeeded" in answer.err


def test_a_job_without_a_file_is_the_same_object(dally: Dally) -> None:
    flags = ("run", "flags", "--gpus", "8", "--image", "img", "--env", "A=b=c", "--time", "2h")
    shown = dally(*flags, "--dry-run=client", "-o", "yaml", "--", "torchrun", "train.py")
    file = yaml.safe_load(shown.out)
    # Nodes have 4 GPUs each, so the fewest that hold 8 are two.
    assert file["spec"] == {
        "workers": 2,
        "gpusPerWorker": 4,
        "command": ["torchrun", "train.py"],
        "image": "img",
        "duration": {"maxRuntime": "2h"},
        "env": {"A": "b=c"},
    }
    assert dally("apply", "-f", "-", "--dry-run=server", stdin=shown.out).code == 0
    assert dally("get", "job", "flags").code == 1


PROFILE = """\
apiVersion: dally/v1
kind: Profile
metadata: {name: our-net}
spec:
  family: vision
  parameters: 25000000
  timings: [{gpuModel: H100, batchPerGpu: 256, stepSeconds: 0.09}]
"""


def test_a_profile_of_ones_own_comes_from_a_file_and_goes(dally: Dally, tmp_path: Path) -> None:
    job = f"{TWELVE_LINES}  communication: {{model: our-net}}\n".replace("twelve", "knowing")
    (tmp_path / "both.yaml").write_text(f"{PROFILE}---\n{job}")
    client = dally("apply", "-f", "both.yaml", "--dry-run=client")
    assert client.lines == [
        "profile/our-net would be sent from both.yaml (dry run)",
        "job/knowing would be sent from both.yaml (dry run)",
    ]
    dry = dally("apply", "-f", "-", "--dry-run=server", stdin=PROFILE)
    assert dry.lines == ["profile/our-net saved (server dry run)"]
    assert dally("get", "profile", "our-net").code == 1
    assert dally("estimate", "-f", "-", stdin=job).code == 1
    answer = dally("apply", "-f", "both.yaml")
    assert answer.lines == ["profile/our-net created", "job/knowing created"], answer.err
    assert dally("get", "profile", "our-net").code == 0
    assert "25,000,000" in dally("describe", "profile", "our-net").out
    assert dally("apply", "-f", "-", stdin=PROFILE).lines == ["profile/our-net saved"]
    assert dally("delete", "profile", "our-net").lines == ["profile/our-net deleted"]
    assert dally("delete", "profile/our-net").code == 1
    assert dally("delete", "profile/our-net", "--ignore-not-found").code == 0


def test_a_profile_from_a_job_needs_one_that_was_measured(dally: Dally) -> None:
    answer = dally("create", "profile", "theirs", "--from-job", "nobody")
    assert answer.code == 1
    assert "there is no job" in answer.err
    assert "apply -f" in dally("create", "job", "x", "--from-job", "y").err


def test_run_streams_the_log_and_ends_as_the_job_did(dally: Dally) -> None:
    good = dally("run", "good", "--gpus-per-worker", "0", "--", "echo", "said")
    assert (good.code, good.lines) == (0, ["job/good created", "said"])
    bad = dally("run", "bad", "--gpus-per-worker", "0", "--", "sh", "-c", "exit 7")
    assert bad.code == 1
    assert "UserError" in bad.err
    command = ("run", "own-code", "--gpus-per-worker", "0", "--exit-code-from-job")
    assert dally(*command, "--", "sh", "-c", "exit 7").code == 7


def test_a_temporary_job_is_gone_once_it_has_succeeded(dally: Dally) -> None:
    assert dally("run", "brief", "--rm", "--gpus-per-worker", "0", "--", "true").code == 0
    assert dally("get", "job/brief").code == 1


def test_apply_reads_stdin_folders_and_several_documents(dally: Dally, tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "b.yaml").write_text(job_text("many-b1") + "---\n" + job_text("many-b2"))
    (folder / "a.json").write_text(
        '{"kind": "Job", "metadata": {"name": "many-a"}, '
        '"spec": {"gpusPerWorker": 0, "command": ["true"]}}'
    )
    answer = dally("apply", "-f", "-", "-f", "jobs", stdin=job_text("many-stdin"))
    assert answer.code == 0, answer.err
    assert answer.lines == [f"job/many-{name} created" for name in ("stdin", "a", "b1", "b2")]


def test_applying_an_equal_file_again_changes_nothing(dally: Dally) -> None:
    text = job_text("again", command=["sleep", "60"])
    assert dally("apply", "-f", "-", stdin=text).lines == ["job/again created"]
    assert dally("apply", "-f", "-", stdin=text).lines == ["job/again unchanged"]
    assert dally("apply", "-f", "-", "--error-unchanged", stdin=text).code == 3
    other = dally("apply", "-f", "-", stdin=job_text("again", command=["sleep", "61"]))
    assert other.code == 1
    assert "/spec/command" in other.err
    assert dally("cancel", "again", "--now", "--wait").code == 0


def test_every_mistake_of_a_file_is_told_with_its_place(dally: Dally, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(
        "kind: Job\nmetadata: {name: typos}\nspec:\n"
        "  wrokers: 4\n  gpusPerWorker: -1\n  command: python train.py\n"
    )
    answer = dally("apply", "-f", "bad.yaml")
    assert answer.code == 1
    assert 'bad.yaml:4:3: /spec/wrokers: is not a field here; did you mean "workers"?' in answer.err
    assert "bad.yaml:5:3: /spec/gpusPerWorker" in answer.err
    assert answer.err.count("wrokers") == 1, "nothing is said twice"
    assert "bad.yaml:6:3: /spec/command: must be a list of words: [python, train.py]" in answer.err
    assert dally("get", "job", "typos").code == 1


def test_stdin_that_is_no_text_is_an_error_of_one_line(dally: Dally) -> None:
    answer = dally("apply", "-f", "-", stdin=b"\xff\xfe\x00")
    assert answer.code == 1
    assert "UnreadableFile: can't read stdin" in answer.err


def test_one_refused_document_does_not_keep_the_others_back(dally: Dally) -> None:
    text = job_text("fine-1") + "---\nkind: Job\n---\n" + job_text("fine-2")
    answer = dally("apply", "-f", "-", stdin=text)
    assert answer.code == 1
    assert answer.lines == ["job/fine-1 created", "job/fine-2 created"]


def test_a_job_that_can_not_be_placed_in_time_exits_with_2(dally: Dally) -> None:
    filler = job_text("filler", workers=4, gpusPerWorker=4, command=["sleep", "60"])
    assert dally("apply", "-f", "-", "--wait-placed", "30s", stdin=filler).code == 0
    late = dally("apply", "-f", "-", "--wait-placed", "1s", stdin=job_text("late"))
    assert late.code == 2
    assert "late is not placed yet" in late.err
    assert dally("cancel", "late", "filler", "--now", "--wait").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["run", "x", "echo", "hi"], 64, "behind --:", id="a program without --"),
        pytest.param(["run", "x", "a.py", "--lr", "1"], 64, "behind --:", id="nor for its flags"),
        pytest.param(["run", "x", "y", "--", "true"], 64, "extra", id="two names"),
        pytest.param(
            [
                "run",
                "--",
            ],
            64,
            "PROGRAM",
            id="no program",
        ),
        pytest.param(
            ["run", "--gpus", "3", "--workers", "2", "--", "true"], 64, "evenly", id="odd split"
        ),
        pytest.param(["run", "--gpus", "0", "--", "true"], 64, "range", id="no GPU to split"),
        pytest.param(["run", "--gpus", "9" * 16, "--", "true"], 64, "range", id="too many GPUs"),
        pytest.param(["run", "--workers", "0", "--", "true"], 64, "range", id="no worker"),
        pytest.param(["get", "jobs", "--limit", "-1"], 64, "range", id="a negative limit"),
        pytest.param(["apply", "-f", "/dev/zero"], 1, "FileTooLarge", id="an endless file"),
        pytest.param(["apply", "-f", sys.executable], 1, "UnreadableFile", id="no text"),
        pytest.param(["run", "--env", "A", "--", "true"], 64, "NAME=VALUE", id="half a variable"),
        pytest.param(["apply", "-f", "nothing.yaml"], 1, "UnreadableFile", id="no such file"),
        pytest.param(["apply"], 64, "--filename", id="no file named"),
        pytest.param(["cancel", "--all"], 1, "pass --yes", id="no question without a terminal"),
        pytest.param(["get", "nodez"], 1, "did you mean 'node'", id="the nearest kind"),
        pytest.param(["wait", "x", "--timeout", "soon"], 1, "InvalidDuration", id="a bad time"),
        pytest.param(["logs", "nope"], 1, "NotFound", id="no such job"),
        pytest.param(["get", "jobs", "--token", "wrong"], 4, "set-context", id="a wrong token"),
    ],
)
def test_an_error_names_its_reason_and_the_way_out(
    dally: Dally, arguments: list[str], code: int, said: str
) -> None:
    dally("delete", "alive", "--ignore-not-found")
    dally("apply", "-f", "-", stdin=job_text("alive", command=["sleep", "60"]))
    answer = dally(*arguments)
    assert answer.code == code
    assert said in answer.err
    assert answer.err.startswith(("error: ", "usage"))
    assert answer.out == ""
