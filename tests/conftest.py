"""What every test may ask for: the recorded data, if it is there."""

from pathlib import Path

import pytest

from tests.not_run import not_run

ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the whole suite."""
    parser.addoption(
        "--data",
        type=Path,
        default=ROOT.parent / "shared" / "data",
        metavar="DIR",
        help="recorded data that some tests read (default: shared/data beside the checkout)",
    )


@pytest.fixture(scope="session")
def data_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of recorded data. Where it is absent, tests that need it are not run."""
    folder: Path = pytestconfig.getoption("--data")
    if not folder.is_dir():
        not_run(f"no recorded data at {folder}; give its folder with --data")
    return folder
