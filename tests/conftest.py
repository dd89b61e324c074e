"""What every test may ask for: the recorded data if it is there, and databases."""

import logging
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.databases import Databases
from tests.not_run import not_run
from tests.proof import Tally, is_long

pytest_plugins = ["tests.cluster.cluster_fixtures"]

# No verdict hangs on how busy the machine is.
hypothesis.settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-machine")

TALLY = Tally()
ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the whole suite."""
    parser.addoption(
        "--data",
        type=Path,
        default=ROOT.parent / "shared" / "data",
        metavar="DIR",
        help="recorded data that some tests read; write --data=DIR, with the equals sign "
        "(default: shared/data beside the checkout)",
    )
    parser.addoption(
        "--postgres-url",
        metavar="URL",
        help="a PostgreSQL server in which tests may make databases (default: one is started)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test has a name of its own: of those that share one, pytest-xdist runs one."""
    times_named = Counter(item.nodeid for item in items)
    shared = [name for name, count in times_named.items() if count > 1]
    if shared:
        raise pytest.UsageError(f"tests that share a name: {', '.join(shared)}")


@pytest.fixture(autouse=True)
def _loggers_stay_heard() -> Iterator[None]:
    """What silences loggers in this process fails here, not in a later test that reads logs."""
    before = _silent_loggers()
    yield
    silenced = _silent_loggers() - before
    for name in silenced:
        logging.getLogger(name).disabled = False
    assert not silenced, f"silenced by this test: {sorted(silenced)[:5]}"


def _silent_loggers() -> set[str]:
    loggers = logging.root.manager.loggerDict
    return {
        name
        for name, logger in loggers.items()
        if isinstance(logger, logging.Logger) and logger.disabled
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count what a long version shows."""
    report = yield
    if is_long():
        TALLY.note(item, report)
    return report


def pytest_sessionfinish() -> None:
    """Write what the long versions have shown into docs/proof.md."""
    TALLY.record()


@pytest.fixture(scope="session")
def data_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of recorded data. Where it is absent, tests that need it are not run."""
    folder: Path = pytestconfig.getoption("--data")
    if not folder.is_dir():
        not_run(f"no recorded data at {folder}; give its folder with --data=DIR")
    return folder


@pytest.fixture(scope="session")
def databases(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Databases]:
    """Makes migrated, otherwise empty databases."""
    given: str | None = pytestconfig.getoption("--postgres-url")
    with Databases(tmp_path_factory.mktemp("databases"), postgres_url=given) as made:
        yield made
