"""What the server writes about itself."""

import logging
from collections.abc import Iterator

import pytest

from scheduler.settings import LogLevel
from server.logs import set_up_logs


@pytest.fixture
def _root_logger_is_put_back() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_root_logger_is_put_back")
def test_a_traceback_in_the_log_does_not_tell_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(LogLevel.INFO)
    try:
        _look_up("dally_secret")
    except LookupError:
        logging.getLogger("api.gate").exception("request_failed")
    written = capsys.readouterr().err
    assert "the store is gone" in written
    assert "_look_up" in written
    assert "dally_secret" not in written


def _look_up(secret: str) -> None:
    if secret:
        raise LookupError("the store is gone")
