"""What the CLI does by itself: splits files, prints harmlessly, reads times, explains a schema."""

import errno
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import click
import pytest
from pydantic import JsonValue

from cli import output
from cli.app import run
from cli.command import DallyCommand
from cli.config import Choices, Context, change, load, resolve
from cli.documents import read_documents
from cli.failures import CommandError, ExitCode
from cli.release import skew
from cli.root import dally
from cli.schema import describe_field, find_field
from cli.times import age, brief, fine, span_s, to_the_second

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain\ttext\n", "plain\ttext\n", id="tabs and line ends stay"),
        pytest.param("\x1b[31mred", "\\x1b[31mred", id="an escape is made visible"),
        pytest.param("\x9b31m", "\\x9b31m", id="so is its one-byte form"),
        pytest.param("a\x07b\x00c", "a\\x07b\\x00c", id="bells and zeros too"),
        pytest.param("a\u202eb", "a\\u202eb", id="text can't run backwards"),
        pytest.param("über 日本", "über 日本", id="letters of all scripts stay"),
    ],
)
def test_no_text_can_steer_the_terminal(text: str, shown: str) -> None:
    assert output.neutral(text) == shown


def test_a_carriage_return_in_a_log_can_not_overwrite_a_line() -> None:
    assert output.neutral_log("10%\r20%\r\n") == "10%\n20%\n"


def test_json_output_escapes_what_json_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    output.as_json({"name": "a\x1b[0m\x9bz"})
    assert '"a\\u001b[0m\\u009bz"' in capsys.readouterr().out


class _FullDisk(StringIO):
    """A place that takes nothing."""

    def write(self, _text: str, /) -> int:
        """As a full disk answers."""
        raise OSError(errno.ENOSPC, "No space left on device")


def test_output_that_can_not_be_written_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout", _FullDisk())
    assert run(["api-resources"]) == ExitCode.ERROR
    assert capsys.readouterr().err == "error: OutputFailed: No space left on device\n"


def test_a_cell_is_one_line_and_never_empty() -> None:
    assert output.cell("two\nlines") == "two lines"
    assert output.cell("") == "<none>"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (45, "45s"), (190, "3m10s"), (3600, "1h"), (187_200, "2d4h"), (86_400 * 40, "40d")],
)
def test_ages_have_at_most_two_units(seconds: int, shown: str) -> None:
    assert brief(seconds) == shown
    assert age((NOW - timedelta(seconds=seconds)).isoformat(), at=NOW) == shown


def test_a_time_in_the_future_is_no_negative_age() -> None:
    assert age((NOW + timedelta(hours=1)).isoformat(), at=NOW) == "0s"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("0s", 0)]
)
def test_spans_are_read(text: str, seconds: int) -> None:
    assert span_s(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "1h-3m", "1 h", "-5s"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        span_s(text)
    assert caught.value.reason == "InvalidDuration"


def test_documents_of_a_file_keep_their_line_numbers(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("metadata: {name: one}\n---\n# a comment\n---\nmetadata:\n  name: two\n")
    first, second = read_documents((str(file),))
    assert (first.name, second.name) == ("one", "two")
    assert second.text.splitlines()[4] == "metadata:"


def test_a_folder_is_read_in_order_of_name(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "notes.txt"):
        (tmp_path / name).write_text(f'{{"metadata": {{"name": "{name[0]}"}}}}')
    assert [d.name for d in read_documents((str(tmp_path),))] == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["", "---\n---\n", "# nothing\n"])
def test_a_file_that_says_nothing_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text(text)
    with pytest.raises(CommandError) as caught:
        list(read_documents((str(file),)))
    assert caught.value.reason == "EmptyFile"


def test_a_document_that_can_not_be_read_is_still_sent(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("metadata: {name: [")
    (document,) = read_documents((str(file),))
    assert document.name == ""
    assert document.text == "metadata: {name: ["


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "dally" / "config.yaml"
    monkeypatch.setenv("DALLY_CONFIG", str(path))
    return path


@pytest.mark.usefixtures("config_file")
def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file() -> None:
    assert run(["config", "set-context", "lab", "--server", "http://file", "--token", "t"]) == 0
    file_only = Choices(environment={})
    assert resolve(file_only) == Context(server="http://file", token="t")  # noqa: S106 - a test's
    by_variable = Choices(environment={"DALLY_SERVER": "http://variable"})
    assert resolve(by_variable).server == "http://variable"
    by_flag = Choices(server="http://flag", environment={"DALLY_SERVER": "http://variable"})
    assert resolve(by_flag).server == "http://flag"


def test_the_file_with_tokens_is_its_owners_alone(config_file: Path) -> None:
    change(lambda _: load())
    assert config_file.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("config_file")
def test_a_context_that_does_not_exist_is_named() -> None:
    with pytest.raises(CommandError) as caught:
        resolve(Choices(context="nope", environment={}))
    assert caught.value.reason == "NoSuchContext"


@pytest.mark.parametrize(
    ("client", "server", "is_fine"),
    [("1.2.0", "1.3.9", True), ("1.2.0", "1.4.0", False), ("2.0.0", "1.9.0", False)],
)
def test_versions_more_than_a_minor_apart_are_warned_of(
    client: str, server: str, *, is_fine: bool
) -> None:
    assert (skew(client, server) == "") is is_fine


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["get"], ExitCode.USAGE, id="a missing argument"),
        pytest.param(["frobnicate"], ExitCode.USAGE, id="an unknown command"),
        pytest.param(["get", "jobs", "--nope"], ExitCode.USAGE, id="an unknown flag"),
        pytest.param(["run", "x", "echo"], ExitCode.USAGE, id="a program without --"),
        pytest.param(
            ["get", "jobs", "--server", "http://127.0.0.1:9"], ExitCode.UNREACHABLE, id="no server"
        ),
        pytest.param(
            ["wait", "x", "--timeout", "1ms", "--server", "http://127.0.0.1:9"],
            ExitCode.UNREACHABLE,
            id="no server to wait for",
        ),
    ],
)
@pytest.mark.usefixtures("config_file")
def test_each_kind_of_failure_has_its_exit_code(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    assert "try: " in capsys.readouterr().err


def every_command() -> dict[str, DallyCommand]:
    found: dict[str, DallyCommand] = {}
    context = click.Context(dally)
    for name in dally.list_commands(context):
        item = dally.get_command(context, name)
        inner = getattr(item, "commands", None)
        for path, leaf in (
            {f"{name} {n}": c for n, c in inner.items()} if inner else {name: item}
        ).items():
            assert isinstance(leaf, DallyCommand), path
            found[path] = leaf
    return found


@pytest.mark.parametrize("path", every_command())
def test_every_command_shows_two_examples_or_more(path: str) -> None:
    examples = every_command()[path].examples
    assert len(examples) >= 2
    assert all(f"dally {path}" in example for example in examples)


SCHEMA: JsonValue = {
    "$ref": "#/$defs/JobFile",
    "$defs": {
        "JobFile": {"type": "object", "properties": {"spec": {"$ref": "#/$defs/Spec"}}},
        "Spec": {
            "type": "object",
            "description": "What is asked for.",
            "properties": {
                "workers": {
                    "anyOf": [{"type": "integer"}, {"type": "null"}],
                    "description": "Size of the gang.",
                    "default": 1,
                }
            },
        },
    },
}


def test_a_field_is_explained_with_type_and_default() -> None:
    lines = list(
        describe_field(SCHEMA, find_field(SCHEMA, "job.spec"), path="job.spec", is_recursive=False)
    )
    assert lines[0] == "job.spec  <object>"
    assert "  workers  <integer> (default 1)" in lines


def test_a_wrong_field_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(CommandError, match="did you mean 'workers'"):
        find_field(SCHEMA, "job.spec.wrokers")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        pytest.param(0.0, "0ms", id="nothing"),
        pytest.param(0.00000051, "0.001ms", id="next to nothing"),
        pytest.param(0.00051, "0.510ms", id="less than a millisecond"),
        pytest.param(0.02345, "23.4ms", id="milliseconds"),
        pytest.param(1.23456, "1.23s", id="seconds"),
        pytest.param(1234.5, "1234s", id="many"),
    ],
)
def test_the_length_of_a_step_has_three_digits(seconds: float, shown: str) -> None:
    assert fine(seconds) == shown


def test_times_for_people_have_no_fractions() -> None:
    assert to_the_second("2026-11-30T12:00:01.5Z") == "2026-11-30T12:00:01Z"
    assert to_the_second("2026-11-30T12:00:01.123456Z") == "2026-11-30T12:00:01Z"
    assert to_the_second(None) == ""
