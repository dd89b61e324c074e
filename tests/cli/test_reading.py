"""Tables, machine output, explanations, help: what a user reads."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
import yaml

from cli.command import DallyCommand
from cli.root import dally as root
from tests.cli.conftest import Dally, job_text
from tests.polling import wait_until
from tests.servers import Server


@pytest.fixture(scope="module", autouse=True)
def done(server: Server) -> None:
    """A job that has ended."""
    server.submit("read-me", ["sh", "-c", "echo out"], workers=2, priority="high")
    server.wait_for("read-me", "Succeeded")


def test_the_table_of_jobs_fits_80_columns(dally: Dally) -> None:
    lines = dally("get", "jobs", "--limit", "0").lines
    assert lines[0].split() == ["NAME", "QUEUE", "PHASE", "WORKERS", "GPUS", "AGE"]
    assert max(map(len, lines)) <= 80
    assert len(dally("get", "jobs", "-o", "wide").lines[0].split()) > 6


def test_machine_output_is_the_servers_answer_and_alone_on_stdout(
    dally: Dally, server: Server
) -> None:
    as_json = dally("get", "job", "read-me", "-o", "json")
    assert json.loads(as_json.out) == server.job("read-me")
    assert yaml.safe_load(dally("get", "job", "read-me", "-o", "yaml").out) == server.job("read-me")
    assert dally("get", "job", "read-me", "-o", "name").lines == ["job/read-me"]
    assert as_json.err == ""


def test_what_get_prints_can_be_applied_again(dally: Dally) -> None:
    shown = dally("get", "job", "read-me", "-o", "yaml").out
    assert dally("apply", "-f", "-", stdin=shown).lines == ["job/read-me unchanged"]


def test_long_lists_are_never_cut_silently(dally: Dally, server: Server) -> None:
    server.submit("read-me-last", ["true"])
    every = dally("get", "jobs", "--limit", "0", "--no-headers").lines
    assert len(every) > 1
    answer = dally("get", "jobs", "--limit", "1", "--no-headers")
    assert f"showing the newest 1 of {len(every)}, use --limit 0 for all" in answer.err
    assert [line.split()[0] for line in answer.lines] == [every[-1].split()[0]]


def test_describe_shows_workers_and_ends_with_why(dally: Dally) -> None:
    lines = dally("describe", "job", "read-me").lines
    (submitted,) = [line for line in lines if line.startswith("Submitted:")]
    assert re.fullmatch(r"Submitted: +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ by admin", submitted)
    assert "Workers:    2, 2 GPUs in all" in lines
    assert "Name:       read-me" in lines
    assert sum("Completed" in line for line in lines) >= 3
    assert lines[-2:] == ["Why:", "  Succeeded: completed"]


def test_a_placement_is_drawn_by_rack(dally: Dally) -> None:
    lines = dally("describe", "placement", "read-me").lines
    assert lines[0].startswith("read-me: attempt 0 (Ended), within one ")
    assert any("worker 0" in line for line in lines)
    assert lines[-1].startswith("# this job")


def test_why_names_numbers_and_what_would_fix_it(dally: Dally) -> None:
    filler = job_text("why-filler", workers=4, gpusPerWorker=3, command=["sleep", "60"])
    dally("apply", "-f", "-", "--wait-placed", "30s", stdin=filler)
    wide = job_text("why-wide", workers=2, gpusPerWorker=4)
    dally("apply", "-f", "-", "--wait-placed", "100ms", stdin=wide)
    answer = dally("why", "why-wide")
    assert answer.code == 0
    assert re.search(r"WaitingForCapacity: .*0 of 2", answer.out), answer.out
    assert "fix: " in answer.out
    counts = json.loads(dally("why", "why-wide", "-o", "json").out)["counts"]
    assert sum(counts.values()) - counts["nodes"] == counts["nodes"] == 4
    assert dally("cancel", "why-wide", "why-filler", "--now", "--wait").code == 0


def test_nodes_queues_projects_and_tokens_are_listed(dally: Dally) -> None:
    nodes = dally("get", "nodes").lines
    assert len(nodes) == 5
    assert dally("get", "nodes", "r1-n0", "--no-headers").lines[0].startswith("r1-n0")
    assert "default" in dally("get", "queues").out
    assert "default" in dally("get", "projects").out
    assert "admin" in dally("get", "tokens").out
    assert "rack=r1" in dally("describe", "node", "r1-n0").out


def test_events_tell_the_life_of_a_job(dally: Dally) -> None:
    reasons = [line.split()[2] for line in dally("events", "--for", "job/read-me").lines[1:]]
    assert reasons[0] == "JobSubmitted"
    assert reasons[-1] == "JobSucceeded"
    assert dally("events", "--for", "job/read-me", "--types", "Warning").lines == []


def test_labels_and_phases_filter(dally: Dally) -> None:
    labelled = "kind: Job\nmetadata: {name: labelled, labels: {exp: a1}}\n" + (
        "spec: {command: ['true'], gpusPerWorker: 0}\n"
    )
    dally("apply", "-f", "-", "--wait", stdin=labelled)
    assert dally("get", "jobs", "-l", "exp=a1", "-o", "name").lines == ["job/labelled"]
    found = dally("get", "jobs", "-l", "exp=a1", "--phase", "Running", "-o", "name")
    assert found.lines == []


def test_fields_are_explained_from_the_servers_schema(dally: Dally) -> None:
    assert "workers  <integer>" in dally("explain", "job.spec").out
    nested = dally("explain", "job.spec.topology", "--recursive").out
    assert "required" in nested
    assert "did you mean 'spec'" in dally("explain", "job.spce").err


def test_contexts_are_kept_and_flags_win(dally: Dally, server: Server) -> None:
    assert dally("config", "set-context", "lab", "--token", server.token).code == 0
    assert dally("config", "get-contexts").lines[1].startswith("*        lab")
    assert dally("config", "use-context", "nope").code == 1
    assert dally("get", "jobs", "--context", "lab").code == 0
    assert dally("--context", "gone", "get", "jobs").code == 1


def test_versions_of_client_and_server_are_shown(dally: Dally) -> None:
    answer = dally("version")
    assert [line.split()[0] for line in answer.lines] == ["client", "server"]
    assert answer.err == ""


def test_whoami_names_the_token(dally: Dally) -> None:
    assert dally("auth", "whoami").out.startswith("admin, may act in every project")


def examples() -> list[str]:
    """Every example of every command's help."""
    found: list[str] = []
    context = click.Context(root)
    for item in (root.get_command(context, name) for name in root.list_commands(context)):
        for leaf in getattr(item, "commands", {"": item}).values():
            assert isinstance(leaf, DallyCommand)
            found += leaf.examples
    return found


ENDED = "kind: Job\nmetadata: {name: resnet50}\nspec:\n"


def prepare(dally: Dally, server: Server, example: str) -> None:
    """Make the world an example speaks of: a job `resnet50`, waiting, running or ended; a file."""
    Path("job.yaml").write_text(job_text("from-file"))
    for name in ("resnet50", "hello", "two", "big", "from-file", "example-filler"):
        dally("delete", name, "--cancel", "--ignore-not-found")
    dally("config", "set-context", "lab", "--server", server.url, "--token", server.token)
    dally("config", "set-context", "old", "--no-use")
    verb = example.split()[1]
    if "our-net" in example:
        a_measured_job(dally, server, "train-7")
        dally("delete", "profile", "our-net")
        if verb != "create":
            dally("create", "profile", "our-net", "--from-job", "train-7")
    elif verb in ("hold", "release", "plan"):
        filler = job_text("example-filler", workers=4, gpusPerWorker=4, command=["sleep", "60"])
        dally("apply", "-f", "-", "--wait-placed", "30s", stdin=filler)
        dally("apply", "-f", "-", stdin=job_text("resnet50"))
        if verb == "release":
            dally("hold", "resnet50")
    elif verb == "cancel":
        dally("apply", "-f", "-", stdin=job_text("resnet50", command=["sleep", "60"]))
    else:
        twice = {"failurePolicy": {"maxRestarts": 1}, "workers": 4, "gpusPerWorker": 0}
        script = 'test "$DALLY_ATTEMPT" = 1'
        text = job_text("resnet50", command=["sh", "-c", script], **twice)
        dally("apply", "-f", "-", "--wait", stdin=text)


def a_measured_job(dally: Dally, server: Server, name: str) -> None:
    """A job that has ended, and whose steps were measured while it ran."""
    if dally("get", "job", name).code == 0:
        return
    trains = "while :; do echo iter_time=0.125; sleep 0.1; done"
    declared = {"computeSeconds": 0.1, "stepPattern": "iter_time=([0-9.]+)"}
    server.submit(name, ["sh", "-c", trains], communication=declared)
    sensitivity = f"/api/v1/projects/default/jobs/{name}/sensitivity"
    wait_until(
        lambda: "measuredSeconds" in server.request("GET", sensitivity).text, "a step was read"
    )
    assert dally("cancel", name, "--now", "--wait").code == 0


@pytest.mark.parametrize("example", examples())
@pytest.mark.usefixtures("environment")
def test_every_example_of_every_help_works(
    dally: Dally, server: Server, example: str, environment: Mapping[str, str]
) -> None:
    prepare(dally, server, example)
    node = dally("get", "nodes", "--no-headers").out.split()[0]
    example = example.replace("gpu-07", node).replace("gpu-08", node)
    words = shlex.split(example.replace("URL", environment["DALLY_SERVER"]))
    words = [environment["DALLY_TOKEN"] if word == "TOKEN" else word for word in words]
    stdin = ""
    if words[0] == "cat":
        stdin = Path(words[1]).read_text()
        words = words[3:]
    answer = dally(*words[1:], stdin=stdin)
    dally("uncordon", node)
    if words[1:3] in (["admin", "adopt"], ["admin", "release"]) and "--all" not in words:
        # Processes of this machine are never strays: none is called so here.
        assert (answer.code, "no stray is called" in answer.err) == (1, True), answer.err
    else:
        assert answer.code == 0, answer.err


def test_describe_job_shows_what_distance_costs(dally: Dally) -> None:
    lines = dally("describe", "job", "read-me").lines
    start = lines.index("Sensitivity to distance:")
    assert "PREDICTED" in lines[start + 2]
    assert lines[start + 3].split()[0] == "node"
    dally("run", "alone", "--gpus-per-worker", "1", "--", "true")
    alone = dally("describe", "job", "alone").out
    assert "1, 1 GPU in all" in alone
    assert "Sensitivity" not in alone, "what never leaves a node pays nothing for distance"


def test_known_models_are_read(dally: Dally) -> None:
    assert len(dally("get", "profiles").lines) > 30
    shown = dally("describe", "profile", "bert-large")
    assert "336,226,108" in shown.out
    assert dally("describe", "profile", "nothing").code == 1


def test_an_estimate_is_a_table_of_levels(dally: Dally) -> None:
    text = job_text("guess", workers=2, gpusPerWorker=4, communication={"model": "vgg16"})
    answer = dally("estimate", "-f", "-", stdin=text)
    assert answer.code == 0, answer.err
    assert "rack" in answer.out
    assert dally("get", "job", "guess").code == 1
