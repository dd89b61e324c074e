"""What is wrong with flags, settings and folders is said before the server itself is imported."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scheduler.adapters.sql.file_lock import FileLock
from scheduler.config_file import ConfigError
from scheduler.settings import load_settings
from server.data_folder import FILE_NAME, look_at_data_dir, make_data_dir

HEAVY = ("alembic", "fastapi", "sqlalchemy", "structlog", "uvicorn")

TELL_IMPORTS = f"""
import atexit, sys
from server.app import main
atexit.register(lambda: sys.stderr.write("imported: " + " ".join(
    name for name in {HEAVY!r} if name in sys.modules)))
main()
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--version",), "dallyd 0.", id="version"),
        pytest.param(("serve", "--help"), "--data-dir", id="help"),
        pytest.param(("serve", "--port", "x"), "Invalid value", id="flag"),
        pytest.param(("serve", "--slots", "-1"), "--slots: input should be", id="setting"),
        pytest.param(("serve", "--host", "8.8.8.8"), "--allow-plain-http", id="host"),
        pytest.param(("serve", "--data-dir", "/proc/x"), "can not be made", id="folder"),
        pytest.param(("migrate", "--database-url", "mysql://x/y"), "postgresql://", id="database"),
    ],
)
def test_nothing_heavy_is_imported(arguments: tuple[str, ...], said: str) -> None:
    command = [sys.executable, "-c", TELL_IMPORTS, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert said in ended.stdout + ended.stderr
    assert ended.stderr.endswith("imported: "), ended.stderr


def test_a_folder_that_is_served_is_refused_before_anything_heavy_is_imported(
    tmp_path: Path,
) -> None:
    lock = FileLock(tmp_path / f"{FILE_NAME}.lock")
    command = [sys.executable, "-c", TELL_IMPORTS, "serve", "--port", "0"]
    ended = subprocess.run(  # noqa: S603 - our own
        [*command, "--data-dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    lock.release()
    assert f"process {os.getpid()} already serves from {tmp_path}" in ended.stderr
    assert ended.stderr.endswith("imported: "), ended.stderr


@pytest.mark.parametrize(
    ("place", "said"),
    [
        pytest.param("/proc/x", "/proc/x can not be made or written to", id="nothing can be made"),
        pytest.param("{tmp}/file", "is not a folder, or lies below a file", id="a file"),
        pytest.param("{tmp}/file/data", "is not a folder, or lies below", id="below a file"),
        pytest.param("/dev/full", "is not a folder", id="a device"),
        pytest.param("{tmp}/" + "x" * 300, "File name too long", id="too long a name"),
    ],
)
def test_a_folder_that_can_not_be_used_is_refused(place: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = load_settings({"data_dir": place.format(tmp=tmp_path)}, environ={})
    with pytest.raises(ConfigError, match=said):
        make_data_dir(settings)


def test_a_folder_without_room_is_refused(tmp_path: Path) -> None:
    settings = load_settings({"data_dir": str(tmp_path / "data")}, environ={})
    with no_file_grows(), pytest.raises(ConfigError, match="can not be made or written to"):
        make_data_dir(settings)
    make_data_dir(settings)
    assert list((tmp_path / "data").iterdir()) == []


def test_looking_at_a_folder_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    new = load_settings({"data_dir": str(tmp_path / "a/b")}, environ={})
    assert look_at_data_dir(new) == f"{tmp_path}/a/b will be made"
    assert not (tmp_path / "a").exists()
    below = load_settings({"data_dir": str(tmp_path / "file/b")}, environ={})
    with pytest.raises(ConfigError, match="is not a folder, or lies below a file"):
        look_at_data_dir(below)


@contextmanager
def no_file_grows() -> Iterator[None]:
    """A write that makes a file larger fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
