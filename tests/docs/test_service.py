"""The systemd unit that the pages offer starts the server as it is, and leaves workers alone."""

import shlex
from configparser import ConfigParser

from scheduler.settings import flag_of
from server.app import SERVE_FLAGS
from tests.source_tree import ROOT

UNIT = ROOT / "docs" / "dallyd.service"


def the_service() -> dict[str, str]:
    parser = ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read(UNIT)
    return dict(parser["Service"])


def test_stopping_the_unit_does_not_stop_the_workers() -> None:
    service = the_service()
    assert service["KillMode"] == "process"
    assert service["OOMPolicy"] == "continue"
    assert not {"PrivateTmp", "RuntimeMaxSec"} & set(service)


def test_the_unit_starts_the_server_with_flags_it_has() -> None:
    program, command, *flags = shlex.split(the_service()["ExecStart"])
    assert program.endswith("/bin/dallyd")
    assert command == "serve"
    assert set(flags[::2]) <= {flag_of(name) for name in SERVE_FLAGS}


def test_the_page_explains_every_line_that_is_not_plain() -> None:
    page = (ROOT / "docs" / "running.md").read_text()
    for name in ("KillMode", "OOMPolicy", "Restart", "TasksMax", "LimitNOFILE"):
        assert f"`{name}" in page
