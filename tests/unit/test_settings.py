"""Settings: flags over environment over file over default; what is unknown is refused."""

from pathlib import Path

import pytest

from scheduler.config_file import ConfigError
from scheduler.domain.instants import seconds
from scheduler.settings import LogLevel, Role, Settings, flag_of, load_settings, variable_of


def problems(
    flags: dict[str, str | int | Path | bool | None] | None = None,
    environ: dict[str, str] | None = None,
    file: dict[str, object] | None = None,
) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load_settings(flags or {}, environ=environ or {}, file_values=file or {})  # type: ignore[arg-type]  # as YAML gives it
    return [f"{problem.place}: {problem.detail}" for problem in raised.value.problems]


def test_without_anything_the_defaults_hold() -> None:
    settings = load_settings({}, environ={})
    assert (settings.host, settings.port, settings.role) == ("127.0.0.1", 8470, Role.ALL)
    assert settings.data_dir.is_absolute()


def test_a_flag_wins_over_a_variable_that_over_the_file() -> None:
    file = {"port": 1, "host": "::1", "logLevel": "debug"}
    environ = {"DALLYD_PORT": "2", "DALLYD_HOST": "127.0.0.2"}
    settings = load_settings({"port": 3, "host": None}, environ=environ, file_values=file)  # type: ignore[arg-type]  # as YAML gives it
    assert (settings.port, settings.host) == (3, "127.0.0.2")
    assert settings.log_level is LogLevel.DEBUG


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    assert load_settings({}, environ={"DALLYD_PORT": ""}).port == 8470


def test_times_and_sizes_carry_their_units() -> None:
    environ = {"DALLYD_LEASE": "1m30s", "DALLYD_LOGS_BYTES_MAX": "2Gi"}
    settings = load_settings({}, environ=environ)
    assert (settings.lease, settings.logs_bytes_max) == (seconds(90), 2 << 30)


def test_an_unknown_variable_or_key_is_refused_with_the_nearest_name() -> None:
    assert problems(environ={"DALLYD_PROT": "1"}, file={"hots": "x"}) == [
        "DALLYD_PROT: there is no such setting; did you mean DALLYD_PORT?",
        "server.hots: there is no such setting; did you mean host?",
    ]


def test_a_weak_admin_token_is_refused_and_not_shown() -> None:
    (problem,) = problems(environ={"DALLYD_ADMIN_TOKEN": "dally_hunter2"})
    assert problem.startswith("DALLYD_ADMIN_TOKEN: a token is dally_ and 32 to 190")
    assert "hunter2" not in problem
    given = f"dally_{'a' * 43}"
    assert given not in str(load_settings({}, environ={"DALLYD_ADMIN_TOKEN": given}))


def test_variables_of_others_are_none_of_our_business() -> None:
    assert load_settings({}, environ={"DALLY_SERVER": "x", "PATH": "y"}).port == 8470


def test_all_mistakes_are_reported_at_once_each_with_where_it_stands() -> None:
    found = problems(flags={"port": "99999"}, environ={"DALLYD_LEASE": "20"}, file={"role": "boss"})
    assert [problem.split(":")[0] for problem in found] == ["--port", "server.role", "DALLYD_LEASE"]


def test_the_password_of_the_database_is_not_shown() -> None:
    settings = load_settings({"database_url": "postgresql://u:secret@h/d"}, environ={})
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        pytest.param("data_dir", "~nobody-at-all/x", "no such user's home", id="home"),
        pytest.param("database_url", "mysql://h/d", "must be postgresql://", id="another kind"),
        pytest.param("database_url", "postgresql://h", "must be postgresql://", id="no name"),
        pytest.param("database_url", "sqlite://", "must be postgresql://", id="in memory"),
        pytest.param("database_url", "postgresql://u:secret@h:p/d", "port is wrong", id="port"),
    ],
)
def test_a_place_that_can_not_be_is_refused_without_repeating_it(
    name: str, value: str, said: str
) -> None:
    (found,) = problems(flags={name: value})
    assert said in found
    assert "secret" not in found


@pytest.mark.parametrize("name", list(Settings.model_fields))
def test_every_setting_is_described(name: str) -> None:
    assert Settings.model_fields[name].description


def test_names_of_variables_and_flags_are_made_from_the_setting() -> None:
    assert (variable_of("data_dir"), flag_of("data_dir")) == ("DALLYD_DATA_DIR", "--data-dir")
