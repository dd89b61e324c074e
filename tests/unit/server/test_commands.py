"""`dallyd migrate`, `check`, `admin token` and `admin snapshot`, as typed."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from api.callers import secret_hash
from scheduler.adapters.sql.job_store import open_store
from scheduler.config_file import Config, parse_config
from scheduler.domain.codec import from_json
from scheduler.domain.ids import QueueName
from scheduler.domain.instants import seconds
from scheduler.domain.knobs import PolicyKnobs, WaitClock
from scheduler.domain.snapshot import Snapshot
from scheduler.ports.unit import ChangeKnobs, SaveToken, Unit
from scheduler.settings import Settings
from server.app import SERVE_FLAGS, app
from server.data_folder import FILE_NAME
from server.first_start import apply_config, first_token, keep_given_token


def dallyd(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_migrate_makes_the_database_and_says_so(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert "went from nothing to" in dallyd("migrate", "--data-dir", data).output
    assert "is up to date" in dallyd("migrate", "--data-dir", data).output
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_a_token_for_a_project_is_made_beside_the_server(tmp_path: Path) -> None:
    dallyd("migrate", "--data-dir", str(tmp_path))
    made = dallyd("admin", "token", "--data-dir", str(tmp_path), "--project", "default")
    assert (made.exit_code, made.output[:6]) == (0, "dally_")
    with open_store(f"sqlite:///{tmp_path / FILE_NAME}") as store:
        (token,) = store.tokens()
    assert (token.is_admin, token.projects) == (False, ("default",))


def test_a_snapshot_says_what_the_configuration_names_of_the_links(tmp_path: Path) -> None:
    config = tmp_path / "dallyd.yaml"
    config.write_text("topology: {fabric: h100-ndr, racks: [{name: r1, nodes: 2, gpus: 4}]}")
    dallyd("migrate", "--data-dir", str(tmp_path))
    for options, preset in (((), ""), (("--config", str(config)), "h100-ndr")):
        told = dallyd("admin", "snapshot", "--data-dir", str(tmp_path), *options)
        assert from_json(Snapshot, told.output).links.preset == preset


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("admin", "token"), "run `dallyd migrate`", id="no database"),
        pytest.param(("serve", "--port", "70000"), "--port: input should be", id="setting"),
        pytest.param(("check", "--config", "none.yaml"), "can not be read", id="config"),
        pytest.param(("serve", "--role", "boss"), "--role: input should be 'all'", id="role"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_with_exit_code_1(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    result = dallyd(*arguments, "--data-dir", str(tmp_path / "none"))
    assert (result.exit_code, said in result.output) == (1, True), result.output


def test_check_says_what_serve_would_find(tmp_path: Path) -> None:
    config = tmp_path / "dallyd.yaml"
    config.write_text("topology: {racks: [{name: r1, nodes: 2, gpus: 4}]}")
    result = dallyd("check", "--config", str(config), "--data-dir", str(tmp_path / "data"))
    assert result.exit_code == 0
    assert "8 slots on 2 nodes (no GPU is used)" in result.output
    assert "not there yet" in result.output
    assert not (tmp_path / "data").exists()


def test_check_fails_when_serve_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALLYD_HOST", "0.0.0.0")  # noqa: S104 - refused
    result = dallyd("check", "--data-dir", str(tmp_path))
    assert result.exit_code == 1
    assert "FAIL  settings" in result.output


def test_the_file_is_written_to_the_store_and_what_it_does_not_say_stays(tmp_path: Path) -> None:
    dallyd("migrate", "--data-dir", str(tmp_path))
    config = parse_config(
        "queues: [{name: team-a, policy: fifo}]\npolicy: {startTimeout: 5m}\n"
        "projects: [{name: vision, queues: [team-a]}]",
        source="dallyd.yaml",
        policies=("fifo",),
        fabrics=(),
    )
    other = parse_config("queues: [{name: team-b}]", source="dallyd.yaml", policies=(), fabrics=())
    with open_store(f"sqlite:///{tmp_path / FILE_NAME}") as store:
        apply_config(store, config)
        sequence = store.sequence()
        apply_config(store, config)
        assert store.sequence() == sequence
        assert [queue.policy for queue in store.queues()] == ["", "fifo"]
        assert store.knobs().start_timeout == seconds(300)
        apply_config(store, other)
        assert [queue.policy for queue in store.queues()] == ["", "", ""]
        assert [queue.name for queue in store.queues()] == ["default", "team-a", "team-b"]
        assert [project.name for project in store.projects()] == ["default", "vision"]
        assert store.knobs() == PolicyKnobs()


def a_config(text: str) -> Config:
    return parse_config(text, source="dallyd.yaml", policies=(), fabrics=())


def test_what_was_changed_live_wins_over_the_file(tmp_path: Path) -> None:
    dallyd("migrate", "--data-dir", str(tmp_path))
    queues = "queues: [{name: team-a, knobs: {startTimeout: 7m}}]"
    text = queues + "\npolicy: {startTimeout: %dm, clock: %s}"
    with open_store(f"sqlite:///{tmp_path / FILE_NAME}") as store:
        apply_config(store, a_config(text % (5, "idle")))
        change = ChangeKnobs(changed={"start_timeout": str(seconds(60))})
        store.write(Unit(changes=(change, replace(change, queue=QueueName("team-a")))))
        apply_config(store, a_config(text % (6, "pending")))
        assert store.knobs() == PolicyKnobs(start_timeout=seconds(60), clock=WaitClock.PENDING)
        reset = ChangeKnobs(reset=("start_timeout",))
        store.write(Unit(changes=(reset, replace(reset, queue=QueueName("team-a")))))
        assert store.knobs().start_timeout == seconds(360)
        team_a = store.queues()[1]
        assert team_a.knobs.over(store.knobs()).start_timeout == seconds(420)


def test_the_first_token_is_made_once(tmp_path: Path) -> None:
    dallyd("migrate", "--data-dir", str(tmp_path))
    with open_store(f"sqlite:///{tmp_path / FILE_NAME}") as store:
        assert first_token(store, days=1) is not None
        assert first_token(store, days=1) is None


def test_a_given_token_takes_the_place_of_the_one_given_before(tmp_path: Path) -> None:
    first, second = f"dally_{'a' * 40}", f"dally_{'b' * 40}"
    dallyd("migrate", "--data-dir", str(tmp_path))
    with open_store(f"sqlite:///{tmp_path / FILE_NAME}") as store:
        for given in (first, first, second):
            keep_given_token(store, given)
        assert [token.secret_sha256 for token in store.tokens()] == [secret_hash(second)]
        assert store.tokens()[0].is_admin
        assert first_token(store, days=1) is None


def test_a_given_token_that_was_revoked_stays_so(tmp_path: Path) -> None:
    given = f"dally_{'a' * 40}"
    dallyd("migrate", "--data-dir", str(tmp_path))
    with open_store(f"sqlite:///{tmp_path / FILE_NAME}") as store:
        keep_given_token(store, given)
        (token,) = store.tokens()
        store.write(Unit(changes=(SaveToken(token=replace(token, is_revoked=True)),)))
        keep_given_token(store, given)
        assert store.tokens()[0].is_revoked


def test_every_flag_of_serve_is_a_setting() -> None:
    assert set(SERVE_FLAGS) <= set(Settings.model_fields)
