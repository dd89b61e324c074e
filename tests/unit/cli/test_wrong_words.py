"""Words that lead nowhere end in one line, before any server is asked; contexts that two change."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.app import run
from cli.config import ConfigFile, Context, change, load
from cli.failures import ExitCode

NOWHERE = "http://127.0.0.1:9"
"""Nobody serves there: whoever asks is told ServerUnreachable."""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of contexts, which is not there yet."""
    file = tmp_path / "config.yaml"
    monkeypatch.setenv("DALLY_CONFIG", str(file))
    for name in ("DALLY_SERVER", "DALLY_TOKEN", "DALLY_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return file


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(["get", "job", ".."], "InvalidName", id="the folder above"),
        pytest.param(["get", "job", "."], "InvalidName", id="the folder itself"),
        pytest.param(["get", "jobs/"], "InvalidName", id="an empty name"),
        pytest.param(["describe", "job", "../../livez"], "InvalidName", id="another route"),
        pytest.param(["cancel", ""], "InvalidName", id="nobody to cancel"),
        pytest.param(["delete", "job", "."], "InvalidName", id="the list of all jobs"),
        pytest.param(["logs", ""], "InvalidName", id="no name of a log"),
        pytest.param(["cordon", "node", "a/../b"], "InvalidName", id="another node"),
        pytest.param(["cordon", "node", ""], "InvalidName", id="no node"),
        pytest.param(["get", "jobs", "-p", ".."], "InvalidName", id="jobs of all projects"),
        pytest.param(["get", "jobs", "-p", "a/b"], "InvalidName", id="a project with a slash"),
    ],
)
def test_a_name_that_would_be_another_path_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    assert run([*words, "--server", NOWHERE]) == ExitCode.ERROR
    assert capsys.readouterr().err.startswith(f"error: {reason}: ")


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("127.0.0.1:8470", id="no scheme"),
        pytest.param("ftp://127.0.0.1", id="another scheme"),
        pytest.param("http://", id="no host"),
        pytest.param("http://h:99999", id="a port that does not exist"),
        pytest.param("http://h:x", id="a port that is no number"),
        pytest.param("http://h\nX: y", id="a line end"),
        pytest.param("http://a b", id="a blank"),
        pytest.param("http://[::1", id="half an address"),
    ],
)
def test_what_is_no_address_is_not_taken_for_a_server_that_is_down(
    capsys: pytest.CaptureFixture[str], server: str
) -> None:
    assert run(["get", "jobs", "--server", server]) == ExitCode.ERROR
    assert capsys.readouterr().err.startswith("error: InvalidServer: ")


@pytest.mark.parametrize("token", ["secret\nX: y", "secret\x00", "secreté", "secret word"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(
    capsys: pytest.CaptureFixture[str], token: str
) -> None:
    assert run(["get", "jobs", "--server", NOWHERE, "--token", token]) == ExitCode.ERROR
    told = capsys.readouterr().err
    assert told.startswith("error: InvalidToken: ")
    assert "secret" not in told


@pytest.mark.parametrize("more", [[], ["-w"]])
def test_types_of_events_that_do_not_exist_are_refused(
    capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    assert run(["events", "--types", "Normal,Bad", "--server", NOWHERE, *more]) == ExitCode.USAGE
    assert "'bad' is neither Normal nor Warning" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"\xff\xfe\x00", "can't decode", id="no text"),
        pytest.param(b"contexts: 3", "contexts: Input should be", id="no contexts"),
        pytest.param(b"[1]", "Input should be", id="a list"),
        pytest.param(b"a: [", "while parsing", id="half a list"),
        pytest.param(b"contexts: {a: {server: [1]}}", "contexts.a.server", id="a server of a list"),
    ],
)
def test_a_broken_file_of_contexts_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], config: Path, content: bytes, said: str
) -> None:
    config.write_bytes(content)
    assert run(["get", "jobs"]) == ExitCode.ERROR
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith(f"error: InvalidConfig: can't read {config}: ")
    assert said in told[0]
    assert len(told) == 2


def test_of_many_that_write_contexts_at_once_none_is_lost(config: Path) -> None:
    def add(number: int) -> None:
        context = Context(server=f"http://h{number}:1")
        change(lambda b: ConfigFile(contexts={**b.contexts, f"c{number}": context}))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(40)))
    assert load().contexts.keys() == {f"c{number}" for number in range(40)}
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
