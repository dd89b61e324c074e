"""Settings that can not be served are refused with the reason and the way out."""

import pytest

from scheduler.config_file import ConfigError
from scheduler.settings import load_settings
from server.refusals import refuse_what_can_not_be

POSTGRES = "postgresql://dally@db/dally"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param({"host": "0.0.0.0"}, "--allow-plain-http", id="all addresses"),  # noqa: S104 - refused
        pytest.param({"host": "10.0.0.7"}, "tokens would cross the network", id="one address"),
        pytest.param({"host": "gpu-server"}, "reachable from outside", id="a name"),
        pytest.param({"role": "api"}, "PostgreSQL", id="a role on SQLite"),
        pytest.param(
            {"role": "scheduler", "database_url": POSTGRES},
            "the local executor runs workers beside the API",
            id="a scheduler without a cluster",
        ),
        pytest.param({"kill_point": "nowhere"}, "no point nowhere", id="kill point"),
        pytest.param({"kill_point": "submit.write.before:x"}, "no point", id="its count"),
    ],
)
def test_is_refused(flags: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        refuse_what_can_not_be(load_settings(flags, environ={}))


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"host": "localhost"}, id="localhost"),
        pytest.param({"host": "::1"}, id="IPv6 loopback"),
        pytest.param({"host": "0.0.0.0", "allow_plain_http": "true"}, id="spelled out"),  # noqa: S104 - allowed
        pytest.param({"role": "api", "database_url": POSTGRES}, id="an API of its own"),
        pytest.param({"kill_point": "submit.write.before"}, id="kill point"),
        pytest.param({"kill_point": "submit.write.before:7"}, id="its seventh time"),
    ],
)
def test_is_served(flags: dict[str, str]) -> None:
    refuse_what_can_not_be(load_settings(flags, environ={}))
